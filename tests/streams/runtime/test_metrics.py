"""The table of metrics: names, labels, and the copy of it in docs/operate.md."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from haltline.detectors import ALL as DETECTORS
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.intervening import Interventions
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.runtime.metrics import PREFIX, Metrics
from haltline.streams.sessions.session_metrics import SessionMetrics
from tests.builders import bash


def exposed(metrics: Metrics) -> set[str]:
    return {family.name for family in text_string_to_metric_families(metrics.exposition().decode())}


def test_what_alerts_wait_for_stands_at_0_and_what_is_not_in_the_table_is_an_error() -> None:
    metrics = Metrics("worker")
    assert {name for name in exposed(metrics) if name.startswith(PREFIX)} == {"haltline_build_info"}
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
    assert _sum(metrics, "haltline_escalations_total", level="PAUSE") > 0


def _sum(metrics: Metrics, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(metrics.exposition().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(s.value for s in samples if labels.items() <= s.labels.items())
