import asyncio
from pathlib import Path
from typing import Any

import pytest

from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.integrations.claude_code.hooks import Sessions
from haltline.interventions.agent.integrations.claude_code.stops import Earlier
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import Usage
from tests.builders import cases


def local(**settings: Any) -> GuardSettings:
    policy = {"rules": {"tree_budget": {"settings": settings}}}
    return GuardSettings(mode="local", session_id="root", agent_id="a", policy=policy)


def call(guard: Guard, action: str = "Task") -> str:
    try:
        with guard.action(action, args={"prompt": "count the tables"}):
            return "made"
    except Refused as refused:
        return refused.code


REFUSED = "no_agents_tree_budget"


@cases(
    "settings, tokens, root, child",
    {
        "the child is the last": ({"agents": 1}, 0, REFUSED, REFUSED),
        "two may run": ({"agents_at_once": 2}, 0, "made", "made"),
        "the root may start more, the child may not": ({"depth": 1}, 0, "made", REFUSED),
        "the child has used the rest": ({"limits": {"tokens": 90}}, 90, REFUSED, REFUSED),
        "and more than that": ({"limits": {"tokens": 90}}, 99, *["tree_frozen_tree_budget"] * 2),
    },
)
def test_a_tree_in_one_process_has_one_budget(settings: dict[str, Any], tokens: int, root: str, child: str) -> None:
    with Guard(local(**settings)) as guard, guard.subagent() as below:
        below.model_turn(usage=Usage(input_tokens=tokens))
        assert (call(guard), call(below)) == (root, child)
        assert [call(one, "Read") for one in (guard, below)] == ["made" if tokens < 99 else root] * 2


def test_what_a_child_leaves_comes_back_and_a_subagent_that_is_too_much_is_refused() -> None:
    with Guard(local(agents_at_once=1)) as guard:
        with guard.subagent() as below:
            assert (call(guard), call(below)) == (REFUSED, REFUSED)
            with pytest.raises(Refused, match="haltline starts no further agent since"):
                guard.subagent()
        assert [call(guard), call(guard)] == ["made", "made"]


def test_a_hook_refuses_the_task_and_a_later_process_goes_on_from_its_counts() -> None:
    def task(sessions: Sessions, number: int) -> dict[str, Any]:
        hook = {"session_id": "root", "hook_event_name": "PreToolUse", "tool_name": "Task", "tool_use_id": f"t{number}"}
        asked = {"tool_input": {"prompt": f"part {number}"}, "cwd": str(Path.cwd())}
        return dict(asyncio.run(sessions.answer(hook | asked)).get("hookSpecificOutput", {}))

    first = Sessions(local(agents=2), is_local=True)
    assert [task(first, 1), task(first, 2)] == [{}, {}]
    answer = task(Sessions(local(agents=2), is_local=True, earlier=Earlier(state=first.stored())), 3)
    assert answer["permissionDecision"] == "deny"
    assert "the tree of root has 0 of 2 agents left" in answer["permissionDecisionReason"]
