import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from haltline.streams.intake.problems import Busy
from haltline.streams.intake.repeated import Repeated, Reply


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
    assert answers == [
        waiting,
        (200, {"made": 1}),
        (200, {"made": 2}),
        (200, {"made": 3}),
        waiting,
        (200, {"slow": True}),
    ]
    assert made == 3
