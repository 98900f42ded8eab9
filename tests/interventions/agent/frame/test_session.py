import asyncio
from typing import Any

import pytest

from haltline.interventions.agent.frame import session as framework_session
from haltline.interventions.agent.frame.session import (
    Allowed,
    FrameworkSession,
    ResultUnknown,
    arguments_of,
)
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Outcome
from tests.builders import cases
from tests.interventions.agent.attempts import hint, outcomes


def allowed(session: FrameworkSession, call_id: str | None = "c1", **args: Any) -> Allowed:
    verdict = session.before(call_id, "work", args)
    assert isinstance(verdict, Allowed)
    return verdict


def test_an_effect_is_checked() -> None:
    with pytest.raises(ValueError, match="effect: expected one of"):
        FrameworkSession(ScriptedGuard(), effects={"work": "harmless"})


def test_the_hint_of_a_call_without_a_result_comes_with_the_next_one_and_once() -> None:
    guard = ScriptedGuard(hint)
    session = FrameworkSession(guard)
    session.failed(allowed(session).call_id, ValueError("no such path"))
    call_id = allowed(session, "c2").call_id
    assert [session.after(call_id, "done"), session.after(call_id, "done")] == ["Think again.", ""]
    assert not session.complete(call_id), "it has ended"
    assert session.after(allowed(session, "c3").call_id, "done") == ""
    assert outcomes(guard) == [Outcome.ERROR, Outcome.OK, Outcome.OK]


def test_an_open_call_whose_id_is_given_to_another_one_ends_as_unknown() -> None:
    guard = ScriptedGuard()
    session = FrameworkSession(guard)
    allowed(session, "call_0")
    session.after(allowed(session, "call_0").call_id, "done")
    assert outcomes(guard) == [Outcome.UNKNOWN, Outcome.OK]


def test_what_leaves_the_block_is_the_outcome_of_the_call_and_goes_on() -> None:
    guard = ScriptedGuard()
    session = FrameworkSession(guard)
    errors = (ValueError("no"), TimeoutError("late"), asyncio.CancelledError(), ResultUnknown("nobody knows"))
    for error in errors:
        with pytest.raises(type(error)), session.reporting(allowed(session).call_id):
            raise error
    assert outcomes(guard) == [Outcome.ERROR, Outcome.TIMEOUT, Outcome.UNKNOWN, Outcome.UNKNOWN]


def test_of_too_many_open_calls_the_oldest_counts_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework_session, "MAX_OPEN", 3)
    guard = ScriptedGuard()
    session = FrameworkSession(guard)
    for number in range(4):
        allowed(session, f"c{number}")
    assert outcomes(guard) == [Outcome.UNKNOWN]
    session.end()
    assert outcomes(guard) == [Outcome.UNKNOWN] * 4


@cases(
    "given, named",
    {
        "an object": ({"a": 1}, {"a": 1}),
        "the JSON of an object": ('{"a": 1}', {"a": 1}),
        "the JSON of a list": ("[1]", {"arguments": [1]}),
        "no JSON": ('{"a": ', {"arguments": '{"a": '}),
        "nested too deeply": ("[" * 100_000, {"arguments": "[" * 100_000}),
    },
)
def test_arguments_are_named(given: Any, named: dict[str, Any]) -> None:
    assert arguments_of(given) == named
