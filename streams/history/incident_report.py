"""The whole report of an incident: what was known at its hardest decision, and the session's log. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.payloads import Incident, Moment, Option
from haltline.schemas.record import Id, JsonObject

MAX_ACTIONS: Final = 50
"""The number of last actions before the stop."""
_NO_STOPS: Final = frozenset({"killed", "approval"})
"""Refusals after a stop, and answers of people."""
_MAX_FILES: Final = 100
_MAX_TEXT: Final = 200


class Report(Incident):
    """A report with what the session's log adds."""

    session_id: Id
    last_actions: tuple[JsonObject, ...]
    """The last calls before the decision: names, outcomes and the beginnings of errors, no arguments and outputs."""


def stop_of(decisions: Sequence[Decision], incident: IncidentRecord | None = None) -> Decision | None:
    """Return an incident's hardest decision, of equal ones the last; without an incident, the last kill."""
    found = [d for d in decisions if d.level is Level.KILL and d.detector not in _NO_STOPS]
    if incident is not None:
        found = [d for d in found if incident.first_at <= d.time <= incident.changed_at]
        found += [d for d in decisions if d.incident_id == incident.incident_id]
    return max(found, key=lambda d: (d.detector not in _NO_STOPS, d.level.rank, d.time), default=None)


def whole(stop: Decision, decisions: Sequence[Decision], events: Sequence[ActionEvent]) -> Report:
    """Return the report with its timeline and impact filled in, and the last actions before the stop."""
    report = stop.incident or _of_other(stop)
    before = [event for event in events if event.time <= stop.time]
    acts = [event for event in before if event.kind in (Kind.PROPOSED, Kind.COMPLETED)]
    began = min((event.time for event in before), default=stop.time)
    usage = [event.usage for event in before if event.usage is not None]
    spent = {
        "input_tokens": sum(one.input_tokens for one in usage),
        "output_tokens": sum(one.output_tokens for one in usage),
        "cost_usd": round(sum(one.cost_usd for one in usage), 6),
        "file_ops": sum(one.file_ops for one in usage),
    }
    touched = dict.fromkeys(t[:_MAX_TEXT] for event in acts for t in event.targets)
    records = [
        Moment(time=d.time, what=f"{d.level.value} {d.code}: {d.reason}"[:_MAX_TEXT])
        for d in decisions
        if d.time <= stop.time and d.level > Level.ALLOW and (d.detector or d.decision_id == stop.decision_id)
    ]
    first = [Moment(time=began, what="the session began")] if before else []
    impact = {
        "actions": report.impact.actions or sum(event.kind is Kind.PROPOSED for event in acts),
        "events": report.impact.events or len(before),
        "duration_s": round((stop.time - began) / 1000, 3),
        "resources": {name: float(amount) for name, amount in spent.items() if amount},
        "things": tuple([*dict.fromkeys((*report.impact.things, *touched))][:_MAX_FILES]),
    }
    return Report(
        **vars(report)
        | {
            "timeline": tuple(sorted([*first, *records], key=lambda moment: moment.time or 0)),
            "impact": report.impact.model_copy(update=impact),
            "session_id": stop.session_id,
            "last_actions": tuple(_last(acts)),
        }
    )


def _of_other(stop: Decision) -> Incident:
    """Return the report of a decision without one: of an operator, of a refusal on probation, or below KILL."""
    release = "haltline reset" if stop.level is Level.KILL else "haltline approve or reset"
    return Incident(
        incident_id=f"inc_{stop.decision_id}"[:256],
        summary=f"{'Emergency stop' if stop.level is Level.KILL else stop.level.value}: {stop.reason}"[:2000],
        severity=stop.severity or Severity.HIGH,
        root_cause=f"{stop.code} by {stop.action or stop.detector or 'an operator'}"
        + (f" on {stop.target}" if stop.target else ""),
        recovery_options=(
            Option(option="resume", description=f"Release it ({release}) when what led there is corrected"),
            Option(option="abort", description="Leave it stopped, and clean up what it began"),
        ),
    )


def _last(acts: Sequence[ActionEvent]) -> list[JsonObject]:
    """Return the last calls, each with its result if known."""
    calls: dict[str, JsonObject] = {}
    for event in acts:
        entry = calls.setdefault(event.call_id or event.event_id, {})
        entry.update({name: value for name, value in _act(event).items() if name not in entry or name == "outcome"})
    return list(calls.values())[-MAX_ACTIONS:]


def _act(event: ActionEvent) -> JsonObject:
    fields: dict[str, Any] = {
        "time": event.time,
        "event_id": event.event_id,
        "action": event.action,
        "targets": [target[:_MAX_TEXT] for target in event.targets[:10]],
        "outcome": event.outcome.value if event.outcome is not None else None,
        "error": event.error[:_MAX_TEXT] if event.error else None,
        "duration_ms": event.duration_ms,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], "")}
