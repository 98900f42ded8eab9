"""Records for the tests of the audit: one of each kind, and the scenario's own."""

from typing import Any

from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState, Feedback, Stage
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Detection, Finding, Severity
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.notifications import NotificationOutcome, NotificationRecord
from haltline.schemas.policy import Policy
from haltline.schemas.signals import Signal
from haltline.schemas.topics import Topics
from haltline.streams.audit.reading import KafkaRecord

TOPICS = Topics()
NOW_MS = 1_780_000_000_000  # 2026-05-28T20:26:40Z
TODAY = NOW_MS // 86_400_000
REASON = "loop_detected, 3 deletes on asset_id=fact_sales in 12s"


def record(topic: str, value: bytes | None, offset: int = 0, **more: Any) -> KafkaRecord:
    fields: dict[str, Any] = {"partition": 0, "timestamp_ms": NOW_MS, "key": b"42"}
    return KafkaRecord(topic=topic, value=value, offset=offset, **fields | more)


OF_SESSION = {"session_id": "42", "agent_id": "cleaner", "time": NOW_MS}


def event(**more: object) -> ActionEvent:
    fields = OF_SESSION | {"event_id": "e1", "kind": Kind.PROPOSED, "action": "delete_asset"}
    return ActionEvent.model_validate(fields | {"targets": ["asset_id=fact_sales"]} | more)


def completed(**more: object) -> ActionEvent:
    return event(kind=Kind.COMPLETED, outcome=Outcome.ERROR, error="asset still exists", **more)


def detection() -> Detection:
    finding = Finding(
        detector="destructive_repeat", code="loop_suspected", severity=Severity.MEDIUM, evidence=(),
        reason="second delete of asset_id=fact_sales", target="asset_id=fact_sales",
    )  # fmt: skip
    return Detection.model_validate(OF_SESSION | {"detection_id": "f1", "event_id": "e2", "finding": finding})


def decision(**more: object) -> Decision:
    fields = {
        "decision_id": "d1", "event_id": "e3", "level": Level.KILL, "code": "session_killed_loop_guard",
        "reason": REASON, "detector": "destructive_repeat", "severity": Severity.CRITICAL, "policy": "default",
        "policy_version": 3,
    }  # fmt: skip
    return Decision.model_validate(OF_SESSION | fields | more)


def feedback(**more: object) -> Feedback:
    fields = {"feedback_id": "a1", "decision_id": "d1", "stage": Stage.REFUSED, "action": "delete_asset"}
    return Feedback.model_validate(OF_SESSION | fields | more)


def command(**more: object) -> Command:
    fields = {"command_id": "c1", "kind": CommandKind.RESET, "id": "42", "by": "alice", "time": NOW_MS}
    return Command.model_validate(fields | {"reason": "the table was restored"} | more)


def control(**more: object) -> ControlRecord:
    fields = {
        "scope": ScopeKind.SESSION, "id": "42", "state": ControlState.KILLED, "code": "session_killed_loop_guard",
        "reason": REASON, "decision_id": "d1", "agent_id": "cleaner", "since": NOW_MS,
    }  # fmt: skip
    return ControlRecord.model_validate(fields | more)


def signal() -> Signal:
    fields = {"signal_id": "s1", "kind": "destructive", "scope": "agent", "id": "cleaner", "event_id": "e1"}
    about = {"session_id": "42", "time": NOW_MS, "action": "delete_asset", "target": "asset_id=fact_sales"}
    return Signal.model_validate(fields | about)


def incident(**more: object) -> IncidentRecord:
    fields = {
        "incident_id": "4f1c09abf00d", "revision": 1, "change": "opened", "state": "open", "scope": "session",
        "scope_id": "42", "cause": "destructive_repeat", "session_id": "42", "agent_id": "cleaner", "level": "BLOCK",
        "count": 1, "first_at": NOW_MS, "last_at": NOW_MS, "changed_at": NOW_MS, "summary": REASON, "decision_id": "d1",
    }  # fmt: skip
    return IncidentRecord.model_validate(fields | more)


def policy() -> Policy:
    return Policy(name="default", version=3)


def dead_letter(raw: bytes = b"not json") -> KafkaRecord:
    letter = DeadLetter(
        reason=BadRecord.NOT_JSON, detail="expected value at line 1 column 1", topic=TOPICS.actions, partition=2,
        offset=17, timestamp_ms=NOW_MS, key=b"42", raw=raw,
    )  # fmt: skip
    return record(TOPICS.dead_letter, raw, headers=tuple(letter.headers()))


def notification() -> NotificationRecord:
    return NotificationRecord(
        notification_id="ntf_1", message_id="ntf_1", incident_id="inc_1", revision=1, change=IncidentChange.OPENED,
        state=IncidentState.OPEN, level=Level.PAUSE, session_id="42", channel="pager", route="night",
        outcome=NotificationOutcome.FAILED, detail="expected an answer of success, got 503: busy", at=NOW_MS,
        due=NOW_MS,
    )  # fmt: skip


def one_of_each() -> list[KafkaRecord]:
    """A readable record of every topic."""
    return [
        record(TOPICS.actions, event().to_json()),
        record(TOPICS.detections, detection().to_json()),
        record(TOPICS.interventions, decision().to_json()),
        record(TOPICS.feedback, feedback().to_json()),
        record(TOPICS.incidents, incident().to_json()),
        record(TOPICS.notifications, notification().to_json()),
        record(TOPICS.commands, command().to_json()),
        record(TOPICS.signals, signal().to_json()),
        record(TOPICS.control, control().to_json(), key=b"session:42"),
        record(TOPICS.policies, policy().to_json(), key=b"default"),
        dead_letter(),
    ]
