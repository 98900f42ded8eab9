"""The time of an event: its own, unless it is far ahead of the time at which the log took it.

The time of a clock that has jumped would end every window, and a day ahead the session's history. Late events are left
as they are: the agent's side keeps events during an outage and sends them hours later.
"""

from dataclasses import replace
from typing import Final

from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.streams.engine.session_state import Effects

AHEAD_MS: Final = 300_000
"""The most by which an event may be ahead of the log: clocks that are not synchronized differ by minutes."""

_REASON_CHARS: Final = 16_000


def ahead_ms(event: ActionEvent, taken_ms: int) -> int:
    """Return by how much an event is too far ahead of the log's time, 0 if it is not; `taken_ms` 0: no known time."""
    ahead = event.time - taken_ms
    return ahead if ahead > AHEAD_MS and taken_ms > 0 else 0


def at_log_time(event: ActionEvent, ahead: int) -> ActionEvent:
    """Return the event at the time at which the log took it."""
    return event.model_copy(update={"time": event.time - ahead})


def effects_for(effects: Effects, ahead: int) -> Effects:
    """Return the effects of such an event, with decisions for an agent whose clock is ahead."""
    decision = effects.decision and decision_for(effects.decision, ahead)
    return replace(effects, decision=decision, also=tuple(decision_for(one, ahead) for one in effects.also))


def decision_for(decision: Decision, ahead: int) -> Decision:
    """Return the decision with the times of the agent's clock, as its side compares them; its reason names the jump."""
    note = f"the event was {ahead / 60_000:,.0f} minutes ahead of the log, whose time was used"
    changes: dict[str, object] = {
        "time": decision.time + ahead,
        "reason": f"{decision.reason[:_REASON_CHARS]} ({note})",
    }
    if decision.expires is not None:
        changes["expires"] = decision.expires + ahead
    if (request := decision.approval) is not None:
        changes["approval"] = request.model_copy(
            update={"since": request.since + ahead, "expires": request.expires + ahead}
        )
    return decision.model_copy(update=changes)
