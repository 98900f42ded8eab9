"""The full report of a stop: what was known at the decision, and the session's log. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Severity
from haltline.schemas.payloads import Incident, Moment, Option
from haltline.schemas.record import JsonObject

MAX_ACTIONS: Final = 50
"""The number of last actions before the stop."""
_REFUSED_AFTER: Final = "killed"
_MAX_FILES: Final = 100
_MAX_TEXT: Final = 200


def stop_of(decisions: Sequence[Decision], incident_id: str | None = None) -> Decision | None:
    """Return the decision that stopped the session, by default the last one; not a refusal after the stop."""
    reported = [d for d in decisions if d.level is Level.KILL and d.detector != _REFUSED_AFTER]
    if incident_id is not None:
        reported = [
            d
            for d in reported
            if incident_id == d.decision_id or (d.incident is not None and incident_id == d.incident.incident_id)
        ]
    return reported[-1] if reported else None


def whole(
    stop: Decision, decisions: Sequence[Decision], events: Sequence[ActionEvent]
) -> tuple[Incident, list[JsonObject]]:
    """Return the report with its timeline and impact filled in, and the last actions before the stop.

    It has names, outcomes and the beginnings of errors only, and no arguments and outputs.
    """
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
        if d.time <= stop.time and d.level > Level.ALLOW and d.detector
    ]
    first = [Moment(time=began, what="the session began")] if before else []
    return (
        report.model_copy(
            update={
                "timeline": tuple(sorted([*first, *records], key=lambda moment: moment.time or 0)),
                "impact": report.impact.model_copy(
                    update={
                        "duration_s": round((stop.time - began) / 1000, 3),
                        "resources": {name: float(amount) for name, amount in spent.items() if amount},
                        "things": tuple([*dict.fromkeys((*report.impact.things, *touched))][:_MAX_FILES]),
                    }
                ),
            }
        ),
        _last(acts),
    )


def _of_other(stop: Decision) -> Incident:
    """Return the report of a stop by an operator, or by a refusal on probation."""
    return Incident(
        incident_id=f"inc_{stop.decision_id}"[:256],
        summary=f"Emergency stop: {stop.reason}"[:2000],
        severity=stop.severity or Severity.HIGH,
        root_cause=stop.code,
        recovery_options=(
            Option(option="resume", description="Release it (haltline reset) when what led there is corrected"),
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
