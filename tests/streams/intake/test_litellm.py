"""Responses to LiteLLM's generic guardrail API; with LiteLLM's real proxy in test_litellm_proxy.py."""

import asyncio
from typing import Any

import pytest

from haltline.schemas.control import ControlState
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.intake.litellm import MAX_ARGUMENTS_CHARS, MAX_CALLS, session_of
from haltline.streams.intake.requests import LITELLM
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn, decision, standing, third_delete_kills
from tests.streams.intaking import Post, asking, with_intake
from tests.waiting import wait_until

NONE = (200, {"action": "NONE"})


def asked(kind: str = "request", session_id: str | None = "s1", **fields: Any) -> dict[str, Any]:
    """A request of LiteLLM 1.106.2."""
    about = {"input_type": kind, "litellm_call_id": "turn-1", "litellm_trace_id": session_id or "made-by-litellm"}
    headers = {} if session_id is None else {"x-litellm-session-id": session_id}
    data = {"user_api_key_alias": "cleaner", "user_api_key_user_id": "u1"}
    empty: dict[str, Any] = {"texts": [], **dict.fromkeys(("images", "tools", "tool_calls", "structured_messages"))}
    more = {"request_headers": headers, "request_data": data, "additional_provider_specific_params": {}}
    return {**about, **more, **empty, "model": "gpt-4o", **fields}


def call(call_id: str = "c1", name: Any = "delete_asset", arguments: Any = '{"asset_id": "a"}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: dict[str, Any], turn: str = "turn-1", session_id: str = "s1") -> dict[str, Any]:
    return asked("response", session_id, litellm_call_id=turn, tool_calls=list(calls))


def posting(*bodies: dict[str, Any]) -> Any:
    return asking(*((LITELLM, body) for body in bodies))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-litellm-trace-id": "t"}, "t"),
        ({"X-LiteLLM-Session-Id": "t"}, "t"),
        ({"x-litellm-session-id": "other"}, None),
        ({"x-claude-code-session-id": "[present]"}, "t"),
        ({"x-session-id": "t"}, "t"),
        ({"session-id": "[present]", "user-agent": "codex_cli_rs/1.0"}, "t"),
        ({"session-id": "[present]", "user-agent": "curl"}, None),
        ({"user-agent": "curl"}, None),
        (None, None),
    ],
)
def test_a_session_is_one_that_the_agent_has_named(headers: Any, expected: str | None) -> None:
    assert session_of({"litellm_trace_id": "t", "request_headers": headers}) == expected


def test_calls_are_proposed_once_and_completed_by_the_next_request(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap) as worker:
        first, second = call(), call("c2", "read_file", '{"password": "hunter2"}')
        results = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [first, second]},
            {"role": "tool", "tool_call_id": "c1", "content": "gone"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "here"}]},
        ]
        bodies = [asked(), *[calling(first, second)] * 2, asked(structured_messages=results, texts=["x", "gone"])]
        assert with_intake(embedded.bootstrap, posting(*bodies)) == [NONE] * 4
        wait_until(lambda: len(worker.outcomes()) == 2, "both have ended")
        called = [(e.action, e.call_id, e.agent_id) for e in worker.of(Kind.PROPOSED)]
        assert called == [("delete_asset", "c1", "cleaner"), ("read_file", "c2", "cleaner")]
        assert worker.of(Kind.PROPOSED)[1].args == {"password": "[redacted:password]"}
        ends = [(e.outcome, e.output_head) for e in worker.of(Kind.COMPLETED)]
        assert ends == [(Outcome.OK, "gone"), (Outcome.OK, "here")]


@pytest.mark.parametrize("own_ids", [True, False], ids=["each turn has its id", "an agent gives all turns one id"])
def test_a_third_delete_stops_the_session_and_another_agent_does_not_go_on_in_it(
    embedded: EmbeddedBroker, own_ids: bool
) -> None:
    with StandIn(embedded.bootstrap, third_delete_kills()) as worker:
        of_other = {**calling(call()), "request_data": {"user_api_key_alias": "another"}}
        bodies = [asked()]
        for turn in range(3):
            one = calling(call(f"c{turn}"), turn=f"t{turn}") if own_ids else calling(call())
            bodies += [one, asked()]
        bodies += [asked("response", texts=["a text"]), asked(session_id="s2"), of_other]
        found = with_intake(embedded.bootstrap, posting(*bodies))
        *before, third, request, text, another, (_, of_other_agent) = found
        assert [*before, another] == [NONE] * 6
        for status, answer in (third, request, text):
            assert (status, answer["action"]) == (200, "BLOCKED")
            assert answer["blocked_reason"] == "KILL: for the model"
        expected = "other_agent: expected a session of another, got s1, one of another agent"
        assert of_other_agent["blocked_reason"] == expected
        wait_until(lambda: Outcome.REFUSED in worker.outcomes(), "the third was refused")
        assert {event.agent_id for event in worker.of(Kind.PROPOSED)} == {"cleaner"}


