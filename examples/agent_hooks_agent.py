"""A host of agent-hooks with haltline as its interceptor: `python examples/agent_hooks_agent.py BOOTSTRAP`.

Its model deletes the same thing again and again; haltline stops it.
"""

import asyncio
import sys

from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionEmitter

from haltline import Guard
from haltline.interventions.agent.integrations.agent_hooks import HaltlineInterceptor


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


async def run(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        emitter = InterceptionEmitter().register(HaltlineInterceptor(guard), name="haltline")
        build = AgentContextBuilder(agent_id="cleaner", framework="example", session_id=guard.session_id)
        await emitter.emit(build.agent_startup(tools_registered=["delete_asset"]))
        for turn in range(10):
            call = {"call_id": f"c{turn}", "name": "delete_asset"}
            try:
                await emitter.emit(build.pre_model_call(model_id="scripted", messages=[]))
                before = await emitter.emit(build.pre_tool_call(**call, args={"asset_id": "fact_sales"}))
            except InterceptionBlocked as blocked:
                print(f"stopped: {blocked.result.verdict.reason}")
                break
            value = delete_asset(**before.target)
            await emitter.emit(build.post_tool_call(**call, args=before.target, value=value))
        await emitter.emit(build.agent_shutdown(reason="completed"))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
