"""Changed arguments: what a decision puts in place of what was proposed."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.refused import Refused
from haltline.schemas.decisions import Decision

NOT_CHANGED = "arguments_not_changed"
"""The code of a call that would have had to be made with arguments that its function does not take."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How the arguments of a call are to differ from those that were proposed."""

    put: Mapping[str, Any] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    decision: Decision | None = None

    def __bool__(self) -> bool:
        return bool(self.put or self.remove)

    def of(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to use."""
        return {name: value for name, value in args.items() if name not in self.remove} | dict(self.put)

    def refusal(self, why: str) -> Refused:
        """That they cannot be changed, so that the call must not be made at all."""
        return Refused(NOT_CHANGED, f"This call is only allowed with other arguments: {why}.", self.decision)


UNCHANGED = Changes()
"""What was proposed stays as it is."""


def changes_for(call_id: str, advice: Iterable[Advice]) -> Changes:
    """What is to be changed in this very call; what was too late for another one is not meant."""
    for one in advice:
        decision = one.decision
        if decision.call_id == call_id and (decision.arguments is not None or decision.without_arguments):
            return Changes(decision.arguments or {}, decision.without_arguments or (), decision)
    return UNCHANGED


def applied(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], changes: Changes
) -> inspect.BoundArguments:
    """The call with its changes.

    Raises:
        Refused: the function does not take one of them; with what was proposed it must not be called.

    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        raise changes.refusal("these do not fit the function") from None
    others = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
    for name, value in changes.put.items():
        if name in signature.parameters and name != others:
            bound.arguments[name] = value
        elif others is not None:
            bound.arguments[others] = {**bound.arguments.get(others, {}), name: value}
        else:
            raise changes.refusal(f"{name} is none of the function's")
    for name in changes.remove:
        parameter = signature.parameters.get(name)
        if parameter is not None and parameter.default is parameter.empty:
            raise changes.refusal(f"{name} cannot be left out")
        bound.arguments.pop(name, None)
        if others is not None and name in bound.arguments.get(others, {}):
            bound.arguments[others] = {k: v for k, v in bound.arguments[others].items() if k != name}
    return bound
