"""An agent in a process of its own: calls a tool so many times, and prints what came of each.

`python -m tests.interventions.agent.agent_process BOOTSTRAP SESSION TOOL TIMES [PREFIX]`
"""

import sys

from haltline.interventions.agent import Guard, Refused


def main(bootstrap: str, session_id: str, tool: str, times: str, prefix: str = "haltline.") -> None:
    executed = 0
    guard = Guard(
        session_id=session_id,
        agent_id="cleaner",
        bootstrap=bootstrap,
        topic_prefix=prefix,
        mode="blocking",
        budget_s=20.0,
        start_budget_s=20.0,
    )

    @guard.tool(name=tool)
    def act(asset_id: str) -> str:
        nonlocal executed
        executed += 1
        return f"{asset_id} still exists"

    with guard:
        for _ in range(int(times)):
            try:
                print(act("fact_sales"), flush=True)
            except Refused as refused:
                print(refused.code, flush=True)
    print(f"executed {executed}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
