import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from haltline.cli.services.intake import main
from haltline.interventions.agent.integrations.framework_session import FrameworkSession
from haltline.interventions.agent.rules.settings import ClientRules
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.local_decider import forget_kills
from haltline.streams.intake.problems import Bad
from haltline.streams.intake.sessions import Sessions

LOCAL = GuardSettings(mode="local")


@pytest.fixture(autouse=True)
def _sessions_begin_anew() -> Iterator[None]:
    yield
    forget_kills()


def deletes(session: FrameworkSession, call_id: str, *, ends: bool = True) -> str | None:
    """The code with which a call is refused; None: it was made."""
    refused = session.propose(call_id, "delete_asset", {"asset_id": "x"}).refused
    if ends:
        session.complete(call_id, "ok")
    return None if refused is None else refused.code


def test_a_session_named_none_is_above_no_other_and_counts_are_kept_for_an_hour() -> None:
    sessions = Sessions(LOCAL, 10)
    sessions.of({"session_id": "None", "agent_id": "another", "mission_id": "m"})
    settings = sessions.of({"session_id": "s1"}).guard.settings
    assert (settings.parent_session_id, settings.lineage) == (None, ("s1",))
    assert (settings.agent_id, settings.mission_id) == (LOCAL.agent_id, None)
    now_s = [0.0]
    sessions, found = Sessions(LOCAL, 10, clock=lambda: now_s[0]), []
    for number in range(4):
        found.append(deletes(sessions.of({"session_id": "s1"}), f"c{number}"))
        asyncio.run(sessions.end("s1"))
        now_s[0] += 3600.0 if number == 1 else 3599.0
    assert found == [None] * 4


@pytest.mark.parametrize("below", [{}, {"parent_session_id": "above"}], ids=["alone", "below another one"])
def test_a_session_that_ends_and_begins_again_keeps_its_counts(below: dict[str, str]) -> None:
    sessions, found = Sessions(LOCAL, 10), []
    sessions.of({"session_id": "above"})
    for number in range(3):
        found.append(deletes(sessions.of({"session_id": "s1"} | below), f"c{number}"))
        assert asyncio.run(sessions.end("s1"))
    assert found == [None, None, "session_killed_loop_guard"]


@pytest.mark.parametrize("rules", [None, ClientRules()])
def test_a_session_with_open_calls_is_given_up_after_those_without(rules: Any) -> None:
    now_s = [0.0]
    sessions = Sessions(LOCAL.changed(rules=rules), 2, clock=lambda: now_s[0])
    assert deletes(sessions.of({"session_id": "at work"}), "c1", ends=False) is None
    sessions.of({"session_id": "idle"})
    if rules is not None:
        with pytest.raises(Bad, match="expected one of 2 sessions that are at work"):
            sessions.of({"session_id": "new"})
    now_s[0] = 3600.0
    sessions.of({"session_id": "new"})
    assert sessions.known("at work") is not None
    assert sessions.known("idle") is None


@pytest.mark.parametrize(
    ("own", "holds", "asked", "expected"),
    [
        ("blocking", True, "async", "blocking"),
        ("blocking", False, "async", "async"),
        ("async", True, "blocking", "blocking"),
        ("local", True, "async", "local"),
    ],
)
def test_a_session_does_not_weaken_a_mode_that_is_held_to(own: Any, holds: bool, asked: str, expected: str) -> None:
    settings = GuardSettings(mode=own, bootstrap=None if own == "local" else "127.0.0.1:9")
    sessions = Sessions(settings, 10, holds_mode=holds)
    assert sessions.of({"session_id": "s1", "session_mode": asked}).guard.settings.mode == expected


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
    assert main(["--bootstrap", "127.0.0.1:9", *arguments]) == 2
    assert held == [expected]
