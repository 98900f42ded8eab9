"""Execution of a ROLLBACK: the checkpoint is restored, and the result is verified and published."""

import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final

from haltline.interventions.agent.checkpoints import CannotRestore, Checkpoints
from haltline.schemas.control import Stage
from haltline.schemas.decisions import Decision

log: Final = logging.getLogger("haltline.agent")

BY_THE_AGENT: Final = "refused; the guard keeps no checkpoints: going back is left to the agent's own code"
NO_SAFE_ONE: Final = "nothing was restored: no checkpoint is safe, a person has to recover the work"

_UNDER_WAY: Final = "The files are still being restored. Do not touch them before that is done."

_carried_out: ContextVar["Future[str] | None"] = ContextVar("haltline_carried_out", default=None)


class Rollbacks:
    """The rollbacks of one session, each in a thread of its own, so that no event loop is blocked."""

    def __init__(
        self, checkpoints: Checkpoints | None, budget_s: float, tell: Callable[[Decision, Stage, str], None]
    ) -> None:
        """`budget_s`: how long a call waits for one. `tell` reports progress to the worker."""
        self._checkpoints = checkpoints
        self.budget_s = budget_s
        self._tell = tell
        self._last: Future[str] | None = None

    @property
    def awaited(self) -> "Future[str] | None":
        """The rollback that a call waits for; not for one that a tool of `restore` itself is part of."""
        last = self._last
        return None if last is None or last.done() or _carried_out.get() is last else last

    def roll_back(self, decision: Decision) -> "Generator[tuple[Future[Any], float], None, str]":
        """Roll back and report it. Returns the text for the model."""
        checkpoints = self._checkpoints
        if checkpoints is None:  # the agent's own code rolls back: the refusal names the checkpoint
            self._tell(decision, Stage.APPLIED, BY_THE_AGENT)
            return ""
        done = self._last = Future[str]()  # set first, as calls of the rollback and of others read it

        def run() -> None:
            _carried_out.set(done)
            detail = "Nothing was restored."
            try:
                detail = self._carry_out(checkpoints, decision)
            except Exception:
                log.exception("haltline: session %s: the rollback failed", decision.session_id)
            finally:
                done.set_result(detail)

        threading.Thread(target=run, name="haltline-rollback", daemon=True).start()
        yield done, self.budget_s
        return done.result() if done.done() else _UNDER_WAY

    def _carry_out(self, checkpoints: Checkpoints, decision: Decision) -> str:
        checkpoint = decision.checkpoint
        if checkpoint is None:
            self._tell(decision, Stage.FAILED, NO_SAFE_ONE)
            return "Nothing was restored: a person has to review what was done."
        try:
            restored = checkpoints.restore(checkpoint)
        except CannotRestore as error:
            log.warning("haltline: session %s: %s", decision.session_id, error)
            self._tell(decision, Stage.FAILED, f"not restored: {error}")
            return "The changes could not be undone: a person has to review them."
        self._tell(decision, Stage.APPLIED, f"restored: {restored}")
        return f"The work was restored to checkpoint {checkpoint}. Continue from there with another approach."
