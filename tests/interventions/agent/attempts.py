"""What becomes of calls behind a guard: `executed`, or the code of their refusal."""

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
