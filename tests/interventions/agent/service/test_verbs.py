"""What the messages of the local service promise, beyond the cases of tests/conformance."""

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from haltline.interventions.agent import Guard
from haltline.interventions.agent.service import verbs
from haltline.interventions.agent.service.problems import Bad, Busy
from haltline.interventions.agent.service.sessions import THIS_USER, Sessions
from haltline.interventions.agent.service.verbs import DISCONNECTED_S, Verbs
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.stored_sessions import StoredSessions
from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision
from haltline.interventions.agent.transport.local_decider import forget_kills
from haltline.schemas.decisions import ApprovalState, Level
from haltline.schemas.events import Kind
from tests.builders import cases
from tests.interventions.agent.attempts import about_approval, of

LOCAL = GuardSettings(mode="local")


class Other:
    """Another caller, such as a key of another tenant."""

    name = "other"
    is_local = False

    def outside(self, *, agents: Any) -> str | None:  # noqa: ARG002 - a caller's argument
        return None


class Service:
    def __init__(self, *verdicts: Verdict, stored: StoredSessions | None = None, **options: Any) -> None:
        self.guards: list[ScriptedGuard] = []
        self.now_s = 0.0

        def scripted(asked: GuardSettings, /, **more: Any) -> Guard:
            of_guard = {"session_id": asked.session_id, "bootstrap": "scripted", "mode": "blocking", **options}
            self.guards.append(ScriptedGuard(*verdicts, **of_guard, **more))
            return self.guards[-1]

        made: dict[str, Any] = {"make_guard": scripted} if verdicts or options else {}
        self.verbs = Verbs(Sessions(LOCAL, 10, **made), "9.9.9", stored=stored, clock=lambda: self.now_s)

    async def __call__(self, verb: str, caller: Any = THIS_USER, **fields: Any) -> dict[str, Any]:
        return await self.verbs.answer(verb, fields, caller)

    async def begin(self, **fields: Any) -> str:
        return str((await self("begin", **({"session_id": "s1", "agent_id": "a"} | fields)))["token"])


@pytest.fixture(autouse=True)
def _sessions_begin_anew() -> Iterator[None]:
    yield
    forget_kills()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def why_not(asked: Coroutine[Any, Any, Any]) -> str:
    try:
        await asked
    except Bad as bad:
        return f"{bad.status} {'; '.join(bad.problems)}"
    raise AssertionError("expected a request that is refused")


@cases(
    "verb, fields, expected",
    {
        "a verb that is none": ("free", {}, "404 verb: expected one of begin, propose, end, turn, close, got 'free'"),
        "another protocol": ("begin", {"protocol": 7}, "400 protocol: expected 1 of this release (9.9.9), got 7"),
        "an unknown field": ("begin", {"sesion_id": "s"}, "400 sesion_id: expected no such field, got 's'"),
        "a call without a name": ("propose", {"token": "t"}, "400 action: expected a value, got none"),
        "a token of nobody": ("propose", {"token": "t", "action": "x"}, "401 token: expected one that begin"),
        "a path of nowhere": ("begin", {"checkpoints": "files"}, "400 checkpoints: expected an absolute path"),
    },
)
def test_a_request_that_cannot_be_used_is_answered_with_what_was_expected(
    verb: str, fields: dict[str, Any], expected: str
) -> None:
    assert asyncio.run(why_not(Service()(verb, **fields))).startswith(expected)


def test_a_token_is_for_its_caller_alone_until_it_is_closed() -> None:
    async def test() -> None:
        service = Service()
        token = await service.begin()
        assert (await why_not(service("propose", Other(), token=token, action="x"))).startswith("401")
        assert (await service("propose", token=token, action="x"))["answer"] == "allow"
        await service("close", token=token)
        assert (await why_not(service("turn", token=token))).startswith("401")

    run(test)


def test_a_call_that_is_proposed_again_is_one_call_and_another_call_with_its_id_is_refused() -> None:
    async def test() -> None:
        service = Service(Level.ALLOW)
        token = await service.begin()
        call = {"token": token, "call_id": "c1", "action": "delete_asset", "args": {"asset_id": "x"}}
        answers = [await service("propose", **call) for _ in range(3)]
        assert answers == [{"answer": "allow", "call_id": "c1"}] * 3
        assert len(of(service.guards[0], Kind.PROPOSED)) == 1
        assert (await why_not(service("propose", **call | {"args": {"asset_id": "y"}}))).startswith("409 call_id")
        for _ in range(2):
            await service("end", token=token, call_id="c1", output="done")
        assert len(of(service.guards[0], Kind.COMPLETED)) == 1
        assert (await why_not(service("propose", **call))).startswith("409 call_id: expected that of a call that has")

    run(test)


def test_a_permission_ends_with_its_session_and_a_kill_is_told_without_being_asked() -> None:
    async def test() -> None:
        service = Service(Level.ALLOW)
        token = await service.begin()
        orders = service.verbs.connect(token, THIS_USER)
        await service("propose", token=token, call_id="c1", action="work")
        service.guards[0].kill()
        order = await asyncio.wait_for(orders.get(), 20)
        assert (order.order, order.session_id, order.code) == ("stop", "s1", "session_killed_by_operator")
        assert (await service("propose", token=token, action="work"))["answer"] == "stop"
        for turn in ({"asks": True}, {"prompt": "Go on"}, {"usage": {"input_tokens": 1}}):
            assert (await service("turn", token=token, **turn))["answer"] == "stop"
        begun = await service("begin", session_id="s1")
        assert (begun["answer"], begun["code"]) == ("stop", "session_killed_by_operator"), "as another client reads"

    run(test)


