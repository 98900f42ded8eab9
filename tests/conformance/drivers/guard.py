"""A program that asks a guard in its own process."""

from haltline.interventions.agent import Guard
from haltline.interventions.agent.frame.session import FrameworkSession
from tests.conformance.drivers._program import play
from tests.conformance.harness import EFFECTS, Run, Script

ADAPTER = "haltline"
LACKS = frozenset[str]()
SYNC = ASYNC = True


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    return play(FrameworkSession(guard, effects=EFFECTS), script, is_async=is_async)


def delegate(guard: Guard, script: Script) -> Run:
    session = FrameworkSession(guard, effects=EFFECTS).subagent(agent_id=f"{guard.settings.agent_id}/helper")
    return play(session, script, is_async=False)
