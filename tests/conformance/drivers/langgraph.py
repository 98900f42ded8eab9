"""An agent of LangGraph's own `create_react_agent`."""

import warnings

from langgraph.prebuilt import create_react_agent

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.langchain import guarded
from tests.conformance.drivers.langchain import run_agent
from tests.conformance.harness import EFFECTS, Run, Script

ADAPTER = "langchain"
LACKS = frozenset({"reads_errors", "subagents"})
SYNC = ASYNC = True


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated
        return run_agent(guarded(create_react_agent, guard, effects=EFFECTS), script, is_async=is_async)
