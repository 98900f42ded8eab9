"""A host of agent-hooks with haltline as its interceptor: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio

from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionEmitter

from haltline import Guard, GuardSettings
from haltline.interventions.agent.integrations.agent_hooks import HaltlineInterceptor


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


def model(turn: int) -> dict[str, str]:
    """Return the same call at every turn, in place of a real model."""
    return {"call_id": f"c{turn}", "name": "delete_asset"}


async def main() -> None:
    """Run the agent until it is stopped."""
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        emitter = InterceptionEmitter().register(HaltlineInterceptor(guard), name="haltline")
        build = AgentContextBuilder(agent_id="cleaner", framework="example", session_id="tidy-1")
        await emitter.emit(build.agent_startup(tools_registered=["delete_asset"]))
        for turn in range(10):
            try:
                await emitter.emit(build.pre_model_call(model_id="scripted", messages=[]))
                call = model(turn)
                before = await emitter.emit(build.pre_tool_call(**call, args={"asset_id": "fact_sales"}))
            except InterceptionBlocked as blocked:
                print(f"stopped: {blocked.result.verdict.reason}")
                break
            value = delete_asset(**before.target)
            await emitter.emit(build.post_tool_call(**call, args=before.target, value=value))
        await emitter.emit(build.agent_shutdown(reason="completed"))


if __name__ == "__main__":
    asyncio.run(main())
