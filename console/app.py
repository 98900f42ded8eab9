"""The application: the routes, and the read model's feeder."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import DataError, OperationalError

from haltline.console import telemetry
from haltline.console.access.keys import Who
from haltline.console.access.oidc import install_oidc
from haltline.console.context import Context, ContextDep, admitted
from haltline.console.http import routing
from haltline.console.http.examples import describe
from haltline.console.http.middleware import ResponseHeadersMiddleware
from haltline.console.live import Live
from haltline.console.pages import install
from haltline.console.protection_watch import ProtectionWatch
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.console.request_limits import RequestLimits
from haltline.console.routes import (
    approvals,
    control,
    findings,
    incidents,
    interventions,
    policies,
    search,
    sessions,
)
from haltline.console.settings import ConsoleSettings
from haltline.streams.kafka.log_reader import NoSuchTopic, Unreachable
from haltline.streams.operator.command_factory import NotAllowed
from haltline.streams.operator.ids import NotFound

log: Final = logging.getLogger("haltline.console")

_STATUS: Final[dict[type[Exception], int]] = {
    NotAllowed: 409,
    NotFound: 404,
    Unreachable: 503,
    NoSuchTopic: 503,
    OperationalError: 503,
    DataError: 400,
}


class Refused(BaseModel):
    """Why a request failed: where, what was expected and what was received."""

    detail: str


class Health(BaseModel):
    """The health of the console."""

    ok: bool
    problem: str = ""
    read: int = 0
    """How many of the records from before its start it has read."""
    of: int = 0
    """How many there are."""


_REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Refused, "description": what}
    for status, what in (
        (400, "A value that cannot be kept or looked for."),
        (401, "No key of this console."),
        (403, "The key's role does not allow it."),
        (409, "It may not be done, or not now."),
        (429, "The key asks more often than it may; `Retry-After` says when again."),
        (503, "No broker or no database answers."),
    )
}
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def create_app(settings: ConsoleSettings, *, on_failure: Callable[[], None] = lambda: None) -> FastAPI:
    """Create the console's API; it reads topics from its start to its shutdown.

    `on_failure` is called when its read model can no longer be updated: the context's feeder has the failure.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = open_store(settings.database)
        feeder = Feeder(
            engine,
            settings.bootstrap,
            topics=settings.topics,
            group=settings.group,
            client=settings.client,
            on_rows=app.state.live.add,
            on_failure=on_failure,
        )
        context = app.state.context = Context.of(settings, engine, feeder)
        feeder.start()
        lag = telemetry.follow(feeder, settings, metrics)
        watch = app.state.protection = ProtectionWatch(settings, engine, feeder)
        watch.start()
        try:
            yield
        finally:
            watch.close()
            lag.close()
            feeder.close()
            context.sender.close()
            engine.dispose()

    app = FastAPI(
        title="haltline",
        version="1",
        lifespan=lifespan,
        summary="What agents did, and what stopped them.",
        docs_url=None,  # FastAPI's own page loads external scripts; the console has its own
        redoc_url=None,
    )
    app.state.live = Live(settings.topics.prefix)
    app.add_middleware(RequestLimits, who=_who, requests=settings.requests_at_once, streams=settings.streams_at_once)
    metrics = telemetry.install(app, settings)
    for routes in (
        interventions,
        approvals,
        control,
        sessions,
        policies,
        findings,
        incidents,
        search,
    ):
        app.include_router(routes.router, responses=_REFUSED)
    install(app, _REFUSED)
    if settings.provider is not None:
        install_oidc(app, settings.provider)
    app.add_exception_handler(RequestValidationError, routing.invalid_request)
    for failure, status in _STATUS.items():
        app.add_exception_handler(failure, _answer(status))

    app.add_middleware(ResponseHeadersMiddleware, always=_HEADERS)

    @app.get("/healthz", tags=["health"], response_model=Health)
    async def healthy(here: ContextDep) -> JSONResponse:
        """200 while the read model is updated; `problem` also reports offsets that do not match the topics."""
        # Async, because slow routes may occupy all threads.
        well = here.feeder.alive
        return JSONResponse({"ok": well, "problem": _waits_for(here)}, 200 if well else 503)

    @app.get("/readyz", tags=["health"], response_model=Health)
    async def ready(here: ContextDep) -> JSONResponse:
        """200 once all records from before the start have been read, and while the topics still hold what was read."""
        is_ahead = any(not one.is_gap for one in here.feeder.mismatches())
        well = here.feeder.alive and here.feeder.caught_up.is_set() and not is_ahead
        read, of = here.feeder.progress()
        return JSONResponse({"ok": well, "problem": _waits_for(here), "read": read, "of": of}, 200 if well else 503)

    describe(app)
    return app


def _waits_for(here: Context) -> str:
    if here.feeder.missing:
        return f"the console waits for topics: {here.feeder.missing}; haltline topics create makes them"
    found = [one.text(here.settings.topics.prefix) for one in here.feeder.mismatches()]
    return "; ".join([*found, "haltline console --rebuild rebuilds the read model"] if found else [])


def _who(request: Request) -> Who:
    return admitted(request, request.app.state.context)


def _answer(status: int) -> Any:
    async def answer(_: Request, failure: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(failure)}, status)

    return answer