def test_a_call_waits_for_a_person_across_requests_and_can_be_taken_back_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verbs, "MAX_WAITING", 1)

    def asks(event: Any) -> Any:
        return about_approval(event, ApprovalState.PENDING, Level.PAUSE)

    async def test() -> None:
        service = Service(asks, asks, approval_wait_s=60)
        token = await service.begin()
        call = {"token": token, "call_id": "c1", "action": "delete_asset", "wait_s": 0.05}
        assert [(await service("propose", **call))["answer"] for _ in range(2)] == ["pending"] * 2
        (proposal,) = of(service.guards[0], Kind.PROPOSED)
        service.guards[0].send(about_approval(proposal, ApprovalState.APPROVED, Level.ALLOW, decision_id="answer"))
        assert (await service("propose", **call | {"wait_s": 30}))["answer"] == "allow"
        assert (await service("propose", **call | {"call_id": "c2"}))["answer"] == "pending"
        with pytest.raises(Busy, match="at most 1 calls of one client that await an answer"):
            await service("propose", **call | {"call_id": "c3"})
        await service("end", token=token, call_id="c2", error="not made")
        assert [e.call_id for e in of(service.guards[0], Kind.COMPLETED)] == ["c2"]

    run(test)


def test_a_session_ends_when_the_lease_of_its_last_client_does() -> None:
    async def test() -> None:
        service = Service(Level.ALLOW)
        first, second = await service.begin(lease_s=100), await service.begin(lease_s=100)
        orders = service.verbs.connect(second, THIS_USER)
        service.now_s = 101
        await service.verbs.end_expired()
        assert (await why_not(service("turn", token=first))).startswith("401")
        assert of(service.guards[0], Kind.SESSION_ENDED) == [], "the other client is connected"
        service.verbs.disconnect(second, orders)
        service.now_s += DISCONNECTED_S - 1
        await service.verbs.end_expired()
        assert of(service.guards[0], Kind.SESSION_ENDED) == []
        service.now_s += 2
        await service.verbs.end_expired()
        assert len(of(service.guards[0], Kind.SESSION_ENDED)) == 1

    run(test)


def test_a_stop_is_in_force_in_the_next_process_until_the_control_topic_has_been_read(tmp_path: Path) -> None:
    async def test() -> None:
        service = Service(Level.ALLOW, stored=StoredSessions(tmp_path))
        orders = service.verbs.connect(await service.begin(), THIS_USER)
        service.guards[0].kill()
        assert (await asyncio.wait_for(orders.get(), 20)).order == "stop"
        away = GuardSettings(bootstrap="127.0.0.1:9", mode="blocking", start_budget_s=0, close_budget_s=0)
        verbs = Verbs(Sessions(away, 10), "9.9.9", stored=StoredSessions(tmp_path))
        begun = await verbs.answer("begin", {"session_id": "s1"}, THIS_USER)
        look = {"token": begun["token"], "action": "read_file"}
        assert (begun["answer"], (await verbs.answer("propose", look, THIS_USER))["answer"]) == ("stop", "stop")
        other = await verbs.answer("begin", {"session_id": "s2"}, THIS_USER)
        assert (await verbs.answer("propose", look | {"token": other["token"]}, THIS_USER))["answer"] == "allow"
        await verbs.close()

    run(test)


def test_a_slowed_poll_is_to_be_asked_again_and_a_reminder_is_to_be_given_now() -> None:
    def reminds(event: Any) -> Any:
        return decision(Level.REINFORCE, event, message="Your task: tidy up.")

    async def test() -> None:
        service = Service(Level.ALLOW, Level.ALLOW, reminds)
        token = await service.begin()
        poll = {"token": token, "action": "get_status", "args": {"job": "1"}}
        await service("propose", **poll, call_id="c1")
        await service("end", token=token, call_id="c1", output="running")
        guard = service.guards[0]
        guard.send(decision(Level.THROTTLE, guard.events[-1], message="Wait.", limits={"min_interval_s": 30.0}))
        second = await service("propose", token=token, action="work")
        assert (second["answer"], second["hints"]) == ("allow", "Wait.")
        waits = await service("propose", **poll)
        assert (waits["answer"], 0 < waits["wait_ms"] <= 30_000) == ("wait", True)
        assert len(of(service.guards[0], Kind.PROPOSED)) == 2, "it counts once it is made"
        reminder = await service("propose", token=token, action="work")
        assert (reminder["answer"], reminder["hints"]) == ("reinforce", "Your task: tidy up.")

    run(test)


def test_a_roll_back_restores_the_files_that_were_kept(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    file = tmp_path / "plan.md"

    async def test() -> None:
        service = Service(lambda e: decision(Level.ROLLBACK, e, checkpoint="before"))
        token = await service.begin(checkpoints=str(tmp_path))
        file.write_text("good")
        assert (await service("turn", token=token, keep="before"))["kept"] is True
        file.write_text("bad")
        answer = await service("propose", token=token, action="work")
        assert (answer["answer"], file.read_text()) == ("roll_back", "good")
        assert (await why_not(service("begin", Other(), checkpoints=str(tmp_path)))).startswith("400 checkpoints")

    run(test)


def test_without_settings_that_decide_each_verb_says_why() -> None:
    verbs = Verbs(Sessions(LOCAL, 10), "9.9.9", why="No broker is set")
    assert asyncio.run(why_not(verbs.answer("begin", {}, THIS_USER))) == "503 No broker is set"
