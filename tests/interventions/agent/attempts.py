"""Guards before a broker, and what becomes of calls behind a guard: `executed`, or the code of their refusal."""

from typing import Any

from haltline.interventions.agent import Guard, Refused


def attempt(guard: Guard, action: str = "get_asset", **options: Any) -> str:
    try:
        with guard.action(action, **options):
            return "executed"
    except Refused as refused:
        return refused.code


def attempts(guard: Guard, times: int, action: str = "delete_asset", asset_id: str = "fact_sales") -> list[str]:
    """The same call so many times."""
    return [attempt(guard, action, args={"asset_id": asset_id}) for _ in range(times)]


def guard_of(bootstrap: str, session_id: str = "s1", **options: Any) -> Guard:
    """A guard that is patient: a busy machine must not look like a silent worker."""
    patient: dict[str, Any] = {"agent_id": "cleaner", "budget_s": 20.0, "start_budget_s": 20.0}
    return Guard(session_id=session_id, bootstrap=bootstrap, **(patient | options))
