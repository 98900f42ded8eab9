"""The thread that follows the ends of partitions."""

import time
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from confluent_kafka import Producer

from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.metrics import Metrics
from tests.mock_cluster import ApiKey, MockCluster
from tests.waiting import wait_until

REFUSED = 29  # TOPIC_AUTHORIZATION_FAILED


class Here:
    """A worker at the start of its only partition; `asked` counts how often it was asked where it is."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.asked = 0

    def positions(self) -> Mapping[Partition, tuple[int, int | None]]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return {("events", 0): (0, None)}

    def committed(self, partition: Partition) -> int | None:
        assert partition == ("events", 0)
        return None

    def recovered(self) -> bool:
        return True


def watch(cluster: MockCluster, place: Here, failures: list[BaseException], metrics: Metrics | None = None) -> LagWatch:
    return LagWatch(
        {"bootstrap.servers": cluster.bootstrap},
        place,
        metrics or Metrics(),
        interval_s=0.01,
        stuck_after_s=60.0,
        on_failure=failures.append,
    )


def test_an_exception_that_nobody_expects_is_reported_and_the_thread_ends(
    mock_cluster: Callable[[], MockCluster],
) -> None:
    failures: list[BaseException] = []
    place = Here(ValueError("a mistake of ours"))
    watching = watch(mock_cluster(), place, failures)
    wait_until(lambda: failures, "the failure is told")
    watching.close()
    assert [repr(failure) for failure in failures] == ["ValueError('a mistake of ours')"]
    assert place.asked == 1


def test_a_broker_that_does_not_answer_is_retried(
    mock_cluster: Callable[[], MockCluster], caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[BaseException] = []
    cluster = mock_cluster()
    cluster.create_topic("events", 1)
    cluster.fail_next(ApiKey.LIST_OFFSETS, [REFUSED])
    watching = watch(cluster, Here(), failures)
    wait_until(lambda: watching.verdict().ready, "the end of the partition is known")
    watching.close()
    assert "lag: the broker, which has the ends of the partitions, is away: " in caplog.text
    assert failures == []


def test_a_process_that_starts_behind_says_where_the_ends_are_and_how_long_its_first_record_waits_already(
    mock_cluster: Callable[[], MockCluster],
) -> None:
    cluster, written_s = mock_cluster(), time.time() - 600
    failures: list[BaseException] = []
    cluster.create_topic("events", 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(3):
        producer.produce("events", b"v", timestamp=int((written_s + number) * 1000))
    assert producer.flush(30) == 0
    for _ in range(2):  # it starts again, and has done nothing in between
        metrics = Metrics()
        watching = watch(cluster, Here(), failures, metrics)
        wait_until(partial(lags_behind, metrics, 600.0), "the lag in seconds is that of the first waiting record")
        watching.close()
        assert [shown(metrics, f"{name}_watermark") for name in ("low", "high")] == [0, 3]
        assert shown(metrics, "lag_records") == 3
    assert failures == []


def shown(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(f"haltline_consumer_{name}", {"topic": "events", "partition": "0"})


def lags_behind(metrics: Metrics, seconds: float) -> bool:
    return (shown(metrics, "lag_seconds") or 0.0) >= seconds
