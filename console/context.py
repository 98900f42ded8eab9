"""The shared context of every route, and the authorization of callers."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Final

from fastapi import Depends, Header, HTTPException, Request
from sqlalchemy import Engine

from haltline.console.access.browser_sessions import session_of
from haltline.console.access.keys import May, Who
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.sql import Sql
from haltline.console.sender import ConsoleProducer, SendingInbox
from haltline.console.settings import ConsoleSettings
from haltline.schemas.control import Command

log: Final = logging.getLogger("haltline.console")

TAKEN_IN_WITHIN_S: Final = 5.0
_SCHEMES: Final = frozenset({"bearer", "apikey"})
"""Agent Sentinel's SDK uses either."""


MAX_KEYS: Final = 10_000
"""The most names with a bucket. The least recently used one is dropped first: it is full by then."""


class RateLimits:
    """Allows each name `per_s` requests a second on average, and `burst` at once. Thread safe."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By name: the tokens, and the time of the last update."""

    def take(self, name: str) -> float:
        """Take a token. Returns 0.0 if allowed, else the seconds to wait."""
        with self._lock:
            now = self._clock()
            tokens, at = self._left.pop(name, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - at) * self._per_s)
            wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._per_s
            self._left[name] = (tokens if wait_s else tokens - 1, now)
            if len(self._left) > MAX_KEYS:
                self._left.popitem(last=False)
            return wait_s


@dataclass(frozen=True)
class Context:
    """The parts of one console."""

    settings: ConsoleSettings
    engine: Engine
    feeder: Feeder
    inbox: SendingInbox
    sender: ConsoleProducer
    buckets: RateLimits

    @classmethod
    def of(cls, settings: ConsoleSettings, engine: Engine, feeder: Feeder) -> "Context":
        """The context with the parts derived from these."""
        sender = ConsoleProducer(settings.bootstrap, settings.client)
        inbox = SendingInbox(
            settings.bootstrap,
            topics=settings.topics,
            group=settings.workers,
            answer_within_s=settings.answer_within_s,
            client=settings.client,
        )
        inbox.sender = sender
        buckets = RateLimits(settings.requests_per_s, settings.burst)
        return cls(settings, engine, feeder, inbox, sender, buckets)

    @property
    def kept(self) -> Sql:
        """The rows of the read model."""
        return Sql(self.engine)

    def send(self, command: Command) -> bool:
        """Send a command to its topic. Returns whether the read model has read it, so that its client can, too.

        Raises Unreachable when the broker does not confirm it.
        """
        place = self.sender.send(self.settings.topics.commands, command.id.encode(), command.to_json())
        return self.feeder.wait_for(place, TAKEN_IN_WITHIN_S)


async def context_of(request: Request) -> Context:
    """The console's parts."""
    found = request.app.state.context
    if not isinstance(found, Context):
        raise TypeError(f"the app's state: expected a Context, got {type(found).__name__}")
    return found


ContextDep = Annotated[Context, Depends(context_of)]


WHO: Final = "haltline.who"
"""The key in a request's scope for its known caller: Who, or the HTTPException to respond with."""


def admitted(request: Request, here: Context) -> Who:
    """The caller by key or cookie. Raises HTTPException: unknown, or too many requests."""
    authorization = request.headers.get("authorization")
    scheme, _, key = (authorization or "").partition(" ")
    who = here.settings.keys.who(key.strip()) if scheme.lower() in _SCHEMES else None
    if not key and authorization is None and (session := session_of(request)) is not None:
        who = session.who
    if who is None:
        raise HTTPException(
            401,
            "Authorization: expected 'Bearer' and a key of this console, got none that is known",
            headers={"WWW-Authenticate": "Bearer"},
        )
    wait_s = here.buckets.take(who.name)
    if wait_s:
        raise HTTPException(
            429,
            f"{who.name}: expected at most {here.settings.requests_per_s:g} requests a second, got more",
            headers={"Retry-After": str(ceil(wait_s))},
        )
    return who


def _allowed(act: May) -> Callable[..., Awaitable[Who]]:
    # One dependency for both, as each adds a cost to every request.
    async def check(
        request: Request,
        here: ContextDep,
        # For the API's description; `admitted` reads it, before the body is read.
        authorization: Annotated[str | None, Header()] = None,  # noqa: ARG001
    ) -> Who:
        who = request.scope.get(WHO) or admitted(request, here)
        if isinstance(who, HTTPException):
            raise who
        if not who.may(act):
            raise HTTPException(403, f"{act}: expected a role that may, got {who.role} of {who.name}")
        return who

    return check


@dataclass(frozen=True)
class _SdkHeaders:
    agent_id: Annotated[str | None, Header(alias="x-sentinel-agent-id")] = None
    run_id: Annotated[str | None, Header(alias="x-sentinel-run-id")] = None


SdkHeaders = Annotated[_SdkHeaders, Depends()]
"""The agent and the run that Agent Sentinel's SDK names in headers."""
Viewer = Annotated[Who, Depends(_allowed("look"))]
AgentClient = Annotated[Who, Depends(_allowed("tell"))]
OperatorClient = Annotated[Who, Depends(_allowed("act"))]
PolicyAdmin = Annotated[Who, Depends(_allowed("change"))]
