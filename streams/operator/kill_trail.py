"""What became of a kill: ordered, acknowledged by the agent, confirmed by an actuator, still active. Pure."""

from collections.abc import Iterable
from typing import Final

from haltline.interventions.decide.activity_after_kill import CODE as STILL_ACTIVE
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.notifications import NotificationOutcome, NotificationRecord
from haltline.schemas.record import rfc3339

UNCONFIRMED: Final = "nothing confirms this kill"
"""The line of a kill that neither an agent has acknowledged nor an actuator confirmed."""


def kill_trail(
    control: ControlRecord | None, answers: Iterable[NotificationRecord], incidents: Iterable[IncidentRecord]
) -> list[str]:
    """Return the last kill of one session or agent in lines, in order; none without a kill.

    `control`: its entry in force, if any. `answers` and `incidents`: those of the same session or agent.
    """
    in_force = control if control is not None and control.state is ControlState.KILLED else None
    called = sorted((one for one in answers if one.kill is not None), key=lambda one: (one.due, one.at))
    if in_force is None and not called:
        return []
    last = in_force.decision_id if in_force is not None else called[-1].incident_id
    called = [one for one in called if one.incident_id == last]
    ordered_ms = in_force.stands_since if in_force is not None else called[0].due
    by = in_force.by if in_force is not None else next((one.kill.by for one in called if one.kill is not None), "")
    lines = [f"{rfc3339(ordered_ms)}  kill ordered by {by}" + ("" if in_force is not None else "; released since")]
    stopped_ms = None if in_force is None else in_force.stopped_at
    if stopped_ms is not None:
        lines.append(f"{rfc3339(stopped_ms)}  acknowledged by the agent's side")
    elif in_force is not None:
        lines.append("not acknowledged by the agent's side")
    lines += [f"{rfc3339(one.at)}  {_answer(one)}" for one in called]
    active = [one.last_at for one in incidents if STILL_ACTIVE in (one.causes or [one.cause])]
    if active and max(active) >= ordered_ms:
        lines.append(f"{rfc3339(max(active))}  still active")
    confirmed = any(one.outcome is NotificationOutcome.SENT and not (one.kill and one.kill.disarm) for one in called)
    return lines if confirmed or stopped_ms is not None or in_force is None else [*lines, UNCONFIRMED]


def _answer(record: NotificationRecord) -> str:
    """`confirmed by job after 2 attempts: 200`, `disarmed by cron: 200`, `not confirmed by job (failed): ...`."""
    disarms = record.kill is not None and record.kill.disarm
    done = "disarmed" if disarms else "confirmed"
    if record.outcome is not NotificationOutcome.SENT:
        return f"not {done} by {record.channel} ({record.outcome}): {record.detail}".removesuffix(": ")
    times = f" after {record.attempts} attempts" if record.attempts > 1 else ""
    return f"{done} by {record.channel}{times}: {record.detail}"
