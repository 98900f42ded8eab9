"""Requests that are sent again because their answer did not arrive: by their `Idempotency-Key` they are one.

The key is one text for one request, with each try the same (draft-ietf-httpapi-idempotency-key-header). With
`Prefer: wait=SECONDS` (RFC 7240) a request whose answer takes longer is answered 202 `{"waiting": true}`, and sent
again with its key, so that no connection is held for as long as a person takes to approve a call.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from aiohttp import web

from haltline.streams.intake.problems import Bad, Busy

MAX_KEPT: Final = 4096
"""Answers; those that were given longest ago are forgotten first, and what is not answered yet is kept."""
MAX_WAIT_S: Final = 60.0
_KEY = re.compile(r"[A-Za-z0-9_-]{16,128}")
_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?=$|[,;\s])", re.IGNORECASE)

Reply: TypeAlias = tuple[int, dict[str, Any]]
"""A status, and what is JSON."""


class Repeated:
    """The answers of one server. For its event loop alone."""

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[bytes, asyncio.Task[Reply]]] = OrderedDict()

    async def once(self, request: web.Request, digest: bytes, make: Callable[[], Awaitable[Reply]]) -> Reply:
        """The answer to a request, which is made once for all requests with its key; `digest` is that of its body.

        Raises:
            Bad: the key is none, or that of another request.
            Busy: as many are not answered yet as there is room for.

        """
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return await make()
        if _KEY.fullmatch(key) is None:
            raise Bad(400, f"Idempotency-Key: expected 16 to 128 letters, digits, - or _, got {key!r:.80}")
        task = self._task(f"{request.path} {key}", digest, make)
        done, _ = await asyncio.wait({task}, timeout=_wait_s(request))  # the answer is made, whoever still waits for it
        return task.result() if done else (202, {"waiting": True})

    async def close(self) -> None:
        """Waits for no answer any more."""
        tasks = [task for _, task in self._kept.values()]
        self._kept.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, name: str, digest: bytes, make: Callable[[], Awaitable[Reply]]) -> "asyncio.Task[Reply]":
        known = self._kept.get(name)
        if known is not None:
            if known[0] != digest:
                raise Bad(422, "Idempotency-Key: expected the request that it was first sent with, got another")
            return known[1]
        self._make_room()
        task = asyncio.create_task(_made(make))
        self._kept[name] = digest, task
        task.add_done_callback(lambda done: self._ended(name, done))
        return task

    def _ended(self, name: str, task: "asyncio.Task[Reply]") -> None:
        """What failed is not kept: sent again, it is tried again."""
        if task.cancelled() or task.exception() is not None:
            self._kept.pop(name, None)

    def _make_room(self) -> None:
        if len(self._kept) < self._most:
            return
        oldest = next((name for name, (_, task) in self._kept.items() if task.done()), None)
        if oldest is None:
            raise Busy(f"expected at most {self._most} requests without an answer, got one more")
        del self._kept[oldest]


async def _made(make: Callable[[], Awaitable[Reply]]) -> Reply:
    return await make()


def fingerprint(body: bytes) -> bytes:
    """Tells one body from another."""
    return blake2b(body, digest_size=16).digest()


def _wait_s(request: web.Request) -> float | None:
    wait = _WAIT.search(request.headers.get("Prefer", ""))
    return None if wait is None else min(float(wait[1]), MAX_WAIT_S)
