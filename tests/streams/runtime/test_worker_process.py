"""The worker as a process; what becomes of its records under faults is the simulator's."""

from collections.abc import Callable
from pathlib import Path

from haltline.schemas.keys import make_keys
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import MockCluster
from tests.streams.commands import haltline
from tests.streams.counting import CountingWorker


def test_topics_that_cannot_be_joined_by_partition_are_refused(mock_cluster: Callable[[], MockCluster]) -> None:
    cluster = mock_cluster()
    for topic, partitions in (("events", 4), ("commands", 4), ("counting-sessions-changelog", 3)):
        cluster.create_topic(topic, partitions)
    with CountingWorker(cluster.bootstrap, topics=("commands", "events"), output="told", group="counting") as worker:
        assert worker.wait() == EXIT_FAILED
    assert (
        "expected the same number of partitions in each, "
        "got {'commands': 4, 'events': 4, 'counting-sessions-changelog': 3}" in worker.stderr
    )


def test_a_key_that_is_none_is_refused_before_the_worker_starts(tmp_path: Path) -> None:
    public = make_keys(tmp_path / "worker.pem")
    done = haltline("worker", "--sealing-key", public, "--bootstrap", "127.0.0.1:9")
    assert (done.exit_code, "expected an ed25519 private key" in done.stderr) == (2, True)
