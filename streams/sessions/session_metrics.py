"""The counts of the main path, as metrics of the worker."""

from typing import Final

from haltline.detectors import ALL as DETECTORS
from haltline.detectors.commands.model import ActEffect
from haltline.interventions.control.kills import REISSUED, UNACKNOWLEDGED
from haltline.interventions.decide.activity_after_kill import CODE
from haltline.interventions.levels.default_levels import shown_level
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.runtime.ports import Meter

ALERTED: Final = (REISSUED, UNACKNOWLEDGED, CODE, "approval_expired")
"""Labels used by alerts: they are 0 from the start, because Prometheus sees no increase in a counter that starts at
1."""

USAGES: Final = ("unknown", "known")
"""The label values of a turn's usage."""


class SessionMetrics(Meter):
    """A Meter that writes Prometheus metrics; caches the children for the hot path."""

    def __init__(self, metrics: Metrics) -> None:
        self._findings = metrics.children("findings_total")
        self._decisions = metrics.children("decisions_total")
        self._escalations = metrics.children("escalations_total")
        self._turns = metrics.children("model_turns_total")
        self._ahead = metrics.counter("events_ahead_total")
        self._judged = metrics.children("interventions_judged_total")
        self._irreversible = metrics.children("irreversible_acts_total")
        self._followups = metrics.children("followups_total")
        self._errors = metrics.children("detector_errors_total")
        self._letters = metrics.children("dead_letters_total")
        self._latency = metrics.histogram("decision_latency_seconds")
        self._stop = metrics.histogram("time_to_stop_seconds")
        self._policy = metrics.gauge("policy_version")
        self._refused = metrics.counter("policies_refused_total")
        for what in ALERTED:
            self._followups[(what,)].inc(0)
        for usage in USAGES:
            self._turns[(usage,)].inc(0)
        for effect in ActEffect:
            self._irreversible[(effect.value,)].inc(0)
        for detector in DETECTORS:
            self._errors[(detector.id,)].inc(0)
        for reason in BadRecord:
            self._letters[(reason.value,)].inc(0)

    def finding(self, finding: Finding) -> None:
        """Count a finding; one of a killed session is also counted for alerts."""
        self._findings[finding.detector, finding.severity.value].inc()
        if finding.code == CODE:
            self._followups[(CODE,)].inc()

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """Count a decision; no latency is recorded if the clock is behind the producer's."""
        shown = shown_level(decision.detector, decision.level)
        self._decisions[decision.detector or "none", shown, decision.mode.value].inc()
        if decision.choice is not None and (decision.choice.escalation or decision.choice.attempts):
            self._escalations[decision.detector, decision.level.value].inc()
        if latency_s is not None:
            self._latency.observe(max(0.0, latency_s))

    def model_turn(self, *, is_usage_known: bool) -> None:
        """Count a turn of a model; a turn with unknown usage does not count towards budgets."""
        self._turns[(USAGES[is_usage_known],)].inc()

    def event_ahead(self) -> None:
        """Count an event that was too far ahead of the log."""
        self._ahead.inc()

    def irreversible(self, effect: str) -> None:
        """Count an attempt by its effect."""
        self._irreversible[(effect,)].inc()

    def judged(self, detector: str, level: str, helped: float) -> None:
        """Count an intervention by how far it helped."""
        self._judged[detector, level, "yes" if helped >= 1 else "half" if helped > 0 else "no"].inc()

    def stopped(self, time_to_stop_s: float) -> None:
        """Record the seconds until a killed session had stopped."""
        self._stop.observe(max(0.0, time_to_stop_s))

    def followup(self, what: str) -> None:
        """Count an effect of operators, feedback or the clock."""
        self._followups[(what,)].inc()

    def detector_error(self, detector: str) -> None:
        """Count an event on which a detector raised."""
        self._errors[(detector,)].inc()

    def dead_letter(self, reason: BadRecord) -> None:
        """Count a record that could not be used."""
        self._letters[(reason.value,)].inc()

    def policy(self, name: str, version: int) -> None:
        """Record the policy in force; there is only one."""
        self._policy.clear()
        self._policy.labels(name).set(version)

    def policy_refused(self) -> None:
        """Count a policy document that could not be used."""
        self._refused.inc()
