import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from haltline.streams.intake.problems import Busy
from haltline.streams.intake.repeated import KEPT_S, MAX_UNANSWERED, Repeated, Reply


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
