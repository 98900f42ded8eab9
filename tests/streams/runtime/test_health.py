"""Alive and ready, judged by progress."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from haltline.streams.runtime.health import HealthServer, Partition, Progress, Sample, follow, judge
from haltline.streams.runtime.metrics import Metrics
from tests.cases import cases

T0_S = 1_700_000_000.0


def sample(next_offset: int, end_offset: int, last_record_ms: int | None = None) -> Sample:
    return Sample(next_offset=next_offset, end_offset=end_offset, last_record_ms=last_record_ms)


def followed(*samples: tuple[float, Sample]) -> Progress:
    """Progress after samples at so many seconds from T0."""
    progress = None
    for after_s, seen in samples:
        progress = follow(progress, seen, T0_S + after_s)
    assert progress is not None
    return progress


@cases(
    "samples, now_s, lag_s",
    {
        "at first, since the process looks at it": ([(0, sample(5, 9, int((T0_S - 30) * 1000)))], 10.0, 10.0),
        "behind a backlog, since the time of the last record": (
            [(0, sample(5, 900)), (10, sample(50, 900, int((T0_S + 3) * 1000)))],
            12.0,
            9.0,
        ),
        "after a quiet day, since none waited": (
            [(0, sample(5, 5, int((T0_S - 86_400) * 1000))), (5, sample(5, 6, int((T0_S - 86_400) * 1000)))],
            6.0,
            6.0,
        ),
        "a producer's clock that is ahead": ([(0, sample(5, 6, int((T0_S + 3600) * 1000)))], 6.0, 0.0),
    },
)
def test_lag_in_seconds_is_how_long_the_oldest_waiting_record_can_have_waited(
    samples: list[tuple[float, Sample]], now_s: float, lag_s: float
) -> None:
    assert followed(*samples).lag_seconds(T0_S + now_s) == pytest.approx(lag_s)


QUIET = followed((0, sample(5, 5)))
WAITS = followed((0, sample(5, 9)), (50, sample(5, 9)))


@cases(
    "progress, now_s, recovered, alive, ready",
    {
        "no partitions: alive, and not ready": ({}, 0.0, False, True, False),
        "nothing waits for ever so long: ready": ({("a", 0): QUIET}, 1e6, True, True, True),
        "waits for the limit: stuck": ({("a", 0): WAITS}, 60.0, True, False, False),
        "no progress is expected in recovery": ({("a", 0): WAITS}, 999.0, False, True, False),
    },
)
def test_verdict(progress: dict[Partition, Progress], now_s: float, recovered: bool, alive: bool, ready: bool) -> None:
    verdict = judge(progress, T0_S + now_s, stuck_after_s=60.0, recovered=recovered)

    assert (verdict.alive, verdict.ready) == (alive, ready)
    assert bool(verdict.reasons) != ready


class Served:
    """A server whose verdict a test sets."""

    def __init__(self) -> None:
        self.verdict = judge({("a", 0): QUIET}, T0_S, stuck_after_s=60.0, recovered=True)
        self.metrics = Metrics()
        self.server = HealthServer("127.0.0.1", 0, verdict=lambda: self.verdict, exposition=self.metrics.exposition)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.server.close()


def test_a_healthy_worker_answers_with_its_metrics_and_a_stuck_one_says_where(served: Served) -> None:
    served.metrics.counter("rebalances_total").inc(3)
    assert [served.get(path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    status, body = served.get("/metrics")
    assert (status, "haltline_rebalances_total 3.0" in body) == (200, True)
    assert served.get("/nothing") == (404, "expected one of /healthz, /readyz, /metrics\n")
    served.verdict = judge({("b", 3): WAITS}, T0_S + 70, stuck_after_s=60.0, recovered=True)
    status, body = served.get("/healthz")

    assert status == 503
    assert json.loads(body)["stuck"] == [
        {"topic": "b", "partition": 3, "next_offset": 5, "lag_records": 4, "since_s": T0_S}
    ]
    assert served.get("/readyz?verbose")[0] == 503
