"""The agent's side: the package that authors use in their agents.

    from haltline.interventions.agent import Guard, Refused

    guard = Guard(session_id="42", agent_id="cleaner", bootstrap="localhost:9092", mode="blocking")

    @guard.tool
    def delete_asset(asset_id: str) -> str: ...

A refused call raises Refused; haltline raises no other exception into the agent's code.
"""

from haltline.interventions.agent.calls.guarded_call import Action
from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.rules.settings import ClientRules
from haltline.interventions.agent.settings import CallMode, GuardSettings
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import Effect, Task, Usage

__all__ = [
    "Action",
    "Advice",
    "CallMode",
    "ClientRules",
    "Decision",
    "Effect",
    "Guard",
    "GuardSettings",
    "Level",
    "Refused",
    "Task",
    "Usage",
]
