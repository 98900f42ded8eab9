"""The agent's side: the package that authors use in their agents.

    from haltline.interventions.agent import Guard, Refused

    guard = Guard(session_id="42", agent_id="cleaner", bootstrap="localhost:9092", mode="blocking")

    @guard.tool
    def delete_asset(asset_id: str) -> str: ...

A refused call raises Refused; haltline raises no other exception into the agent's code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from haltline.interventions.agent.calls.call_gate import Action as Action
    from haltline.interventions.agent.enforcement.refusal_cause import Advice as Advice
    from haltline.interventions.agent.guard import Guard as Guard
    from haltline.interventions.agent.refused import Refused as Refused
    from haltline.interventions.agent.rules.settings import ClientRules as ClientRules
    from haltline.interventions.agent.settings import CallMode as CallMode
    from haltline.interventions.agent.settings import GuardSettings as GuardSettings
    from haltline.schemas.decisions import Decision as Decision
    from haltline.schemas.decisions import Level as Level
    from haltline.schemas.events import Effect as Effect
    from haltline.schemas.events import Task as Task
    from haltline.schemas.events import Usage as Usage

_PLACES: Final = {
    "Action": "haltline.interventions.agent.calls.call_gate",
    "Advice": "haltline.interventions.agent.enforcement.refusal_cause",
    "Guard": "haltline.interventions.agent.guard",
    "Refused": "haltline.interventions.agent.refused",
    "ClientRules": "haltline.interventions.agent.rules.settings",
    "CallMode": "haltline.interventions.agent.settings",
    "GuardSettings": "haltline.interventions.agent.settings",
    "Decision": "haltline.schemas.decisions",
    "Level": "haltline.schemas.decisions",
    "Effect": "haltline.schemas.events",
    "Task": "haltline.schemas.events",
    "Usage": "haltline.schemas.events",
}


def __getattr__(name: str) -> Any:
    # Late, so that hooks and services, which use parts of this package, do not load a guard.
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