def test_a_call_that_needs_other_arguments_and_those_beside_it_are_not_made(embedded: EmbeddedBroker) -> None:
    def say(event: ActionEvent) -> Decision | Level:
        if event.action != "write_file":
            return Level.ALLOW
        return decision(Level.NUDGE, event).model_copy(update={"arguments": {"force": False}})

    with StandIn(embedded.bootstrap, say) as worker:
        body = calling(call(), call("c2", "write_file", '{"force": true}'), call("c3"))
        ((status, answer),) = with_intake(embedded.bootstrap, posting(body))
        assert (status, answer["action"]) == (200, "BLOCKED")
        assert 'only allowed with other arguments: {"force": false}' in answer["blocked_reason"]
        wait_until(lambda: len(worker.outcomes()) == 2, "both have ended")
        assert Outcome.REFUSED in worker.outcomes()
        assert len(worker.of(Kind.PROPOSED)) == 2


def test_a_hint_is_put_behind_its_result(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap, lambda event: decision(Level.NUDGE, event)):
        messages = [{"role": "assistant"}, {"role": "tool", "tool_call_id": "c1", "content": "gone"}]
        results = asked(structured_messages=messages, texts=["gone", "gone", "and now?"])
        changed = {"action": "GUARDRAIL_INTERVENED", "texts": ["gone", "gone\n\nNUDGE: for the model", "and now?"]}
        found = with_intake(embedded.bootstrap, posting(calling(call()), results, results))
        assert found[1:] == [(200, changed), NONE]


def test_a_kill_of_the_agent_holds_without_a_session_too(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap) as worker:

        async def talk(post: Post) -> Any:
            before = await post(LITELLM, asked(session_id=None))
            worker.control(standing(ScopeKind.AGENT, "cleaner", state=ControlState.KILLED))
            while (after := await post(LITELLM, asked(session_id=None))) == NONE:  # until the entry has arrived
                await asyncio.sleep(0.02)
            tools = await post(LITELLM, asked(session_id=None, tools=[{"type": "function"}]))
            return before, after, tools

        before, (_, after), (_, tools) = with_intake(embedded.bootstrap, talk)
        assert (before, after["action"]) == (NONE, "BLOCKED")
        assert tools["blocked_reason"].startswith("no_session: expected the header x-litellm-session-id")


def test_what_cannot_be_used_is_blocked_or_an_error(embedded: EmbeddedBroker) -> None:
    cases: list[tuple[dict[str, Any], int, str]] = [
        (asked("during"), 400, "input_type: expected request or response, got 'during'"),
        (asked(texts="x"), 400, "texts: expected a list of texts"),
        (asked(structured_messages=7), 400, "structured_messages: expected a list of objects"),
        (asked(session_id="x" * 257), 200, "session_id"),
        (calling(*[call()] * (MAX_CALLS + 1)), 200, f"at most {MAX_CALLS}, got {MAX_CALLS + 1}"),
        (calling(call(arguments="x" * (MAX_ARGUMENTS_CHARS + 1))), 200, "arguments: expected at most"),
        (calling(call(arguments="[" * 500_001)), 413, "at most 500000 values"),
    ]
    answers = with_intake(embedded.bootstrap, posting(*(body for body, *_ in cases)))
    for (_, status, expected), (found, answer) in zip(cases, answers, strict=True):
        assert (found, expected in (answer.get("blocked_reason") or str(answer["errors"]))) == (status, True), answer


def test_litellm_s_key_is_the_token(embedded: EmbeddedBroker) -> None:
    cases: list[tuple[str, dict[str, str], int]] = [
        (LITELLM, {"x-api-key": "secret"}, 200),
        (LITELLM, {"Authorization": "Bearer secret"}, 200),
        (LITELLM, {"x-api-key": "another"}, 401),
        (LITELLM, {}, 401),
        (LITELLM, {"x-api-key": "secret", "Authorization": "Bearer another"}, 401),
        ("/v1/verdict", {"x-api-key": "secret"}, 401),
    ]
    talk = asking(*((path, asked(), header) for path, header, _ in cases))
    with StandIn(embedded.bootstrap):
        found = with_intake(embedded.bootstrap, talk, token="secret")
    assert [status for status, _ in found] == [status for *_, status in cases]
