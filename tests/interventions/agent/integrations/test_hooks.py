import asyncio
from typing import Any

import pytest

from haltline.interventions.agent.integrations.claude_code.hooks import AGENT_ID, OnApproval, Sessions
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.schemas.control import ControlState
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Novelty, Outcome

SETTINGS = GuardSettings(bootstrap="scripted", mode="blocking", budget_s=0.05, approval_wait_s=0)


class Hooks:
    """Claude Code's side: what it tells its hooks, and what they answer."""

    def __init__(
        self, *verdicts: Verdict, on_approval: OnApproval = "deny", settings: GuardSettings = SETTINGS
    ) -> None:
        self.guards: dict[str, ScriptedGuard] = {}
        self.made = 0
        self._verdicts = verdicts
        self.sessions = Sessions(settings, on_approval=on_approval, guard=self._guard)

    def _guard(self, settings: GuardSettings) -> ScriptedGuard:
        self.made += 1
        self.guards[settings.session_id] = ScriptedGuard(*self._verdicts, settings=settings)
        return self.guards[settings.session_id]

    def __call__(self, event: str, **fields: Any) -> dict[str, Any]:
        return asyncio.run(self.sessions.answer({"session_id": "s1", "hook_event_name": event, **fields}))

    def pre(self, name: str = "Bash", call_id: str = "t1", **fields: Any) -> dict[str, Any]:
        result = {"tool_input": {"command": "ls"}} | fields
        return self("PreToolUse", tool_name=name, tool_use_id=call_id, **result)

    def post(self, call_id: str = "t1", **fields: Any) -> dict[str, Any]:
        return self("PostToolUse", tool_use_id=call_id, **fields)

    def published(self, session_id: str = "s1") -> list[tuple[Kind, Outcome | None]]:
        return [(e.kind, e.outcome) for e in self.guards[session_id].events]


def changed(event: ActionEvent) -> Decision:
    return decision(Level.NUDGE, event, message="Only this way.", arguments={"command": "ls -l"})


REASON = "haltline: session_killed_loop_guard: This session was stopped."


