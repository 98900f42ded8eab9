"""The traps of the OpenAI Agents SDK. Run with its driver."""

from agents import LocalShellTool

from haltline.interventions.agent.integrations.openai_agents import HaltlineAgents
from haltline.interventions.agent.testing import ScriptedGuard
from tests.conformance.own import own


@own("a tool that takes no guardrail is refused at the start")
def _() -> None:
    error = ""
    try:
        HaltlineAgents(ScriptedGuard()).guarded([LocalShellTool(executor=lambda _: "done")])
    except ValueError as raised:
        error = str(raised)
    assert "expected functions, or tools of the provider, got LocalShellTool" in error
