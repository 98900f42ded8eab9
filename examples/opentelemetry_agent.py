"""An agent that writes OpenTelemetry's spans, seen by haltline: `python examples/opentelemetry_agent.py BOOTSTRAP`.

Its spans tell what it does; what a guard knows stops it between two steps. It deletes the same thing again and again.
"""

import sys
import time

from opentelemetry.sdk.trace import TracerProvider

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.opentelemetry import HaltlineSpanProcessor

_WORK_S = 0.02


def main(bootstrap: str) -> None:
    """Runs it until it is stopped."""
    with Guard(agent_id="cleaner", bootstrap=bootstrap, start_budget_s=20) as guard:
        provider = TracerProvider()
        provider.add_span_processor(HaltlineSpanProcessor(guard.settings))
        tracer = provider.get_tracer("cleaner")
        agent = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": "cleaner",
            "gen_ai.conversation.id": guard.session_id,  # the session that the guard listens for
        }
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "delete_asset",
            "gen_ai.tool.call.arguments": '{"asset_id": "fact_sales"}',
        }
        with tracer.start_as_current_span("invoke_agent cleaner", attributes=agent):
            try:
                for _ in range(1000):
                    guard.check()
                    with tracer.start_as_current_span("execute_tool delete_asset", attributes=tool):
                        time.sleep(_WORK_S)
                        print("deleted fact_sales")
            except Refused as refused:
                print(f"stopped: {refused.code}")
        provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
