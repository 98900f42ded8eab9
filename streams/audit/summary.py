"""One-line summaries of each kind of record. Pure."""

from collections.abc import Sequence

from haltline.interventions.levels.default_levels import is_ask
from haltline.schemas.control import Command, ControlRecord, Feedback
from haltline.schemas.dead_letter import DeadLetter
from haltline.schemas.decisions import Decision, Level, Mode, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Detection
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.native import EventFields
from haltline.schemas.notifications import NotificationRecord
from haltline.schemas.policy import Policy
from haltline.schemas.signals import Signal

_PROPOSED, _COMPLETED, _STARTED = Kind.PROPOSED.value, Kind.COMPLETED.value, Kind.SESSION_STARTED.value
_SHOWN_TARGETS = 3
_SHOWN_ERROR_CHARS = 200

_DONE = {
    Level.ALLOW: "allowed",
    Level.NUDGE: "nudged",
    Level.REINFORCE: "reinforced",
    Level.THROTTLE: "throttled",
    Level.PAUSE: "paused",
    Level.BLOCK: "blocked",
    Level.ROLLBACK: "rolled_back",
    Level.KILL: "killed",
}


def of_event(event: ActionEvent | EventFields) -> str:
    """`proposed delete_asset asset_id=fact_sales`, `completed delete_asset asset_id=fact_sales: error, still there`."""
    if event.kind == _PROPOSED:
        return " ".join(("proposed", event.action, *_few(event.targets)))
    if event.kind == _COMPLETED:
        words = " ".join(("completed", event.action, *_few(event.targets)))
        ending = ", ".join(filter(None, (event.outcome, (event.error or "")[:_SHOWN_ERROR_CHARS])))
        return f"{words}: {ending}" if ending else words
    if event.kind == _STARTED and event.task and event.task.goal:
        return f"session.started: {event.task.goal}"
    return event.kind


def of_detection(detection: Detection) -> str:
    """`loop_suspected (high, loop_guard): second delete of asset_id=fact_sales`."""
    finding = detection.finding
    return f"{finding.code} ({finding.severity}, {finding.detector}): {finding.reason}"


def of_decision(decision: Decision) -> str:
    """`session_killed: loop_detected, 3 deletes on asset_id=fact_sales in 12s`."""
    held_back = decision.mode.value if decision.mode is not Mode.ENFORCE else decision.experiment and "experiment"
    if held_back and decision.would is not None and decision.would > decision.level:
        return f"{held_back}, would be {_done(decision.scope, decision.would)}: {decision.reason}"
    done = "asked" if is_ask(decision.detector, decision.level) else _done(decision.scope, decision.level)
    return f"{done}: {decision.reason}"


def of_feedback(feedback: Feedback) -> str:
    """`refused delete_asset`, `children 2: child-1 child-2`."""
    if feedback.children:
        return f"{feedback.stage} {len(feedback.children)}: {' '.join(_few(feedback.children))}"
    words = " ".join(filter(None, (feedback.stage.value, feedback.action)))
    return f"{words}: {feedback.detail}" if feedback.detail else words


def of_incident(incident: IncidentRecord) -> str:
    """`incident 4f1c09ab opened: repetition, BLOCK, 1 time: ...`, `incident 4f1c09ab resolved (session_ended): ...`."""
    why = f" ({incident.resolution or incident.approval})" if incident.resolution or incident.approval else ""
    who = f" by {incident.by}" if incident.by else ""
    times = f"{incident.count} time{'' if incident.count == 1 else 's'}"
    name = f"incident {incident.incident_id[:8]} {incident.change}{why}{who}"
    return f"{name}: {incident.cause}, {incident.level}, {times}: {incident.comment or incident.summary}"


def of_command(command: Command) -> str:
    """`session_reset by alice: the table was restored`, `agent_kill cleaner by alice: it does not stop`."""
    who = "" if command.scope is ScopeKind.SESSION else f" {command.id}"
    return f"{command.scope}_{command.kind}{who} by {command.by}: {command.reason}"


def of_control(record: ControlRecord) -> str:
    """`session_killed by haltline: loop_detected, 3 deletes on asset_id=fact_sales in 12s; stopped after 40 ms`."""
    who = "" if record.scope is ScopeKind.SESSION else f" {record.id}"
    stopped = f"; stopped after {record.time_to_stop_ms} ms" if record.time_to_stop_ms is not None else ""
    return f"{record.scope}_{record.state}{who} by {record.by}: {record.reason}{stopped}"


def of_signal(signal: Signal) -> str:
    """`destructive of agent cleaner: delete_asset asset_id=fact_sales`."""
    what = " ".join(filter(None, (signal.action, signal.target)))
    words = f"{signal.kind} of {signal.scope} {signal.id}"
    return f"{words}: {what}" if what else words


def of_policy(policy: Policy) -> str:
    """`policy default version 3`."""
    return f"policy {policy.name} version {policy.version}"


def of_notification(notification: NotificationRecord) -> str:
    """`sent to alerts: incident inc_5d0c opened`, `sent to job: kill of session s1 by ada: 200: {}`."""
    why = f": {notification.detail}" if notification.detail else ""
    if (kill := notification.kill) is not None:
        return f"{notification.outcome} to {notification.channel}: kill of {kill.scope} {kill.id} by {kill.by}{why}"
    about = f"incident {notification.incident_id} {notification.change}"
    return f"{notification.outcome} to {notification.channel}: {about}{why}"


def of_dead_letter(letter: DeadLetter) -> str:
    """`unreadable (not_json) at haltline.actions[2]@17: expected value at line 1 column 1`."""
    return f"unreadable ({letter.reason}) at {letter.topic}[{letter.partition}]@{letter.offset}: {letter.detail}"


def _done(scope: ScopeKind, level: Level) -> str:
    # Only a kill applies to the scope; every level below it concerns one action.
    return f"{scope}_{_DONE[level]}" if level is Level.KILL else _DONE[level]


def _few(names: Sequence[str]) -> Sequence[str]:
    if len(names) <= _SHOWN_TARGETS:
        return names
    return (*names[:_SHOWN_TARGETS], f"and {len(names) - _SHOWN_TARGETS} more")