@pytest.mark.parametrize(
    ("verdict", "fields", "expected"),
    [
        pytest.param(Level.ALLOW, {}, {}, id="a call that is allowed is left to Claude Code's own rules"),
        pytest.param(
            lambda e: decision(Level.NUDGE, e, message="Think again."),
            {},
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "Think again."}},
            id="a hint reaches the model",
        ),
        pytest.param(
            lambda e: decision(Level.REINFORCE, e, message="Go back.\nThe original request: tidy up"),
            {},
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "additionalContext": "Go back.\nThe original request: tidy up",
                }
            },
            id="the task reaches the model again",
        ),
        pytest.param(
            lambda e: decision(Level.BLOCK, e, code="scope_creep", message="Not this."),
            {},
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "scope_creep: Not this.",
                }
            },
            id="a blocked call is denied with the reason",
        ),
        pytest.param(
            lambda e: decision(Level.KILL, e, message="This session was stopped."),
            {},
            {
                "continue": False,
                "stopReason": REASON,
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": REASON.removeprefix("haltline: "),
                },
            },
            id="a kill denies the call and ends the turn",
        ),
        pytest.param(
            changed,
            {},
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "ask",
                    "permissionDecisionReason": "Only this way.",
                    "updatedInput": {"command": "ls -l"},
                    "additionalContext": "Only this way.",
                }
            },
            id="changed arguments are shown to the user",
        ),
        pytest.param(
            changed,
            {"permission_mode": "bypassPermissions"},
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "allow",
                    "permissionDecisionReason": "Only this way.",
                    "updatedInput": {"command": "ls -l"},
                    "additionalContext": "Only this way.",
                }
            },
            id="changed arguments are used where nobody is asked anyway",
        ),
    ],
)
def test_a_proposed_call_is_answered(verdict: Verdict, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert Hooks(verdict).pre(**fields) == expected


@pytest.mark.parametrize(("on_approval", "expected"), [("deny", "deny"), ("ask", "ask")])
def test_what_waits_for_approval_is_refused_or_put_to_the_user(on_approval: OnApproval, expected: str) -> None:
    def paused(event: ActionEvent) -> Decision:
        return decision(
            Level.PAUSE, event, code="approval_pending", message="A person is asked.", expires=event.time + 60_000
        )

    result = Hooks(paused, on_approval=on_approval).pre()["hookSpecificOutput"]
    assert (result["permissionDecision"], result["permissionDecisionReason"]) == (
        expected,
        "approval_pending: A person is asked.",
    )


@pytest.mark.parametrize(("name", "expected"), [("mcp__warehouse__drop_table", "deny"), ("Read", None), ("Bash", None)])
def test_without_a_verdict_only_calls_that_destroy_are_refused(name: str, expected: str | None) -> None:
    result = Hooks(None).pre(name)
    assert result.get("hookSpecificOutput", {}).get("permissionDecision") == expected


def test_a_call_and_its_result_are_reported_under_claude_codes_own_id() -> None:
    hooks = Hooks()
    hooks("SessionStart")
    assert hooks.pre(call_id="toolu_1") == {}
    assert hooks.post("toolu_1", tool_response={"stdout": "a.txt"}) == {}
    proposed, completed = hooks.guards["s1"].events[1:]
    assert (proposed.kind, proposed.call_id, proposed.args) == (Kind.PROPOSED, "toolu_1", {"command": "ls"})
    assert (completed.kind, completed.call_id, completed.outcome) == (Kind.COMPLETED, "toolu_1", Outcome.OK)
    assert completed.output_head == '{"stdout":"a.txt"}'
    assert completed.output_novelty == Novelty(new_words=2, words=2, results=0)


def test_a_failed_call_is_reported_with_its_error() -> None:
    hooks = Hooks()
    hooks.pre()
    hooks("PostToolUseFailure", tool_use_id="t1", error="no such file")
    assert (hooks.guards["s1"].events[-1].outcome, hooks.guards["s1"].events[-1].error) == (
        Outcome.ERROR,
        "ToolFailed: no such file",
    )


def test_calls_that_run_side_by_side_are_kept_apart() -> None:
    hooks = Hooks()
    hooks.pre(call_id="t1")
    hooks.pre("Read", call_id="t2")
    hooks.post("t2", tool_response="x")
    hooks.post("t1", tool_response="y")
    ends = [(e.call_id, e.action, e.output_head) for e in hooks.guards["s1"].events if e.kind is Kind.COMPLETED]
    assert ends == [("t2", "Read", "x"), ("t1", "Bash", "y")]


def test_a_call_that_its_user_did_not_allow_ends_as_unknown_with_the_turn() -> None:
    hooks = Hooks()
    hooks.pre()
    hooks("Stop")
    assert hooks.published()[-1] == (Kind.COMPLETED, Outcome.UNKNOWN)


def test_the_end_of_a_call_that_nobody_proposed_is_passed_over() -> None:
    hooks = Hooks()
    assert hooks.post("never") == {}
    assert hooks.published() == [(Kind.SESSION_STARTED, None)] or hooks.published() == []


def test_a_subagent_is_a_session_below_its_agents() -> None:
    hooks = Hooks()
    hooks.pre(agent_id="a7", agent_type="Explore")
    below = hooks.guards["s1/a7"].events[0]
    assert (below.session_id, below.parent_session_id, below.root_session_id) == ("s1/a7", "s1", "s1")
    assert below.agent_id == f"{AGENT_ID}/Explore"
    hooks("SubagentStop", agent_id="a7", agent_type="Explore")
    assert hooks.published("s1/a7")[-1] == (Kind.SESSION_ENDED, None)


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop"])
@pytest.mark.parametrize("state", [ControlState.KILLED, ControlState.FROZEN, ControlState.CONTAINED])
def test_every_hook_ends_the_turn_of_a_stopped_session(event: str, state: ControlState) -> None:
    hooks = Hooks()
    hooks.pre()
    hooks.guards["s1"].stand(state)
    halted = hooks(event, tool_use_id="t1").get("continue") is False
    assert halted == (state is not ControlState.CONTAINED), "what is contained may look, and say what it saw"


def test_a_killed_session_that_begins_again_asks_anew_whether_it_was_released() -> None:
    hooks = Hooks()
    hooks("SessionStart", source="startup")
    hooks.guards["s1"].kill()
    assert hooks.pre()["continue"] is False
    assert hooks("SessionStart", source="resume") == {}
    assert (hooks.made, hooks.pre()) == (2, {})


def test_the_end_of_the_session_ends_every_guard() -> None:
    hooks = Hooks()
    hooks.pre()
    hooks.pre(agent_id="a7")
    hooks("SessionEnd", reason="exit")
    assert [hooks.published(s)[-1] for s in ("s1", "s1/a7")] == [(Kind.SESSION_ENDED, None)] * 2


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"session_id": 7, "hook_event_name": "Stop"}, id="a session that is a number"),
        pytest.param({"session_id": "s", "hook_event_name": "PreToolUse"}, id="a call of no tool"),
    ],
)
def test_a_hook_that_cannot_be_read_says_where(hook: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"hook: \w+: expected a text, got"):
        asyncio.run(Hooks().sessions.answer(hook))


@pytest.mark.parametrize("event", ["Notification", "PreCompact", "SomethingNew"])
def test_a_hook_that_is_not_known_is_answered_with_nothing(event: str) -> None:
    assert Hooks()(event) == {}


def test_half_a_surrogate_pair_in_a_call_is_read() -> None:
    hooks = Hooks(Level.ALLOW)
    hooks.pre(tool_input={"command": "rm -rf x # \ud83d"}, call_id="")
    assert [e.args for e in hooks.guards["s1"].events if e.kind is Kind.PROPOSED] == [{"command": "rm -rf x # ?"}]
