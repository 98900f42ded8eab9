"""Several agents destroy the same thing again and again.

Fires: `target_destruction` (high) on the `max_attempts`-th attempt at one target within `window_s` by at least two
    agents, and on each further one; critical from twice as many on.
Quiet: what one agent does alone, which is left to its own rules; declared batches; scratch files; what is local to a
    session's machine or checkout, such as files and branches.
Misses: one thing under two names. Many agents whose work is to delete from one place look alike if their calls name
    only that place: so its mode is warn unless a policy enforces it.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.base import WHAT, CrossSessionPattern, evidence, remembered, sessions
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, seconds, within
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.signals import Signal, SignalKind, SignalScope

_MAX_ATTEMPTS = 256


@dataclass
class TargetDestructionState:
    """The last attempts at the target, the oldest first, with their agents."""

    attempts: list[Entry] = field(default_factory=list)


@settings
class TargetDestruction(CrossSessionPattern[TargetDestructionState]):
    """Attempts at one target by several agents."""

    id: ClassVar[str] = "target_destruction"
    scope: ClassVar[SignalScope] = SignalScope.TARGET
    consumes: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.DESTRUCTIVE})

    max_attempts: Annotated[int, Field(ge=2, le=100), Stricter.LOWER] = 4
    """Attempts by at least two agents."""
    window_s: Annotated[float, Field(gt=0, le=604_800), Stricter.HIGHER] = 900.0
    """Seconds of event time."""

    def observe(self, state: TargetDestructionState, signal: Signal) -> Finding | None:
        """Add the attempt, and count those in its window."""
        last = remembered(signal, signal.agent_id)
        state.attempts.append(last)
        del state.attempts[:-_MAX_ATTEMPTS]
        near = within(state.attempts, self.window_s * 1000)
        agents = {entry[WHAT] for entry in near}
        if len(near) < self.max_attempts or len(agents) < 2:
            return None
        return self.finding(
            "target_destruction",
            Severity.CRITICAL if len(near) >= 2 * self.max_attempts else Severity.HIGH,
            f"{len(near)} attempts on {signal.id} in {seconds(near)}s by {len(agents)} agents",
            evidence(near, last),
            values={
                "attempts": len(near),
                "agents": len(agents),
                "sessions": sessions(near),
                "span_s": seconds(near),
            },
            thresholds=self.thresholds("max_attempts", "window_s"),
            target=signal.id,
        )
