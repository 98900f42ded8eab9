"""Causes of refusals and texts for the agent, from decisions and entries of the control topic."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement.pending_approvals import APPROVAL_PENDING
from haltline.interventions.agent.refused import NO_VERDICT, Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.author_rules.objection import Objection
from haltline.interventions.state import texts
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import Decision, Level


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a refusal: a decision, or an entry of the control topic."""

    decision_id: str
    code: str
    message: str
    """The text for the model."""
    decided_at_ms: int | None = None
    decision: Decision | None = None

    def refusal(self) -> Refused:
        """Return the exception."""
        return Refused(self.code, self.message, self.decision)

    def alone(self, session_id: str) -> "Cause":
        """Return the cause where no operator is connected: the user releases the session with this id."""
        return replace(self, message=texts.alone(self.message, session_id))

    def saying(self, more: str) -> "Cause":
        """Return the cause with one more sentence for the model."""
        return replace(self, message=texts.fitted(f"{self.message} {more}".strip()))


NOBODY: Final = Cause("", NO_VERDICT, texts.NO_VERDICT)
REPLAYED: Final = "idempotent_replay"
"""The code of a call that is not repeated: the earlier result is returned."""
OWN_RULES: Final = "own_rules"
"""The `detector` of decisions by the agent's own rules; they are not published."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Hints and limits for the agent before it continues."""

    level: Level
    """NUDGE, REINFORCE or THROTTLE."""
    message: str
    """The text for the model."""
    code: str
    limits: dict[str, float]
    """For THROTTLE: the limits in force from now on."""
    decision: Decision


def cause_of(decision: Decision) -> Cause:
    """Return the cause from a decision."""
    return Cause(decision.decision_id, decision.code, texts.of_decision(decision), decision.decided_at, decision)


def cause_of_waiting(decision: Decision) -> Cause:
    """Return the cause of a call that waits for a person."""
    return Cause(decision.decision_id, APPROVAL_PENDING, texts.of_decision(decision), decision.decided_at, decision)


def may_look(record: ControlRecord) -> bool:
    """Return whether read-only calls are allowed."""
    return record.state is ControlState.CONTAINED


def cause_of_entry(record: ControlRecord) -> Cause:
    """Return the cause from an entry of the control topic."""
    return Cause(record.decision_id, record.code, texts.of_entry(record), record.decided_at)


def hints_of(advice: Iterable[Advice]) -> str:
    """Return the distinct texts for the model, one per line; empty without any."""
    return "\n".join(dict.fromkeys(one.message for one in advice if one.message))


def advice_of(decision: Decision) -> Advice:
    """Return the hints and limits of a decision."""
    return Advice(decision.level, decision.message, decision.code, dict(decision.limits or {}), decision)


def own_decision(objection: Objection, call: Call, settings: GuardSettings, number: int, now_ms: int) -> Decision:
    """Return the objection of an author's rule as a decision, which is not published."""
    return Decision(
        decision_id=f"{call.call_id}-own-{number}",
        session_id=settings.session_id,
        agent_id=settings.agent_id,
        event_id=call.call_id,
        call_id=call.call_id,
        time=now_ms,
        decided_at=now_ms,
        level=Level.BLOCK if objection.blocks else Level.NUDGE,
        code=objection.code,
        reason=objection.detail,
        message=objection.message,
        detector=OWN_RULES,
        values=objection.values,
        thresholds=objection.thresholds,
        action=call.action[:512],
        remediation=objection.remediation,
    )
