"""The outputs of the main path: effects as records on their topics, and counts of them."""

from collections.abc import Callable, Iterable, Sequence

from haltline.interventions.state.effects import ControlEffects
from haltline.schemas.control import ControlRecord, control_key
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.findings import Detection, Finding
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.signals import Signal
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Effects
from haltline.streams.engine.cross_session import ScopeEffects
from haltline.streams.engine.groups import Runs
from haltline.streams.engine.log_position import Failure
from haltline.streams.runtime.ports import Meter, Sender
from haltline.streams.runtime.processor_api import RawRecord


class Outputs:
    """The outputs of one group of workers: a group for rules in shadow publishes and counts only theirs."""

    def __init__(self, sender: Sender, meter: Meter, *, topics: Topics, runs: Runs, now_ms: Callable[[], int]) -> None:
        shadow = runs is Runs.SHADOW
        self.meter: Meter = ShadowMeter(meter) if shadow else meter
        self._sender: Sender = ShadowSender(sender, topics) if shadow else sender
        self._topics = topics
        self._runs = runs
        self._now_ms = now_ms

    def mute(self) -> None:
        """Publish and count nothing from now on."""
        self.meter, self._sender = Meter(), _Nowhere()

    def session(self, effects: Effects, record: RawRecord | None) -> None:
        """Publish a session's effects; `record` is their cause, None for the clock."""
        key = effects.state.session_id.encode()
        for detection in effects.detections:
            self._detection(key, detection)
        if effects.decision is not None:
            now_ms = self._decision(key, effects.decision, record)
            if effects.control is not None:
                first_ms = effects.control.decided_at or now_ms
                self.control(effects.control.model_copy(update={"decided_at": first_ms}))
        elif effects.control is not None:
            self.control(effects.control)
        for more in effects.also:
            self._decision(key, more, record)
        if effects.released:
            self.release(ScopeKind.SESSION, effects.state.session_id)
        self.incidents(effects.incidents)
        self._signals(effects.signals)
        if effects.followup:
            self.meter.followup(effects.followup)
        for judged in effects.judged:
            self.meter.judged(*judged)
        for act in effects.irreversible:
            self.meter.irreversible(act.effect.value)
        if record is not None:  # always given if there are failures: the clock calls no detector
            self._failures(effects.failures, record)

    def scope(self, effects: ScopeEffects, session_id: str, record: RawRecord) -> None:
        """Publish the effects of a session's signal on a scope above sessions."""
        key = session_id.encode()
        for detection in effects.detections:
            self._detection(key, detection)
        for decision in effects.decisions:
            self._decision(decision.session_id.encode(), decision, record)
        self.incidents(effects.incidents)
        if effects.lifted:
            self.release(ScopeKind(effects.state.scope), effects.state.id)
        for control in effects.controls:
            self.control(control.model_copy(update={"decided_at": self._now_ms()}))
        for command in effects.commands:
            self._sender.send(self._topics.commands, key=command.id.encode(), value=command.to_json())
        self._signals(effects.signals)
        self._failures(effects.failures, record)

    def command(self, effects: ControlEffects, scope: ScopeKind, scope_id: str) -> None:
        """Publish the effects of a command on a scope above sessions."""
        if effects.control is not None:
            self.control(effects.control.model_copy(update={"decided_at": self._now_ms()}))
        if effects.released:
            self.release(scope, scope_id)
        self.incidents(effects.incidents)
        if effects.followup:
            self.meter.followup(effects.followup)

    def control(self, control: ControlRecord) -> None:
        """Publish an entry of the control topic."""
        self._sender.send(self._topics.control, key=control.key.encode(), value=control.to_json())

    def release(self, scope: ScopeKind, scope_id: str) -> None:
        """Remove an entry from the control topic."""
        self._sender.send(self._topics.control, key=control_key(scope, scope_id).encode(), value=None)

    def incidents(self, incidents: Iterable[IncidentRecord]) -> None:
        """Publish revisions of incidents."""
        for incident in incidents:
            self._sender.send(self._topics.incidents, key=incident.key.encode(), value=incident.to_json())

    def dead_letter(self, record: RawRecord, reason: BadRecord, detail: str) -> None:
        """Publish an unusable record to the dead letter topic, whole, with the reason; the next record is processed."""
        letter = DeadLetter(
            reason=reason,
            detail=detail[:2000],
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            record_headers=tuple(record.headers),
        )
        self.letter(letter, key=record.key, value=record.value)

    def letter(self, letter: DeadLetter, *, key: bytes | None, value: bytes | None) -> None:
        """Publish a record of the dead letter topic."""
        self._sender.send(self._topics.dead_letter, key=key, value=value, headers=letter.headers())
        self.meter.dead_letter(letter.reason)

    def _detection(self, key: bytes, detection: Detection) -> None:
        if self._runs.says(detection):
            self._sender.send(self._topics.detections, key=key, value=detection.to_json())
            self.meter.finding(detection.finding)

    def _decision(self, key: bytes, decision: Decision, record: RawRecord | None) -> int:
        """Publish a decision. Returns the time of that, in epoch milliseconds."""
        now_ms = self._now_ms()
        if self._runs.says(decision):
            decision = decision.model_copy(update={"decided_at": now_ms})
            self._sender.send(self._topics.interventions, key=key, value=decision.to_json())
            self.meter.decision(decision, None if record is None else (now_ms - record.timestamp) / 1000)
        return now_ms

    def _signals(self, signals: Iterable[Signal]) -> None:
        for signal in signals:
            self._sender.send(self._topics.signals, key=signal.id.encode(), value=signal.to_json())

    def _failures(self, failures: Iterable[Failure], record: RawRecord) -> None:
        for failure in failures:
            self.meter.detector_error(failure.detector)
            self.dead_letter(record, BadRecord.DETECTOR_FAILED, f"{failure.detector}: {failure.error!r}")


class _Nowhere:
    """A Sender that drops everything."""

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Drop one record."""


class ShadowSender:
    """A Sender that passes on the findings and hypothetical decisions of rules in shadow, and drops all else."""

    def __init__(self, sender: Sender, topics: Topics) -> None:
        self._sender = sender
        self._handed_on = frozenset({topics.detections, topics.interventions})

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Send one record if it is one of these."""
        if topic in self._handed_on:
            self._sender.send(topic, key=key, value=value, headers=headers)


class ShadowMeter(Meter):
    """A Meter of what the other group does not count."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def finding(self, finding: Finding) -> None:
        """Count a finding of a rule in shadow."""
        self._meter.finding(finding)

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """Count a hypothetical decision."""
        self._meter.decision(decision, latency_s)

    def detector_error(self, detector: str) -> None:
        """Count an exception of a rule in shadow."""
        self._meter.detector_error(detector)

    def dead_letter(self, reason: BadRecord) -> None:
        """Count a record that ended this group's workers; the others are counted by the other group."""
        if reason is BadRecord.ENDED_WORKER:
            self._meter.dead_letter(reason)

    def policy(self, name: str, version: int) -> None:
        """Record the policy of this group's workers."""
        self._meter.policy(name, version)

    def policy_refused(self) -> None:
        """Count a policy document that could not be used."""
        self._meter.policy_refused()
