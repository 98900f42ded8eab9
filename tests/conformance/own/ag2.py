"""The trap of AG2: agents of subtasks without their agent's middleware. Run with its driver."""

import asyncio
from typing import Any

import ag2

from haltline.interventions.agent.integrations.ag2 import HaltlineMiddleware
from haltline.interventions.agent.testing import ScriptedGuard
from tests.conformance.cases import work
from tests.conformance.drivers import ag2 as driver
from tests.conformance.harness import TOOLS, Call, numbered, ran
from tests.conformance.own import own


@own("a subtask, whose tools would not be guarded, is not started")
def _() -> None:
    ran.clear()
    model = driver.Scripted(numbered([[Call("run_subtask", {"task": "delete"})], [work("a")]]))
    middleware = [HaltlineMiddleware(ScriptedGuard())]
    agent: Any = ag2.Agent("a", config=model, tools=TOOLS, middleware=middleware, tasks=ag2.TaskConfig())
    asyncio.run(agent.ask("work"))
    assert model.run.turns == 3, "those of the agent alone"
    assert ran == ["work a"]
