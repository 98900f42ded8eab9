"""A sample agent with a brittle task: it deletes a stale asset, and retries until that is gone.

The catalogue accepts each delete, and the asset exists again at once. Nothing in this agent would ever end the loop; it
even ignores advice. Its ids and addresses come from HALTLINE_* variables.
"""

import argparse
import sys
import time

from haltline.interventions.agent import Guard, GuardSettings, Task
from haltline.streams.demo.agent_kit import EXIT_STOPPED, attempt, catalogue, print_hint, say
from haltline.streams.demo.catalogue import COPY, GONE, STUCK

BRITTLE = f"remove the stale asset {STUCK}, retry until it is gone"
CURED = f"remove the copy {COPY}; if {STUCK} is still there, report it instead of deleting it again"


def work(guard: Guard, *, cured: bool, pause_s: float) -> int:
    """Do the task with guarded tools. Returns the exit code."""

    @guard.tool(effect="destructive")
    def delete_asset(asset_id: str) -> str:
        return catalogue("DELETE", f"/assets/{asset_id}")

    @guard.tool(effect="destructive")
    def drop_table(table: str) -> str:
        return catalogue("DELETE", f"/assets/{table}")

    @guard.tool(effect="read")
    def list_assets() -> str:
        return catalogue("GET", "/assets")

    if cured:
        if attempt(delete_asset, COPY) != GONE or (found := attempt(list_assets)) is None:
            return EXIT_STOPPED
        if STUCK in found.split():
            say(f"{STUCK} is still there; reported to its owner, not deleted again")
        return 0

    while (answer := attempt(delete_asset, STUCK)) is not None:
        if answer == GONE:
            return 0
        time.sleep(pause_s)

    # Refused; a stubborn agent tries to bypass that.
    attempt(delete_asset, STUCK)
    attempt(drop_table, STUCK)
    attempt(list_assets)
    say("nothing works any more, I give up")
    return EXIT_STOPPED


def main() -> int:
    """Run the agent."""
    parser = argparse.ArgumentParser(description="A sample agent with a brittle task, under haltline's guard.")
    parser.add_argument("--cured", action="store_true", help="the corrected task: report instead of retrying")
    parser.add_argument("--pause-s", type=float, default=6.0, help="between two attempts (%(default)s)")
    options = parser.parse_args()
    goal = CURED if options.cured else BRITTLE
    settings = GuardSettings.from_env(mode="blocking", task=Task(goal=goal))
    with Guard(settings, on_advice=print_hint) as guard:
        say(f"my task: {goal}")
        return work(guard, cured=options.cured, pause_s=options.pause_s)


if __name__ == "__main__":
    sys.exit(main())
