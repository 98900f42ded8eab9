import asyncio
from typing import Any

import pytest

from haltline.interventions.agent import Guard, Refused
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy
from tests.builders import some
from tests.interventions.agent.attempts import attempts, refusal


def policy(decision: str = "nudge", **modification: Any) -> Policy:
    wire = {"id": "large", "condition": "args.limit > 100", "on_fail": {"decision": decision}}
    return Policy.model_validate(
        {
            "rules": {"repetition": {"enabled": False}},
            "interventions": {
                "acgp": [{"tripwires": [wire]}],
                "modifications": [{"action": "export", "rules": ["acgp"], **modification}],
            },
        }
    )


CAPPED: dict[str, Any] = {"cap": {"limit": 100}, "put": {"dry_run": True}}


def test_a_function_is_called_with_what_the_decision_puts_in_place_and_a_coroutine_function_too() -> None:
    seen: list[tuple[int, bool]] = []
    guard = Guard(mode="local", policy=policy(**CAPPED))

    @guard.tool
    def export(limit: int, *, dry_run: bool = False) -> str:
        seen.append((limit, dry_run))
        return "the same"

    @guard.tool(name="export")
    async def export_async(limit: int, **more: Any) -> str:
        return export.__wrapped__(limit, **more)  # type: ignore[attr-defined, no-any-return]  # the function itself

    for limit in (5000, 7, 6000):  # each time: it is no hint that a cooldown holds back
        export(limit)
    asyncio.run(export_async(limit=5000))
    assert seen == [(100, True), (7, False), (100, True), (100, True)]


@pytest.mark.parametrize(
    ("modification", "why"),
    [
        ({"put": {"dry_run": True}}, "dry_run is none of the function's"),
        ({"remove": ["limit"]}, "limit cannot be left out"),
    ],
)
def test_a_function_that_cannot_be_called_so_is_not_called_at_all(modification: dict[str, Any], why: str) -> None:
    seen: list[int] = []
    guard = Guard(mode="local", policy=policy(**modification))
    export = guard.tool(name="export")(lambda limit: seen.extend([limit]))
    with pytest.raises(Refused, match=f"only allowed with other arguments: {why}"):
        export(5000)
    export(50)
    assert seen == [50]


def test_a_rollback_names_the_checkpoint_that_the_agents_side_reported() -> None:
    levels = {severity.value: "ROLLBACK" for severity in Severity}
    guard = Guard(mode="local", policy=Policy.model_validate({"rules": {"destructive_repeat": {"levels": levels}}}))
    guard.checkpoint("before the deletes")
    assert attempts(guard, 1) == ["executed"]
    decision = some(refusal(guard, args={"asset_id": "fact_sales"}).decision)
    assert decision.level is Level.ROLLBACK
    # In this process there is no log with offsets, and all of it happened within a moment: none is surely from before.
    assert some(decision.rollback).recovery_needed
    assert "before the deletes: may have been taken after the issue began" in some(decision.rollback).why
