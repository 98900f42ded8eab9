"""Guards on a broker, verdicts, and the results of calls: `executed`, or the code of their refusal.

Imported in every environment of a framework.
"""

from typing import Any

from haltline.interventions.agent import Guard, Refused
from haltline.interventions.agent.testing import ScriptedGuard, decision
from haltline.interventions.state.call_digest import parameters
from haltline.schemas.decisions import Approval, ApprovalState, Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome

KILLED = "session_killed_loop_guard"


def attempt(guard: Guard, action: str = "get_asset", **options: Any) -> str:
    try:
        with guard.action(action, **options):
            return "executed"
    except Refused as refused:
        return refused.code


def refusal(guard: Guard, action: str = "delete_asset", **options: Any) -> Refused:
    """Of a call that is not executed."""
    try:
        with guard.action(action, **options):
            pass
    except Refused as refused:
        return refused
    raise AssertionError("expected a refusal, got a call that was executed")


def block(event: ActionEvent) -> Decision:
    return decision(Level.BLOCK, event, code="scope_creep", message="Not this.")


def hint(event: ActionEvent) -> Decision:
    return decision(Level.NUDGE, event, message="Think again.")


def pause(event: ActionEvent) -> Decision:
    expires = event.time + 60_000
    return decision(Level.PAUSE, event, code="approval_pending", message="A person is asked.", expires=expires)


def list_instead(event: ActionEvent) -> Decision:
    return decision(Level.NUDGE, event, message="Only this way.", arguments={"command": "ls -l"})


def of(guard: ScriptedGuard, kind: Kind) -> list[ActionEvent]:
    return [event for event in guard.events if event.kind is kind]


def outcomes(guard: ScriptedGuard) -> list[Outcome | None]:
    return [event.outcome for event in of(guard, Kind.COMPLETED)]


def stages(guard: ScriptedGuard) -> list[str]:
    return [feedback.stage.value for feedback in guard.feedback]


def attempts(guard: Guard, times: int, action: str = "delete_asset", asset_id: str = "fact_sales") -> list[str]:
    """The same call so many times."""
    return [attempt(guard, action, args={"asset_id": asset_id}) for _ in range(times)]


def guard_of(bootstrap: str, session_id: str = "s1", **options: Any) -> Guard:
    """A guard that is patient: a busy machine must not look like a silent worker."""
    patient: dict[str, Any] = {"agent_id": "cleaner", "budget_s": 20.0, "start_budget_s": 20.0}
    return Guard(session_id=session_id, bootstrap=bootstrap, **(patient | options))


def about_approval(
    event: ActionEvent, state: ApprovalState, level: Level, *, request_id: str = "a1", **fields: Any
) -> Decision:
    """A decision about the request to let this call pass, which expires ten minutes later."""
    approval = Approval(
        request_id=request_id,
        nonce="n",
        parameters=parameters(event) or "",
        state=state,
        since=event.time,
        expires=event.time + 600_000,
    )
    return decision(level, event, approval=approval, expires=approval.expires, **fields)
