"""The choice of a checkpoint for a rollback. Pure: the agent's side saves and restores checkpoints.

The choice is the newest one before the issue began that is safe: the agent's side declares it safe, enough of the calls
before it succeeded, none failed shortly before it, it is not too old and not too far back. An issue began at the first
event of its evidence; without offsets of the log, `UNKNOWN_START_MS` before the finding.
"""

from collections.abc import Iterator
from typing import Final

from haltline.interventions.state.intervention_history import Checkpoints, Kept
from haltline.schemas.events import ActionEvent, Outcome
from haltline.schemas.findings import Finding
from haltline.schemas.intervening import RollbackLimits
from haltline.schemas.payloads import Checkpoint, Rollback

MAX_KEPT: Final = 16
"""Checkpoints stored, the oldest dropped first."""
UNKNOWN_START_MS: Final = 300_000

PLAN: Final = (
    "Do nothing more, and leave everything as it is.",
    "Have a person compare the changes since the session began with the task.",
    "Undo by hand what should not have been done, from backups or version control.",
    "Start a new session with the corrected task, with checkpoints enabled.",
)
"""The steps without a safe checkpoint."""


def note_checkpoint(state: Checkpoints, checkpoint: Checkpoint, event: ActionEvent, offset: int, action: int) -> None:
    """Store a checkpoint that the agent's side has saved."""
    calls = state.succeeded + state.failed
    state.kept = [kept for kept in state.kept if kept.id != checkpoint.id][-(MAX_KEPT - 1) :]
    state.kept.append(
        Kept(
            id=checkpoint.id,
            time_ms=event.time,
            offset=offset if offset >= 0 else None,
            action=action,
            safe=checkpoint.safe,
            rate=round(state.succeeded / calls, 3) if calls else 1.0,
            quiet_ms=None if state.error_ms is None else max(0, event.time - state.error_ms),
        )
    )
    state.succeeded = state.failed = 0


def note_result(state: Checkpoints, event: ActionEvent) -> None:
    """Count the result of a call, in a session with checkpoints."""
    if event.outcome is Outcome.OK:
        state.succeeded += 1
    elif event.outcome in (Outcome.ERROR, Outcome.TIMEOUT):
        state.failed += 1
        state.error_ms = event.time


def choose(state: Checkpoints | None, event: ActionEvent, finding: Finding, limits: RollbackLimits) -> Rollback:
    """Return the checkpoint to restore, or that a person has to recover the work."""
    kept = [] if state is None else state.kept
    if not kept:
        return _none("no checkpoint was reported")
    for number, checkpoint in enumerate(reversed(kept), start=1):
        why_not = next(_against(checkpoint, event, finding, limits), None)
        if why_not is not None:
            continue
        if number > limits.max_depth:
            return _none(f"checkpoint {checkpoint.id} is safe, but {number} back: expected at most {limits.max_depth}")
        return Rollback(
            checkpoint=checkpoint.id,
            depth=number,
            why=f"the newest safe one before the issue began; {checkpoint.rate:.0%} of the calls before it succeeded",
        )
    reasons = "; ".join(f"{c.id}: {next(_against(c, event, finding, limits))}" for c in reversed(kept[-3:]))
    return _none(f"none of {len(kept)} checkpoints is safe ({reasons})")


def _against(kept: Kept, event: ActionEvent, finding: Finding, limits: RollbackLimits) -> Iterator[str]:
    first = finding.evidence[0]
    if kept.offset is not None and first.offset is not None:
        if kept.offset >= first.offset:
            yield "was taken after the issue began"
    elif kept.time_ms >= event.time - UNKNOWN_START_MS:
        yield "may have been taken after the issue began"
    if event.time - kept.time_ms > limits.retention_s * 1000:
        yield f"is older than {limits.retention_s:g} s"
    if not kept.safe:
        yield "the agent's side does not vouch for it"
    if kept.rate < limits.min_success_rate:
        yield f"{kept.rate:.0%} of the calls before it succeeded"
    if kept.quiet_ms is not None and kept.quiet_ms < limits.no_errors_s * 1000:
        yield f"a call failed {kept.quiet_ms / 1000:g} s before it"


def _none(why: str) -> Rollback:
    return Rollback(recovery_needed=True, why=why, plan=PLAN)
