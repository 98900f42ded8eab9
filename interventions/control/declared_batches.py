"""Bulk work declared by an operator: who may destroy how much of what, until when, and how much is used.

A declared batch lifts the volume limits for its targets only: a repetition of the same target still counts, and so does
everything beyond its maximum. It is valid for a shift at most, whatever the command states. Each covered action is
published, so that its use is in the audit.
"""

from datetime import timedelta
from typing import Final

from haltline.interventions.state.decision_fields import about
from haltline.interventions.state.session_control import DeclaredBatch, SessionControl, digest
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy

LONGEST: Final = timedelta(hours=8)
"""The longest validity of a declared batch: its operator's shift."""
MAX_BATCHES: Final = 16
"""Declared batches of a session; the oldest is dropped first."""
CODE: Final = "declared_batch"


def declare(standing: SessionControl, command: Command) -> None:
    """Store a declared batch, dropping the oldest beyond the maximum. Idempotent per command."""
    batch = command.batch
    if batch is None or any(known.command_id == command.command_id for known in standing.batches):
        return
    longest_ms = command.time + round(LONGEST.total_seconds() * 1000)
    standing.batches.append(
        DeclaredBatch(
            batch.actions,
            batch.targets,
            batch.max_deletes,
            min(batch.expires, longest_ms),
            command.by,
            command.reason[:512],
            command.command_id,
        )
    )
    del standing.batches[:-MAX_BATCHES]


def decision_on(declared: DeclaredBatch, event: ActionEvent, decision: Decision | None, policy: Policy) -> Decision:
    """Return the decision on an action that a batch covers, with the batch's use so far."""
    use: dict[str, float | int | str] = {
        "batch": declared.command_id,
        "batch_used": declared.used,
        "batch_max": declared.max_deletes,
    }
    if decision is not None and (decision.level is not Level.ALLOW or decision.would is not None):
        return decision.model_copy(update={"values": {**decision.values, **use}})
    return Decision(
        decision_id=digest(CODE, event.session_id, event.event_id),
        level=Level.ALLOW,
        code=CODE,
        reason=f"{declared.used} of the {declared.max_deletes} that {declared.by} declared: {declared.reason}",
        detector=CODE,
        values={**use, "batch_by": declared.by},
        **about(event, policy),
    )
