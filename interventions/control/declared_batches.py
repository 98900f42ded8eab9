"""Bulk work that an operator has declared: who may destroy how much of what, until when, and how much of it is used.

A declared batch lifts the limits on volume for what it names, and for nothing else: the same target again still counts,
and what is beyond its maximum counts as always. It holds for a shift at most, whatever the command says. Each act
that it covers is published, so that its use is in the audit.
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
"""A declared batch ends with the shift of who declared it."""
MAX_BATCHES: Final = 16
"""Declared batches that a session can have at once, the oldest forgotten first."""
CODE: Final = "declared_batch"


def declare(standing: SessionControl, command: Command) -> None:
    """Notes a declared batch; the oldest goes when there are too many. The same command twice is one batch."""
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
    """The decision on an act that a batch covers, with how much of the batch is used now."""
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
