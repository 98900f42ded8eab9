import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from haltline.interventions.agent import ClientRules
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.service.problems import Bad, Busy
from haltline.interventions.agent.service.sessions import THIS_USER, Sessions
from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.connections import MAX_HEADER_BYTES, Connections
from haltline.streams.intake.repeated import KEPT_S, MAX_UNANSWERED, Repeated, Reply
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
    sessions.of({"session_id": "None", "agent_id": "another", "mission_id": "m"}, THIS_USER)
    settings = sessions.of({"session_id": "s1"}, THIS_USER).guard.settings
    assert (settings.parent_session_id, settings.lineage) == (None, ("s1",))
    assert (settings.agent_id, settings.mission_id) == (LOCAL.agent_id, None)
    now_s = [0.0]
    sessions, found = Sessions(LOCAL, 10, clock=lambda: now_s[0]), []
    for number in range(4):
        found.append(deletes(sessions.of({"session_id": "s1"}, THIS_USER), f"c{number}"))
        asyncio.run(sessions.end("s1", THIS_USER))
        now_s[0] += 3600.0 if number == 1 else 3599.0
    assert found == [None] * 4


@pytest.mark.parametrize("below", [{}, {"parent_session_id": "above"}], ids=["alone", "below another one"])
def test_a_session_that_ends_and_begins_again_keeps_its_counts(below: dict[str, str]) -> None:
    sessions, found = Sessions(LOCAL, 10), []
    sessions.of({"session_id": "above"}, THIS_USER)
    for number in range(3):
        found.append(deletes(sessions.of({"session_id": "s1"} | below, THIS_USER), f"c{number}"))
        assert asyncio.run(sessions.end("s1", THIS_USER))
    assert found == [None, None, "session_killed_loop_guard"]


@pytest.mark.parametrize("rules", [None, ClientRules()])
def test_a_session_with_open_calls_is_given_up_after_those_without(rules: Any) -> None:
    now_s = [0.0]
    sessions = Sessions(LOCAL.changed(rules=rules), 2, clock=lambda: now_s[0])
    assert deletes(sessions.of({"session_id": "at work"}, THIS_USER), "c1", ends=False) is None
    sessions.of({"session_id": "idle"}, THIS_USER)
    if rules is not None:
        with pytest.raises(Bad, match="expected one of 2 sessions that are at work"):
            sessions.of({"session_id": "new"}, THIS_USER)
    now_s[0] = 3600.0
    sessions.of({"session_id": "new"}, THIS_USER)
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
def test_a_session_does_not_weaken_a_mode_that_is_held_to(own: Any, holds: bool, asked: str, expected: str) -> None:
    settings = GuardSettings(mode=own, bootstrap=None if own == "local" else "127.0.0.1:9")
    sessions = Sessions(settings, 10, holds_mode=holds)
    assert sessions.of({"session_id": "s1", "session_mode": asked}, THIS_USER).guard.settings.mode == expected


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


def test_what_is_kept_is_bounded_and_what_has_no_answer_yet_is_kept() -> None:
    async def run() -> tuple[list[Reply], int]:
        repeated, release, made = Repeated(most=2), asyncio.Event(), 0

        async def slow() -> Reply:
            await release.wait()
            return 200, {"slow": True}

        async def quick() -> Reply:
            nonlocal made
            made += 1
            return 200, {"made": made}

        def asked(key: str, wait_s: int = 30) -> "asyncio.Task[Reply]":
            headers = {"Idempotency-Key": key * 16, "Prefer": f"wait={wait_s}"}
            request = make_mocked_request("POST", "/v1/verdict", headers=headers)
            return asyncio.create_task(repeated.once(request, b"", slow if key in "ab" else quick))

        answers = [await asked("a", 0), await asked("c"), await asked("d"), await asked("c")]
        answers.append(await asked("b", 0))
        with pytest.raises(Busy, match="expected at most 2 requests without an answer"):
            await asked("e")
        release.set()
        answers.append(await asked("a"))
        await repeated.close()
        return answers, made

    waiting = (202, {"waiting": True})
    answers, made = asyncio.run(run())
    assert answers == [waiting, *((200, {"made": n}) for n in (1, 2, 3)), waiting, (200, {"slow": True})]
    assert made == 3


def test_an_answer_is_forgotten_after_a_while() -> None:
    now_s, made = [0.0], 0

    async def make() -> Reply:
        nonlocal made
        made += 1
        return 200, {"made": made}

    async def run() -> list[int]:
        repeated = Repeated(clock=lambda: now_s[0])
        request = make_mocked_request("POST", "/v1/verdict", headers={"Idempotency-Key": "a" * 16})
        found = []
        for now_s[0] in (0.0, KEPT_S - 1, KEPT_S):
            found.append((await repeated.once(request, b"", make))[1]["made"])
            await asyncio.sleep(0)  # the end of its task is told
        return found

    assert asyncio.run(run()) == [1, 1, 2]


@pytest.mark.parametrize("has_key", [True, False])
def test_a_session_that_waits_for_many_answers_leaves_room_for_others(*, has_key: bool) -> None:
    async def run() -> tuple[Reply, Reply]:
        repeated, release = Repeated(), asyncio.Event()

        async def make() -> Reply:
            await release.wait()
            return 200, {}

        def asked(session_id: str, number: int, path: str = "/v1/verdict", **prefer: str) -> "asyncio.Task[Reply]":
            headers = {"Idempotency-Key": f"{session_id}-{number:016}"} | prefer if has_key else {}
            request = make_mocked_request("POST", path, headers=headers)
            return asyncio.create_task(repeated.once(request, b"", make, session_id=session_id))

        waiting = [asked("s1", number, Prefer="wait=0") for number in range(MAX_UNANSWERED)]
        if has_key:  # what waits is held, and no request with it
            assert await asyncio.gather(*waiting) == [(202, {"waiting": True})] * MAX_UNANSWERED
        with pytest.raises(Busy, match="expected at most 64 requests of one session without an answer"):
            await asked("s1", MAX_UNANSWERED)
        other, ended = asked("s2", 0), asked("s1", 0, "/v1/end")
        release.set()
        replies = await other, await ended
        await asyncio.gather(*waiting)
        await asked("s1", MAX_UNANSWERED)
        await repeated.close()
        return replies

    assert asyncio.run(run()) == ((200, {}), (200, {}))


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
