"""An agent of DSPy behind haltline, with a scripted model: `python examples/dspy_agent.py BOOTSTRAP`.

It deletes the same thing again and again; haltline stops it.
"""

import sys

import dspy
from dspy.utils import DummyLM

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.dspy import guarded


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


def main(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    step = {
        "next_thought": "I delete it.",
        "next_tool_name": "delete_asset",
        "next_tool_args": '{"asset_id": "fact_sales"}',
    }
    dspy.configure(lm=DummyLM([step] * 10))
    with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        program = guarded(dspy.ReAct("task -> answer", tools=[delete_asset]), guard)
        try:
            program(task="Tidy up the warehouse.")
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    main(sys.argv[1])
