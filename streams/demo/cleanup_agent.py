"""A sample agent with a healthy task: it deletes every staging asset, each once.

These are many deletes in a short time, as in a loop; an operator has declared them. Its ids and addresses come from
HALTLINE_* variables.
"""

import sys

from haltline.interventions.agent import Guard, GuardSettings, Task
from haltline.streams.demo.agent_kit import EXIT_STOPPED, attempt, catalogue, print_hint
from haltline.streams.demo.catalogue import STAGING


def work(guard: Guard) -> int:
    """Do the task with a guarded tool. Returns the exit code."""

    @guard.tool(effect="destructive")
    def delete_asset(asset_id: str) -> str:
        return catalogue("DELETE", f"/assets/{asset_id}")

    for asset_id in STAGING:
        if attempt(delete_asset, asset_id) is None:
            return EXIT_STOPPED
    return 0


def main() -> int:
    """Run the agent."""
    goal = f"remove the {len(STAGING)} staging assets of the last quarter"
    with Guard(GuardSettings.from_env(mode="blocking", task=Task(goal=goal)), on_advice=print_hint) as guard:
        return work(guard)


if __name__ == "__main__":
    sys.exit(main())
