"""What follows for a session from an operator, an answer of its side, or the clock."""

from dataclasses import dataclass

from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding
from haltline.schemas.incidents import IncidentRecord


@dataclass(frozen=True, slots=True)
class ControlEffects:
    """What is to be said, and to whom."""

    decisions: tuple[Decision, ...] = ()
    """To the agent's side, in order."""
    control: ControlRecord | None = None
    """What is in force from now on."""
    released: bool = False
    """Nothing is in force any more."""
    incident: Finding | None = None
    """To be kept as a detection: on no event, but on what was due."""
    incidents: tuple[IncidentRecord, ...] = ()
    """How incidents stand from now on."""
    followup: str = ""
    """What is counted: `reissued`, `unacknowledged`, `approval_expired` and so on."""


NOTHING = ControlEffects()


@dataclass(frozen=True, slots=True)
class SessionRef:
    """The session that it is about."""

    session_id: str
    agent_id: str
    listens: bool = True
    """It has events, and has not ended: somebody is there to acknowledge."""
