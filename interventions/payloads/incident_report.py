"""The report of an emergency stop: the facts known at the decision. Pure.

The last actions are not in it. A ring of 50 short ones took 1 kB in the mean and 4 kB at most, of states of 9 kB: work
for every action, and a seventh more changelog for every session, for the few that are stopped. The log has them
already, exact and with their results. The report states where, and `haltline incidents report` adds them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from haltline.interventions.payloads.remediation import things_lost
from haltline.interventions.state.context import Context
from haltline.interventions.state.intervention_history import History
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding
from haltline.schemas.intervening import Throttle
from haltline.schemas.payloads import Impact, Incident, Moment, Option, Recommendations, Rollback

MAX_FACTORS: Final = 5
MAX_THINGS: Final = 10
_STRICT: Final = 0.25
"""The factor on the limits of a session that continues after a stop."""

_IMMEDIATE: Final = "Keep the agent stopped until a person has reviewed its last actions."
_PREVENTIVE: Final[Mapping[str, str]] = {
    "destructive_repeat": (
        "Have the tool report clearly whether the object is gone: an agent repeats what seems to have failed."
    ),
    "destructive_volume": (
        "Declare bulk work in advance (haltline batch), and give the agent no more permissions than that."
    ),
    "evasion": "Remove the permissions that the refused act needs: a refusal alone was not enough.",
    "error_repetition": "Correct the cause of the error, or have the agent report it after the second time.",
    "resource_growth": "Have the tool return pages, and limit what one call may return.",
    "scope_creep": "Name the files in the task, and let the agent write nowhere else.",
    "hallucination": "Give the agent a way to list what exists.",
    "budget": "Set the session's own limits at its start.",
}


def incident(
    incident_id: str,
    event: ActionEvent,
    finding: Finding,
    *,
    history: History,
    context: Context,
    near: Mapping[str, float],
    found: Iterable[Finding],
    rollback: Rollback,
    throttle: Throttle,
) -> Incident:
    """Return the report of a kill."""
    session = context.session
    last = finding.evidence[-1]
    found = tuple(found)
    others = [f"{f.detector}: {f.reason}" for f in found if f is not finding]
    reported = {f.detector for f in found}
    nearest = sorted(near.items(), key=lambda item: (-item[1], item[0]))
    others += [f"{rule} was {value:.0%} of the way to a finding" for rule, value in nearest if rule not in reported]
    unheeded = [entry for entry in history.entries if entry.said and entry.helped is not None and entry.helped < 1]
    if unheeded:
        others.insert(0, f"{len(unheeded)} interventions before it did not help")
    return Incident(
        incident_id=incident_id,
        summary=f"Emergency stop triggered due to {finding.detector}: {finding.reason}"[:2000],
        severity=finding.severity,
        timeline=_timeline(event, finding, history),
        impact=Impact(
            actions=context.actions,
            events=session.events if session is not None else 0,
            running=tuple(call.action for call in session.calls.open.values())[:MAX_THINGS] if session else (),
            things=things_lost(context)[:MAX_THINGS],
        ),
        root_cause=f"{finding.code} by {event.action or 'the session'}"
        + (f" on {finding.target}" if finding.target else ""),
        contributing_factors=tuple(others[:MAX_FACTORS]),
        recommendations=Recommendations(
            immediate=(_IMMEDIATE, *_looks(context)),
            preventive=(_PREVENTIVE.get(finding.detector, "Correct the task or the tool that led there."),),
            configuration=(_configuration(finding),),
        ),
        recovery_options=_options(rollback, throttle),
        snapshot=_snapshot(event, history, context),
        history_topic=last.topic,
        history_partition=last.partition,
        history_until=last.offset,
    )


def _timeline(event: ActionEvent, finding: Finding, history: History) -> tuple[Moment, ...]:
    lines = [
        Moment(time=entry.time_ms, what=f"{entry.level} for {entry.rule} ({entry.severity})")
        for entry in history.entries
        if entry.said
    ]
    shown = [Moment(what=f"evidence: event {e.event_id}") for e in finding.evidence[:-1]]
    return (*shown, *lines, Moment(time=event.time, what=f"KILL at event {event.event_id}: {finding.code}"))


def _looks(context: Context) -> tuple[str, ...]:
    things = things_lost(context)
    return (f"Check whether these are still as they should be: {', '.join(things[:3])}",) if things else ()


def _configuration(finding: Finding) -> str:
    named = ", ".join(f"{name} {value}" for name, value in finding.thresholds.items())
    held = named or "its defaults"
    return f"rules.{finding.detector}.settings: {held} held; `haltline backtest` shows what others would have done"


def _options(rollback: Rollback, throttle: Throttle) -> tuple[Option, ...]:
    strict = {name: float(max(1, round(limit * _STRICT))) for name, limit in throttle.limits.items()}
    back = "Go back to the last safe checkpoint and try again another way"
    return (
        Option(
            option="resume_with_limits", description="Release it (haltline reset) with strict limits", limits=strict
        ),
        *(
            Option(option="rollback_and_retry", description=back, checkpoint=checkpoint)
            for checkpoint in [rollback.checkpoint]
            if checkpoint is not None
        ),
        Option(
            option="manual_intervention",
            description="Release it, and let a person approve each act but looking",
            approve=("write", "network", "exec", "mutate", "destructive"),
        ),
        Option(option="abort", description="Leave it stopped, and clean up what it began"),
    )


def _snapshot(event: ActionEvent, history: History, context: Context) -> dict[str, int | float | str | None]:
    session = context.session
    intervened = [entry for entry in history.entries if entry.said]
    return {
        "agent_id": event.agent_id,
        "seq": event.seq,
        "events": session.events if session is not None else None,
        "actions": context.actions,
        "last_failed_action": session.calls.failed if session is not None else None,
        "open_calls": len(session.calls.open) if session is not None else None,
        "interventions": len(intervened),
        "refusals": sum(Level(entry.level) >= Level.PAUSE for entry in intervened),
        "trust_debt": round(history.trust.debt, 3) if history.trust is not None else None,
    }
