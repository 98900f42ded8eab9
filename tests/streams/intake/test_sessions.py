import asyncio
from typing import Any

import pytest

from haltline.interventions.agent import ClientRules
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.service.problems import Bad
from haltline.interventions.agent.service.sessions import THIS_USER, Sessions
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.agent_service import Begin
from haltline.streams.intake.connections import MAX_HEADER_BYTES, Connections
from tests.streams.commands import haltline

LOCAL = GuardSettings(mode="local")


def deletes(session: FrameworkSession, call_id: str, *, ends: bool = True) -> str | None:
    """The code with which a call is refused; None: it was made."""
    refused = session.propose(call_id, "delete_asset", {"asset_id": "x"}).refused
    if ends:
        session.complete(call_id, "ok")
    return None if refused is None else refused.code


def test_a_session_named_none_is_above_no_other_and_counts_are_kept_for_an_hour() -> None:
    sessions = Sessions(LOCAL, 10)
    sessions.of(Begin(session_id="None", agent_id="another", mission_id="m"), THIS_USER)
    settings = sessions.of(Begin(session_id="s1"), THIS_USER).guard.settings
    assert (settings.parent_session_id, settings.lineage) == (None, ("s1",))
    assert (settings.agent_id, settings.mission_id) == (LOCAL.agent_id, None)
    now_s = [0.0]
    sessions, found = Sessions(LOCAL, 10, clock=lambda: now_s[0]), []
    for number in range(4):
        found.append(deletes(sessions.of(Begin(session_id="s1"), THIS_USER), f"c{number}"))
        asyncio.run(sessions.end("s1", THIS_USER))
        now_s[0] += 3600.0 if number == 1 else 3599.0
    assert found == [None] * 4


@pytest.mark.parametrize("below", [{}, {"parent_session_id": "above"}], ids=["alone", "below another one"])
def test_a_session_that_ends_and_begins_again_keeps_its_counts(below: Any) -> None:
    sessions, found = Sessions(LOCAL, 10), []
    sessions.of(Begin(session_id="above"), THIS_USER)
    for number in range(3):
        found.append(deletes(sessions.of(Begin(session_id="s1", **below), THIS_USER), f"c{number}"))
        assert asyncio.run(sessions.end("s1", THIS_USER))
    assert found == [None, None, "session_killed_loop_guard"]


@pytest.mark.parametrize("rules", [None, ClientRules()])
def test_a_session_with_open_calls_is_given_up_after_those_without(rules: Any) -> None:
    now_s = [0.0]
    sessions = Sessions(LOCAL.changed(rules=rules), 2, clock=lambda: now_s[0])
    assert deletes(sessions.of(Begin(session_id="at work"), THIS_USER), "c1", ends=False) is None
    sessions.of(Begin(session_id="idle"), THIS_USER)
    if rules is not None:
        with pytest.raises(Bad, match="expected one of 2 sessions that are at work"):
            sessions.of(Begin(session_id="new"), THIS_USER)
    now_s[0] = 3600.0
    sessions.of(Begin(session_id="new"), THIS_USER)
    assert sessions.known("at work", THIS_USER) is not None
    assert sessions.known("idle", THIS_USER) is None


@pytest.mark.parametrize(
    ("own", "holds", "asked", "expected"),
    [
        ("blocking", True, "async", "blocking"),
        ("blocking", False, "async", "async"),
        ("async", True, "blocking", "blocking"),
        ("local", True, "async", "local"),
    ],
)
def test_a_session_does_not_weaken_a_mode_that_is_held_to(own: Any, holds: bool, asked: Any, expected: str) -> None:
    settings = GuardSettings(mode=own, bootstrap=None if own == "local" else "127.0.0.1:9")
    sessions = Sessions(settings, 10, holds_mode=holds)
    assert sessions.of(Begin(session_id="s1", mode=asked), THIS_USER).guard.settings.mode == expected


@pytest.mark.parametrize(
    ("arguments", "variable", "expected"),
    [([], None, False), (["--mode", "blocking"], None, True), ([], "blocking", True)],
)
def test_the_command_holds_to_a_mode_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], variable: str | None, *, expected: bool
) -> None:
    held: list[bool] = []

    def noted(settings: GuardSettings, *, holds_mode: bool, **_: Any) -> None:
        assert settings.mode == "blocking"
        held.append(holds_mode)
        raise ValueError("far enough")

    monkeypatch.delenv("HALTLINE_MODE", raising=False)
    if variable is not None:
        monkeypatch.setenv("HALTLINE_MODE", variable)
    monkeypatch.setattr("haltline.streams.intake.app.Intake", noted)
    assert haltline("intake", "--bootstrap", "127.0.0.1:9", *arguments).exit_code == 2
    assert held == [expected]


class Transport(asyncio.Transport):
    """One that is ended by force."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def test_a_connection_whose_headers_have_no_end_is_ended_and_so_is_a_new_one_where_none_waits() -> None:
    async def run() -> None:
        among = Connections(most=1)
        endless, at_work, new = Transport(), Transport(), Transport()
        connection = among.opened(endless)
        connection.received(MAX_HEADER_BYTES)
        assert not connection.ended
        connection.received(1)
        among.opened(at_work).received_headers()
        among.opened(new)
        assert [one.is_aborted for one in (endless, at_work, new)] == [True, False, True]

    asyncio.run(run())
