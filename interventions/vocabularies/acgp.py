"""ACGP: five interventions, and the flag in addition to any of them. Upper case in code, lower case in messages."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from haltline.interventions.acgp.scores import Intervention
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.findings import Severity
from haltline.schemas.payloads import ReviewTicket
from haltline.schemas.record import EpochMs, Id, Name, Record, Text

__all__ = ["AcgpMessage", "Intervention", "render"]


class AcgpMessage(Record):
    """A decision as an ACGP intervention message."""

    type: Name = "INTERVENTION"
    intervention: Intervention
    flagged: bool = False
    flag_severity: Severity | None = None
    message: Text
    agent_id: Name
    session_id: Id
    decision_id: Id
    timestamp: EpochMs
    ctq: Annotated[float, Field(ge=0, le=1)] | None = None
    """None: the session is not governed by ACGP."""
    risk: Annotated[float, Field(ge=0, le=1)] | None = None
    agent_acl_tier: int | None = None
    tripwire: Name | None = None
    trust_debt: float | None = None
    standing: Name | None = None
    review_ticket: ReviewTicket | None = None


_BY_LEVEL: Final[Mapping[Level, Intervention]] = {
    Level.ALLOW: Intervention.OK,
    Level.NUDGE: Intervention.NUDGE,
    Level.REINFORCE: Intervention.NUDGE,
    Level.THROTTLE: Intervention.NUDGE,
    Level.PAUSE: Intervention.ESCALATE,
    Level.BLOCK: Intervention.BLOCK,
    Level.ROLLBACK: Intervention.BLOCK,
    Level.KILL: Intervention.HALT,
}
_EVALUATED: Final = ("ctq", "risk", "agent_acl_tier", "tripwire", "trust_debt", "standing")


def render(decision: Decision) -> AcgpMessage:
    """Return the message of a decision; every decision has one."""
    governance = decision.governance
    evaluated = {}
    if governance is not None:
        evaluated = {name: getattr(governance, name) for name in _EVALUATED} | {"review_ticket": governance.ticket}
    return AcgpMessage(
        intervention=_BY_LEVEL[decision.level],
        flagged=decision.flag,
        flag_severity=decision.flag_severity,
        message=decision.message or decision.reason,
        agent_id=decision.agent_id,
        session_id=decision.session_id,
        decision_id=decision.decision_id,
        timestamp=decision.time,
        **evaluated,
    )
