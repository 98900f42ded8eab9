"""The worker as a process on a mock cluster; what becomes of its records under faults is the simulator's."""

import re
from collections.abc import Callable

from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.runtime.worker_process import EXIT_FAILED
from tests.mock_cluster import MockCluster
from tests.streams.counting import CountingWorker, get, produce, unused_port
from tests.waiting import wait_until

CHANGELOG = "counting-sessions-changelog"
TOPICS = ("commands", "events")


def worker_on(cluster: MockCluster, *, states: int = 4, **options: object) -> CountingWorker:
    """One whose changelog has so many partitions; its other topics have four."""
    for topic, partitions in (("events", 4), ("commands", 4), ("told", 4), (CHANGELOG, states)):
        cluster.create_topic(topic, partitions)
    settings = {"group": "counting", "fetch_wait_ms": FETCH_WAIT_MS, "session_timeout_s": 3, **options}
    return CountingWorker(cluster.bootstrap, topics=TOPICS, output="told", **settings)  # type: ignore[arg-type]  # by name


def test_topics_that_cannot_be_joined_by_partition_are_refused(mock_cluster: Callable[[], MockCluster]) -> None:
    with worker_on(mock_cluster(), states=3) as worker:
        assert worker.wait() == EXIT_FAILED
    assert (
        "expected the same number of partitions in each, "
        "got {'commands': 4, 'events': 4, 'counting-sessions-changelog': 3}" in worker.stderr
    )


def test_a_worker_whose_pipeline_hangs_says_that_it_is_stuck(mock_cluster: Callable[[], MockCluster]) -> None:
    port, cluster = unused_port(), mock_cluster()
    with worker_on(cluster, metrics_port=port, watermark_interval_s=0.1, stuck_after_s=1.0, hang_on=1):
        wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker is ready")
        produce(cluster.bootstrap, "events", ["session-1"])
        wait_until(lambda: get(port, "/healthz")[0] == 503, "the worker says that it is stuck")
        status, body = get(port, "/readyz")
        assert status == 503
        assert re.search(r'"reasons": \["events partition \d: 1 records wait at offset 0', body)
