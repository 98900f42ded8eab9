"""Alive and ready, judged by progress."""

import json
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from haltline.detectors import ALL as DETECTORS
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.intervening import Interventions
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.runtime.health import HealthServer, Partition, Progress, Sample, follow, judge
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.metrics import PREFIX, Metrics
from haltline.streams.sessions.session_metrics import SessionMetrics
from tests.builders import bash, cases
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.broker_log import get
from tests.waiting import wait_until

T0_S = 1_700_000_000.0


def sample(next_offset: int, end_offset: int, last_record_ms: int | None = None) -> Sample:
    return Sample(next_offset=next_offset, end_offset=end_offset, last_record_ms=last_record_ms)


def after_ms(seconds: float) -> int:
    return int((T0_S + seconds) * 1000)


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
        "at first, since the process looks at it": ([(0, sample(5, 9, after_ms(-30)))], 10.0, 10.0),
        "behind a backlog, since the time of the last record": (
            [(0, sample(5, 900)), (10, sample(50, 900, after_ms(3)))], 12.0, 9.0,
        ),
        "after a quiet day, since none waited": (
            [(0, sample(5, 5, after_ms(-86_400))), (5, sample(5, 6, after_ms(-86_400)))], 6.0, 6.0,
        ),
        "a producer's clock that is ahead": ([(0, sample(5, 6, after_ms(3600)))], 6.0, 0.0),
    },
)  # fmt: skip
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


def test_a_healthy_worker_answers_with_its_metrics_and_a_stuck_one_says_where() -> None:
    verdicts, metrics = [judge({("a", 0): QUIET}, T0_S, stuck_after_s=60.0, recovered=True)], Metrics()
    with closing(HealthServer("127.0.0.1", 0, verdict=lambda: verdicts[-1], exposition=metrics.exposition)) as server:
        metrics.counter("rebalances_total").inc(3)
        assert [get(server.port, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        status, body = get(server.port, "/metrics")
        assert (status, "haltline_rebalances_total 3.0" in body) == (200, True)
        assert get(server.port, "/nothing") == (404, "expected one of /healthz, /readyz, /metrics\n")
        verdicts.append(judge({("b", 3): WAITS}, T0_S + 70, stuck_after_s=60.0, recovered=True))
        status, body = get(server.port, "/healthz")
        assert get(server.port, "/readyz?verbose")[0] == 503
    assert status == 503
    assert json.loads(body)["stuck"] == [
        {"topic": "b", "partition": 3, "next_offset": 5, "lag_records": 4, "since_s": T0_S}
    ]


NONE = 0
OLD_EPOCH = 74  # FENCED_LEADER_EPOCH
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


def watch(
    cluster: MockCluster, place: Here, failures: list[BaseException], metrics: Metrics | None = None, **more: Any
) -> LagWatch:
    client: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap}
    settings: dict[str, Any] = {"interval_s": 0.01, "stuck_after_s": 60.0, **more}
    return LagWatch(client, place, metrics or Metrics(), on_failure=failures.append, **settings)


def test_an_exception_that_nobody_expects_is_reported_and_the_thread_ends(
    cluster: MockCluster,
) -> None:
    failures: list[BaseException] = []
    place = Here(ValueError("a mistake of ours"))
    watching = watch(cluster, place, failures)
    wait_until(lambda: failures, "the failure is told")
    watching.close()
    assert [repr(failure) for failure in failures] == ["ValueError('a mistake of ours')"]
    assert place.asked == 1


def test_a_broker_that_does_not_answer_is_retried(cluster: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []
    cluster.create_topic("events", 1)
    cluster.fail_next(ApiKey.LIST_OFFSETS, [REFUSED])
    watching = watch(cluster, Here(), failures)
    wait_until(lambda: watching.verdict().ready, "the end of the partition is known")
    watching.close()
    assert "lag: the broker, which has the ends of the partitions, is unavailable: " in caplog.text
    assert failures == []


def test_a_partition_that_was_just_assigned_is_looked_at_before_the_interval_is_over(cluster: MockCluster) -> None:
    cluster.create_topic("events", 1)
    watching = watch(cluster, Here(), [], interval_s=3600)
    assert not watching.verdict().ready
    watching.look_soon()
    wait_until(lambda: watching.verdict().ready, "the end of the partition is known")
    watching.close()


def test_the_ends_of_owned_partitions_are_told_after_a_crash_although_a_later_request_fails(
    cluster: MockCluster,
) -> None:
    cluster.create_topic("events", 1)
    cluster.fail_next(ApiKey.LIST_OFFSETS, [OLD_EPOCH, *[NONE, REFUSED] * 20])
    place, told = Here(), list[tuple[int, Mapping[Partition, int]]]()
    on_ends = lambda ends: told.append((place.asked, ends))  # noqa: E731
    watching = watch(cluster, place, [], owned=lambda: [("events", 0)], on_ends=on_ends)
    wait_until(lambda: told, "the ends are told")
    watching.close()
    assert told[0] == (1, {("events", 0): 0})


def test_what_alerts_wait_for_stands_at_0_and_what_is_not_in_the_table_is_an_error() -> None:
    metrics = Metrics("worker")
    exposed = {family.name for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert {name for name in exposed if name.startswith(PREFIX)} == {"haltline_build_info"}
    build = r'haltline_build_info\{component="worker",python="3\.\d+\.\d+",version="[^"]+"\} 1\.0'
    assert re.search(build, metrics.exposition().decode())
    meter = SessionMetrics(metrics)
    for what in ("kill_unacknowledged", "activity_after_kill", "approval_expired"):
        assert metrics.registry.get_sample_value("haltline_followups_total", {"what": what}) == 0
    for reason in BadRecord:
        assert metrics.registry.get_sample_value("haltline_dead_letters_total", {"reason": reason}) == 0
    found = {"detector": "killed", "severity": Severity.CRITICAL, "reason": "it goes on", "evidence": ()}
    for code in ("activity_after_kill", "kill_unacknowledged"):
        meter.finding(Finding.model_validate({**found, "code": code}))
    assert metrics.registry.get_sample_value("haltline_followups_total", {"what": "activity_after_kill"}) == 1
    assert _sum(metrics, "haltline_findings_total", detector="killed") == 2
    with pytest.raises(TypeError, match="metric rebalances_total: expected a Gauge, got a Counter"):
        Metrics().gauge("rebalances_total")
    with pytest.raises(KeyError, match="no_such"):
        Metrics().counter("no_such")


def test_whether_interventions_helped_is_counted_and_so_is_what_they_led_to() -> None:
    metrics = Metrics()
    meter = SessionMetrics(metrics)
    rules = {detector.id: Rule(enabled=False) for detector in DETECTORS}
    rules["error_repetition"] = Rule(levels=dict.fromkeys(Severity, Level.NUDGE))
    core = Core(Policy(cooldown_s=1, rules=rules, interventions=Interventions(after_warnings=2)))
    state = None
    for number in range(6):
        outcome = core.on_event(state, bash(10 * number, "cat a", "cat: a: No such file or directory"))
        state = outcome.state
        for judged in outcome.judged:
            meter.judged(*judged)
        if outcome.decision is not None:
            meter.decision(outcome.decision, None)
    assert _sum(metrics, "haltline_interventions_judged_total", helped="no") > 0
    assert _sum(metrics, "haltline_escalations_total", level="BLOCK") > 0


def _sum(metrics: Metrics, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(metrics.exposition().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(s.value for s in samples if labels.items() <= s.labels.items())
