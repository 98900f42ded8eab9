"""A local service of this process, on a socket and over HTTP, whose sessions are the guards of the cases."""

import asyncio
import functools
import http.client
import itertools
import json
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from aiohttp import web

from haltline.interventions.agent import Guard
from haltline.interventions.agent.service.client import (
    Connection,
    OnOrder,
    Reach,
    ServiceGone,
    ServiceRefused,
    ServiceSession,
)
from haltline.interventions.agent.service.server import Server
from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.app import Intake
from tests.conformance.drivers._program import play
from tests.conformance.harness import EFFECTS, Run, Script
from tests.waiting import wait_until

KEY = "the key of this test"


class Service:
    def __init__(self) -> None:
        self.guards: dict[str, Guard] = {}
        self.numbers = itertools.count()
        settings = GuardSettings(session_id="service", mode="local")
        self._intake = Intake(settings, token=KEY, max_sessions=10_000, make_guard=self._guard_of, is_local=True)
        self.path = Path(tempfile.mkdtemp(prefix="hl", dir="/tmp"), "s.sock")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        hooks = mock.AsyncMock()
        hooks.__len__ = lambda _: 0
        asyncio.run_coroutine_threadsafe(Server(self.path, self._intake.verbs, hooks, idle_s=None).serve(), self._loop)
        wait_until(self.path.exists, "the service serves")

    def _guard_of(self, asked: GuardSettings, /, **_: Any) -> Guard:
        return self.guards[asked.session_id]

    async def _listen(self) -> int:
        runner = web.AppRunner(self._intake.app(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    def play(self, reach: Reach, guard: Guard, script: Script, *, is_async: bool, below: bool = False) -> Run:
        """Play the script in a session that is the guard's, or in one below it."""
        name = guard.session_id if below else f"run {next(self.numbers)}"
        self.guards[name] = guard
        agent = ServiceSession(reach, {"session_id": name}, effects=EFFECTS)
        agent.begin()
        if not below:
            return play(agent, script, is_async=is_async)
        named = f"{guard.settings.agent_id}/helper"
        try:
            helper = ServiceSession(reach, {"parent_session_id": name, "agent_id": named}, effects=EFFECTS)
            return play(helper, script, is_async=is_async)
        finally:
            agent.end()  # the next case has a session of this name


@functools.cache
def service() -> Service:
    return Service()


def by_socket(on_order: OnOrder) -> Connection:
    return Connection(service().path, on_order)


class OverHttp:
    """Asks over HTTP, as a program in another language does."""

    def __init__(self, _: OnOrder) -> None:
        self._own = threading.local()

    def ask(self, verb: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection("127.0.0.1", service().port)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        try:
            self._own.connection.request("POST", f"/v2/{verb}", orjson.dumps(fields), headers)
            response = self._own.connection.getresponse()
            answer = json.loads(response.read())
        except OSError as error:
            raise ServiceGone(str(error)) from error
        if response.status != 200:
            raise ServiceRefused(response.status, "; ".join(answer["errors"]))
        return dict(answer)

    def close(self) -> None:
        pass
