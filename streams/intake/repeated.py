"""Requests that are repeated because their answer did not arrive, made idempotent by their `Idempotency-Key`.

The key is one text for one request, the same in each try (draft-ietf-httpapi-idempotency-key-header). With `Prefer:
wait=SECONDS` (RFC 7240), a request whose answer takes longer is answered 202 `{"waiting": true}`, and repeated with its
key, so that no connection is held while a person decides on a call.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from aiohttp import web

from haltline.interventions.agent.service.problems import Bad, Busy
from haltline.schemas import expressions as re

MAX_KEPT: Final = 4096
"""The most requests kept; those answered longest ago are dropped first, and pending ones are kept."""
MAX_UNANSWERED: Final = 64
"""The most requests of one session to one route, so that one session does not take the room of all others."""
KEPT_S: Final = 900.0
"""The time in seconds for which an answer is kept."""
MAX_WAIT_S: Final = 60.0
_KEY = re.compile(r"[A-Za-z0-9_-]{16,128}")
_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?=$|[,;\s])", re.IGNORECASE)

Reply: TypeAlias = tuple[int, dict[str, Any]]
"""A status, and a JSON object."""
Again: TypeAlias = Callable[[Reply], Reply]
"""Returns the answer to a repeated request, from the first answer. Raises Bad if that is no longer valid."""


class _Waiting(NamedTuple):
    digest: bytes
    task: asyncio.Task[Reply]


class _Answered(NamedTuple):
    digest: bytes
    reply: Reply
    at_s: float


class Repeated:
    """The stored answers of one server. For its event loop only. `clock` returns monotonic seconds."""

    def __init__(self, most: int = MAX_KEPT, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}
        self._answered: OrderedDict[str, _Answered] = OrderedDict()
        self._tasks: Counter[str] = Counter()
        self._handlers: Counter[str] = Counter()

    async def once(
        self,
        request: web.Request,
        digest: bytes,
        make: Callable[[], Awaitable[Reply]],
        *,
        session_id: str = "",
        again: Again | None = None,
    ) -> Reply:
        """Return the answer to a request, computed once for all requests with its key; `digest` is its body's.

        `session_id` is the request's. `again` returns the answer to a repetition; None: the same answer.

        Raises:
            Bad: the key is invalid, or belongs to another request, or its answer is no longer valid.
            Busy: too many requests are pending, in all or in this session.

        """
        route = f"{request.path} {session_id}"
        key = request.headers.get("Idempotency-Key")
        if key is not None and _KEY.fullmatch(key) is None:
            raise Bad(400, f"Idempotency-Key: expected 16 to 128 letters, digits, - or _, got {key!r:.80}")
        with _one_of_few(self._handlers, route):
            if key is None:
                return await make()
            return await self._keyed(request, f"{request.path} {key}", digest, make, route=route, again=again)

    async def close(self) -> None:
        """Cancel all pending answers."""
        tasks = [waiting.task for waiting in self._waiting.values()]
        self._waiting.clear()
        self._answered.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keyed(
        self,
        request: web.Request,
        name: str,
        digest: bytes,
        make: Callable[[], Awaitable[Reply]],
        *,
        route: str,
        again: Again | None,
    ) -> Reply:
        self._forget()
        known = self._waiting.get(name) or self._answered.get(name)
        if known is not None and known.digest != digest:
            raise Bad(422, "Idempotency-Key: expected the request that it was first sent with, got another")
        if isinstance(known, _Answered):
            reply = known.reply
        else:
            task = self._begun(name, digest, make, route) if known is None else known.task
            done, _ = await asyncio.wait({task}, timeout=_wait_s(request))  # computed even if no client waits
            if not done:
                return 202, {"waiting": True}
            reply = task.result()
        return reply if known is None or again is None else again(reply)

    def _begun(
        self, name: str, digest: bytes, make: Callable[[], Awaitable[Reply]], route: str
    ) -> "asyncio.Task[Reply]":
        self._make_room()
        task = asyncio.create_task(self._made(make, route))
        self._waiting[name] = _Waiting(digest, task)
        task.add_done_callback(lambda done: self._ended(name, digest, done))
        return task

    async def _made(self, make: Callable[[], Awaitable[Reply]], route: str) -> Reply:
        with _one_of_few(self._tasks, route):
            return await make()

    def _ended(self, name: str, digest: bytes, task: "asyncio.Task[Reply]") -> None:
        """Drop a failure, so that a repetition tries again."""
        self._waiting.pop(name, None)
        if not task.cancelled() and task.exception() is None:
            self._answered[name] = _Answered(digest, task.result(), self._clock())

    def _forget(self) -> None:
        """Drop old answers."""
        until_s = self._clock() - KEPT_S
        while self._answered and next(iter(self._answered.values())).at_s <= until_s:
            self._answered.popitem(last=False)

    def _make_room(self) -> None:
        if len(self._waiting) + len(self._answered) < self._most:
            return
        if not self._answered:
            raise Busy(f"expected at most {self._most} requests without an answer, got one more")
        self._answered.popitem(last=False)


@contextmanager
def _one_of_few(counted: Counter[str], route: str) -> Iterator[None]:
    """Count one pending request. Raises Busy when there are too many."""
    if counted[route] >= MAX_UNANSWERED:
        raise Busy(f"expected at most {MAX_UNANSWERED} requests of one session without an answer, got one more")
    counted[route] += 1
    try:
        yield
    finally:
        counted[route] -= 1
        if not counted[route]:
            del counted[route]


def fingerprint(body: bytes) -> bytes:
    """Return a digest of a body."""
    return blake2b(body, digest_size=16).digest()


def _wait_s(request: web.Request) -> float | None:
    wait = _WAIT.search(request.headers.get("Prefer", ""))
    return None if wait is None else min(float(wait[1]), MAX_WAIT_S)
