"""The worker as a process on a mock cluster; what becomes of its records under faults is the simulator's."""

from collections.abc import Callable

from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import MockCluster
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
