"""Calls that wait for a person's approval, as known to the guard."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from haltline.interventions.levels.default_levels import freeze_code
from haltline.interventions.state.texts import nobody_to_ask
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import WHOLE_SESSION, Approval, ApprovalState, Decision, Level, ScopeKind

APPROVAL_PENDING: Final = "approval_pending"
"""The code of a call refused because its approval is pending."""
APPROVAL_EXPIRED: Final = "approval_expired"
"""The code of a call whose approval request expired."""

_LOOSENED_BY: Final = {"ask_first": "settings.allowed", "destructive_volume": "settings.max_deletes"}
"""By rule: the setting that allows such a call; for other rules, their mode."""

_MAX = 64
_OPEN = frozenset({ApprovalState.PENDING, ApprovalState.INFO_REQUESTED})
_LETS_ONE_PASS = frozenset({ApprovalState.APPROVED, ApprovalState.USED})


def awaits_approval(decision: Decision | None) -> Approval | None:
    """Return the open request that a call has to wait for, if any."""
    if decision is None or decision.level is not Level.PAUSE or decision.approval is None:
        return None
    return decision.approval if decision.approval.state in _OPEN else None


def is_answer(decision: Decision) -> bool:
    """Return whether it is the answer to a request: it applies to the call that waits, and to no other."""
    return decision.approval is not None and awaits_approval(decision) is None


def is_same_request(one: Decision, other: Decision) -> bool:
    """Return whether both decisions are about the same approval request."""
    if one.approval is None or other.approval is None:
        return False
    return one.approval.request_id == other.approval.request_id


def refused_alone(paused: Decision) -> Decision:
    """Return the refusal of a call that needs approval in mode local, naming the settings that allow it.

    The agent's author may read it. It contains no values of settings. The session continues.
    """
    rule = f"rules.{paused.detector}"
    setting = f"{rule}.{_LOOSENED_BY.get(paused.detector, 'mode')}"
    return paused.model_copy(
        update={
            "code": APPROVAL_PENDING,
            "message": nobody_to_ask(paused, setting),
        }
    )


def held_alone(held: Decision) -> Decision:
    """Return the refusal of the call at which a session is held in mode local: by the code of all those after it."""
    return held.model_copy(update={"code": freeze_code(held.detector)})


class Pending:
    """Open requests by canonical parameters. Not thread safe."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Decision] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._open)

    def update(self, decision: Decision) -> bool:
        """Apply a decision. Returns whether it is about a request, or a call, that was known to wait."""
        approval = decision.approval
        if approval is None:
            return False
        known = self._open.pop(approval.parameters, None)
        if awaits_approval(decision) is not None:
            for parameters in (approval.parameters, *(approval.also or ())):
                self._open[parameters] = decision
            while len(self._open) > _MAX:
                self._open.popitem(last=False)
            return known is not None
        if approval.state not in _LETS_ONE_PASS:  # the state applies to the calls queued behind it
            for parameters in approval.also or ():
                self._open.pop(parameters, None)
        return known is not None and is_same_request(known, decision)

    def against(self, parameters_of: Callable[[], str | None], now_ms: int) -> Decision | None:
        """Return the request that a call with these parameters has to wait for."""
        if not self._open or (parameters := parameters_of()) is None:
            return None
        decision = self._open.get(parameters)
        if decision is None or decision.approval is None:
            return None
        if decision.approval.expires <= now_ms:  # on the repeated call, the worker reports the current state
            del self._open[parameters]
            return None
        return decision


def of_session(decision: Decision) -> Approval | None:
    """Return the request to unfreeze the whole session, if the decision is about one."""
    approval = decision.approval
    return approval if approval is not None and approval.action == WHOLE_SESSION else None


def frozen_by(decision: Decision) -> ControlRecord:
    """Return the freeze that a decision implies, where no control topic has it."""
    return ControlRecord(
        scope=ScopeKind.SESSION,
        id=decision.session_id,
        state=ControlState.FROZEN,
        code=freeze_code(decision.detector),
        reason=decision.reason,
        decision_id=decision.decision_id,
        since=decision.time,
    )
