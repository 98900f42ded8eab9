"""An agent of DSPy behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import dspy
from dspy.utils import DummyLM

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.dspy import guarded

STEP = {
    "next_thought": "I delete it.",
    "next_tool_name": "delete_asset",
    "next_tool_args": '{"asset_id": "fact_sales"}',
}


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


def main() -> None:
    """Run the agent until it is stopped."""
    model = DummyLM([STEP] * 10)
    # A real model, with its key in ANTHROPIC_API_KEY:
    # model = dspy.LM("anthropic/claude-sonnet-4-5")
    dspy.configure(lm=model)
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        program = guarded(dspy.ReAct("task -> answer", tools=[delete_asset]), guard)
        try:
            program(task="Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    main()
