"""An intake in this process, whose sessions are the guards of the cases."""

import asyncio
import threading
from typing import Any

from aiohttp import web

from haltline.interventions.agent import Guard
from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.app import Intake


class Intakes:
    """On a port of this machine, for the whole of the process; `guards` by the session that a client names."""

    def __init__(self, **options: Any) -> None:
        self.guards: dict[str, Guard] = {}
        settings = GuardSettings(session_id="intake", mode="local")
        self.intake = Intake(settings, max_sessions=10_000, make_guard=self._guard_of, **options)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.url = asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result()

    def _guard_of(self, asked: GuardSettings, /, **_: Any) -> Guard:
        return self.guards[asked.session_id]

    async def _listen(self) -> str:
        runner = web.AppRunner(self.intake.app(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"
