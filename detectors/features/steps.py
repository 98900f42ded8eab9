"""Steps of a session: the calls of one model turn, all of which were decided on before any had a result.

Producers seldom mark turns, so event times are used. A call belongs to the same step as the one before if it was
proposed at most `TOGETHER_MS` later, and
- before the first result of the step: whatever the order of the records (recordings often write each result after
  its proposal), the model could not know it; or
- so soon after that result that no model can have read it, and it differs from the calls of the step: models send the
  calls of a turn one after the other, and short ones have ended by then. The same call repeated after its result is a
  retry, however fast.
After a result, at most `MAX_CALLS` calls are joined, to distinguish a loop without a model from a turn. A published
model turn ends a step.

Misses: calls of one turn that are further apart; recordings in whole seconds whose turns take less than one.
"""

from msgspec import field

from haltline.detectors.features.observation_protocol import Observed
from haltline.schemas.stored import Stored

TOGETHER_MS = 1_500
MAX_CALLS = 8
_REACTION_MS = 300
"""Milliseconds; no model reads a result and proposes a call in less."""
_SECOND_MS = 1_000


class Step(Stored):
    """The step of the last attempt. Plain JSON values: part of the session's state."""

    first: int = 0
    """Index of its first call; 0: none since the last model turn."""
    began_ms: int = 0
    """Start of its first call, epoch milliseconds."""
    last_ms: int = 0
    """Start of its last call, epoch milliseconds."""
    ended_ms: int = 0
    """Time of its earliest result, epoch milliseconds; 0: none yet."""
    calls: list[str] = field(default_factory=list)
    """Fingerprints of its calls."""

    def of(self, act: Observed) -> int:
        """Index of the first call of an attempt's step."""
        if self.first and self._holds(act):
            return self.first
        return act.index

    def _holds(self, act: Observed) -> bool:
        began_ms = act.began_ms
        if abs(began_ms - self.last_ms) > TOGETHER_MS:
            return False
        if not self.ended_ms:
            return True
        if len(self.calls) >= MAX_CALLS or (act.is_result and act.time_ms < self.began_ms):
            return False
        if began_ms < self.ended_ms:
            return True
        if began_ms - self.began_ms > TOGETHER_MS or act.fingerprint in self.calls:
            return False
        return began_ms - self.ended_ms <= _REACTION_MS or self._is_next_second(act, began_ms)

    def _is_next_second(self, act: Observed, began_ms: int) -> bool:
        """Return whether the call is one second later in a recording in whole seconds: less time may have passed."""
        if act.is_result or self.ended_ms != self.began_ms:
            return False
        return began_ms - self.ended_ms == _SECOND_MS and began_ms % _SECOND_MS == 0

    def note_attempt(self, act: Observed) -> None:
        """Record an attempt."""
        began_ms = act.began_ms
        if act.step == self.first:
            self.last_ms = max(self.last_ms, began_ms)
            if len(self.calls) < MAX_CALLS:
                self.calls.append(act.fingerprint)
            return
        self.first, self.began_ms, self.last_ms, self.ended_ms = act.index, began_ms, began_ms, 0
        self.calls = [act.fingerprint]

    def note_result(self, act: Observed) -> None:
        """Record the result of a call."""
        if act.step == self.first and (not self.ended_ms or act.time_ms < self.ended_ms):
            self.ended_ms = act.time_ms

    def note_turn(self) -> None:
        """Record a model turn: later calls were decided on after it."""
        self.first = 0
