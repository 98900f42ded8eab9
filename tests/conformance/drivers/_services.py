"""A local service of this process, on a socket and over HTTP, whose sessions are the guards of the cases."""

import asyncio
import functools
import http.client
import itertools
import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from haltline.interventions.agent import Guard
from haltline.interventions.agent.service.client import (
    Connection,
    OnOrder,
    Reach,
    ServiceGone,
    ServiceRefused,
    ServiceSession,
    encoded,
)
from haltline.interventions.agent.service.server import Server
from tests.conformance.drivers._intakes import Intakes
from tests.conformance.drivers._program import play
from tests.conformance.harness import EFFECTS, Run, Script
from tests.waiting import wait_until

KEY = "the key of this test"


class Service(Intakes):
    def __init__(self) -> None:
        super().__init__(token=KEY, is_local=True)
        self.numbers = itertools.count()
        self.path = Path(tempfile.mkdtemp(prefix="hl", dir="/tmp"), "s.sock")
        hooks = mock.AsyncMock()
        hooks.__len__ = lambda _: 0
        asyncio.run_coroutine_threadsafe(Server(self.path, self.intake.verbs, hooks, idle_s=None).serve(), self.loop)
        wait_until(self.path.exists, "the service serves")

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


def ways(reach: Reach) -> tuple[Callable[..., Run], Callable[[Guard, Script], Run]]:
    """Return `run` and `delegate` of a driver."""

    def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
        return service().play(reach, guard, script, is_async=is_async)

    def delegate(guard: Guard, script: Script) -> Run:
        return service().play(reach, guard, script, is_async=False, below=True)

    return run, delegate


def by_socket(on_order: OnOrder) -> Connection:
    return Connection(service().path, on_order)


class OverHttp:
    """Asks over HTTP, as a program in another language does."""

    def __init__(self, _: OnOrder) -> None:
        self._own = threading.local()

    def ask(self, verb: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection(service().url.removeprefix("http://"))
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        try:
            self._own.connection.request("POST", f"/v2/{verb}", encoded(fields), headers)
            response = self._own.connection.getresponse()
            answer = json.loads(response.read())
        except OSError as error:
            raise ServiceGone(str(error)) from error
        if response.status != 200:
            raise ServiceRefused(response.status, "; ".join(answer["errors"]))
        return dict(answer)

    def close(self) -> None:
        pass
