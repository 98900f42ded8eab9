"""An agent that writes OpenTelemetry's spans: it deletes the same thing again and again, is seen, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py

Its spans report what it does; the guard stops it between two steps.
"""

import time

from opentelemetry.sdk.trace import TracerProvider

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.opentelemetry import HaltlineSpanProcessor

_WORK_S = 0.02


def main() -> None:
    """Run the agent until it is stopped."""
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        provider = TracerProvider()
        provider.add_span_processor(HaltlineSpanProcessor(guard.settings))
        tracer = provider.get_tracer("cleaner")
        agent = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": "cleaner",
            "gen_ai.conversation.id": guard.session_id,  # the session of the guard
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
    main()
