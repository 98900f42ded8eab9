"""Changed arguments: those that a decision sets instead of the proposed ones."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.refused import Refused
from haltline.schemas.decisions import Decision

NOT_CHANGED = "arguments_not_changed"
"""The code of a call that needs arguments which its function does not take."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to the proposed arguments of a call."""

    put: Mapping[str, Any] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    decision: Decision | None = None

    def __bool__(self) -> bool:
        return bool(self.put or self.remove)

    def of(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments to use."""
        return {name: value for name, value in args.items() if name not in self.remove} | dict(self.put)

    def refusal(self, why: str) -> Refused:
        """Return the refusal of a call whose arguments cannot be changed."""
        return Refused(NOT_CHANGED, f"This call is only allowed with other arguments: {why}.", self.decision)


UNCHANGED = Changes()
"""The arguments stay as proposed."""


def changes_for(call_id: str, advice: Iterable[Advice]) -> Changes:
    """Return the changes for this call; changes meant for another call do not apply."""
    for one in advice:
        decision = one.decision
        if decision.call_id == call_id and (decision.arguments is not None or decision.without_arguments):
            return Changes(decision.arguments or {}, decision.without_arguments or (), decision)
    return UNCHANGED


def applied(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], changes: Changes
) -> inspect.BoundArguments:
    """Return the bound arguments with the changes.

    Raises: Refused: the function does not take one of them, and the proposed arguments are not allowed.
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
