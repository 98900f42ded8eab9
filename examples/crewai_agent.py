"""An agent of CrewAI behind haltline: it deletes the same thing again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.hooks.dispatch import HookAborted
from crewai.tools import tool

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.crewai import guarded


@tool
def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    print(f"deleted {asset_id}")
    return f"{asset_id} still exists"


class Script(BaseLLM):
    """A model that requests the same call at every turn."""

    turns: int = 0

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Return the next turn."""
        self.turns += 1
        function = {"name": "delete_asset", "arguments": '{"asset_id": "fact_sales"}'}
        return [{"id": f"c{self.turns}", "type": "function", "function": function}]

    def supports_function_calling(self) -> bool:
        """Return True."""
        return True


def main() -> None:
    """Run the agent until it is stopped."""
    model = Script(model="scripted")
    # A real model, with its key in ANTHROPIC_API_KEY (pip install 'crewai[anthropic]'):
    # model = "anthropic/claude-sonnet-4-5"
    agent = Agent(role="cleaner", goal="Tidy up.", backstory="-", llm=model, tools=[delete_asset])
    task = Task(description="Tidy up the warehouse.", expected_output="A list.", agent=agent)
    crew = Crew(agents=[agent], tasks=[task], cache=False)
    with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        try:
            with guarded(guard):
                crew.kickoff()
        except HookAborted as aborted:
            if not isinstance(aborted.__cause__, Refused):
                raise
            print(f"stopped: {aborted.__cause__.code}")


if __name__ == "__main__":
    main()
