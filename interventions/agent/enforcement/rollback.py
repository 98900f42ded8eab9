"""Execution of a ROLLBACK: the checkpoint is restored, and the result is verified and published."""

import logging
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Final, Protocol

from haltline.interventions.agent.checkpoints import CannotRestore, Checkpoints
from haltline.schemas.control import Stage
from haltline.schemas.decisions import Decision

log: Final = logging.getLogger("haltline.agent")

BY_THE_AGENT: Final = "refused; the guard keeps no checkpoints: going back is left to the agent's own code"
NO_SAFE_ONE: Final = "nothing was restored: no checkpoint is safe, a person has to recover the work"

_carried_out: ContextVar["Future[str] | None"] = ContextVar("haltline_carried_out", default=None)


class RollbackNotice(Protocol):
    """Reports progress to the worker."""

    def __call__(self, decision: Decision, stage: Stage, detail: str) -> None: ...  # noqa: D102 - the class says it


def waits_for(going_back: "Future[str] | None") -> bool:
    """Return whether a call waits for this rollback; a tool that `restore` itself calls does not."""
    return going_back is not None and not going_back.done() and _carried_out.get() is not going_back


def roll_back(checkpoints: Checkpoints, decision: Decision, tell: RollbackNotice, done: "Future[str]") -> None:
    """Start the rollback in a thread; `done` completes with the text for the model, and never fails."""

    def run() -> None:
        _carried_out.set(done)
        detail = "Nothing was restored."
        try:
            detail = _carry_out(checkpoints, decision, tell)
        except Exception:
            log.exception("haltline: session %s: the rollback failed", decision.session_id)
        finally:
            done.set_result(detail)

    threading.Thread(target=run, name="haltline-rollback", daemon=True).start()


def _carry_out(checkpoints: Checkpoints, decision: Decision, tell: RollbackNotice) -> str:
    checkpoint = decision.checkpoint
    if checkpoint is None:
        tell(decision, Stage.FAILED, NO_SAFE_ONE)
        return "Nothing was restored: a person has to review what was done."
    try:
        restored = checkpoints.restore(checkpoint)
    except CannotRestore as error:
        log.warning("haltline: session %s: %s", decision.session_id, error)
        tell(decision, Stage.FAILED, f"not restored: {error}")
        return "The changes could not be undone: a person has to review them."
    tell(decision, Stage.APPLIED, f"restored: {restored}")
    return f"The work was restored to checkpoint {checkpoint}. Continue from there with another approach."
