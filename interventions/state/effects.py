"""Effects on a session of an operator's command, of feedback, or of the clock."""

from dataclasses import dataclass

from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding
from haltline.schemas.incidents import IncidentRecord


@dataclass(frozen=True, slots=True)
class ControlEffects:
    """The records to publish."""

    decisions: tuple[Decision, ...] = ()
    """For the agent's side, in order."""
    control: ControlRecord | None = None
    """The restriction in force from now on."""
    released: bool = False
    """No restriction is in force any more."""
    incident: Finding | None = None
    """To be stored as a detection: about a deadline, not an event."""
    incidents: tuple[IncidentRecord, ...] = ()
    """The new revisions of incidents."""
    followup: str = ""
    """The name under which it is counted: `reissued`, `unacknowledged`, `approval_expired` and so on."""


NOTHING = ControlEffects()


@dataclass(frozen=True, slots=True)
class SessionRef:
    """The session concerned."""

    session_id: str
    agent_id: str
    listens: bool = True
    """It has events, and has not ended: its guard can acknowledge."""
