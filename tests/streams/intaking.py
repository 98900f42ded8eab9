"""An intake for tests, and clients that talk to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.app import Intake

Post = Callable[..., Awaitable[tuple[int, Any]]]


@contextlib.asynccontextmanager
async def serving(
    bootstrap: str, *, token: str | None = None, max_sessions: int = 200, **options: Any
) -> AsyncIterator[str]:
    """The address of an intake."""
    settings = GuardSettings(bootstrap=bootstrap, mode="blocking", budget_s=20.0, start_budget_s=20.0)
    async with TestServer(Intake(settings.changed(**options), token=token, max_sessions=max_sessions).app()) as server:
        yield str(server.make_url("/")).rstrip("/")


def with_intake(bootstrap: str, talk: Callable[[Post], Awaitable[Any]], **options: Any) -> Any:
    """Run `talk` with a client of an intake: `post(path, body, **headers)` returns the status and the JSON."""

    async def run() -> Any:
        async with serving(bootstrap, **options) as address:
            return await talked(address, talk)

    return asyncio.run(run())


async def talked(address: str, talk: Callable[[Post], Awaitable[Any]]) -> Any:
    """The same to one at this address."""
    async with ClientSession(address) as http:

        async def post(path: str, body: Any, **headers: str) -> tuple[int, Any]:
            data = body if isinstance(body, bytes) else orjson.dumps(body)
            async with http.post(path, data=data, headers={"Content-Type": "application/json", **headers}) as response:
                return response.status, await response.json(content_type=None)

        return await talk(post)


def asking(*requests: tuple[Any, ...]) -> Callable[[Post], Awaitable[list[tuple[int, Any]]]]:
    """Posts one after the other: each is a path, a body, and headers where it has some."""

    async def talk(post: Post) -> list[tuple[int, Any]]:
        return [await post(path, body, **dict(*headers)) for path, body, *headers in requests]

    return talk
