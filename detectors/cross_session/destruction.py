"""An agent, a mission or a tree of sessions destroys too much, summed over its sessions: each of them may do little.

Fires: with at least two sessions, on the `same_target`-th attempt at one target within `window_s` (high; critical from
    twice as many less one on): `respawned_destruction` of an agent, `mission_destroyed_again`, `tree_destroyed_again`;
    and with the rule's own name (medium) from `max_destructive` acts within `volume_window_s` on; both again on each
    further one. Of a tree the first session is stopped, and with it all below.
Quiet: what one session does alone, which is left to its own rules; declared batches; scratch files, and what the
    session created itself; for an agent and a mission also what is local to a session's machine or checkout, such as
    files and branches, which differ between sandboxes. Agents with the default id are distinguished by host if it is
    reported.
Misses: an agent that uses another id in each session; sessions that name no mission, or neither parent nor root. If one
    session creates what another destroys, both count as acts on others' things.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.base import (
    EVENT_ID,
    WHAT,
    CrossSessionPattern,
    evidence,
    remembered,
    sessions,
    went_on,
)
from haltline.detectors.features.same_target import same as same_thing
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, seconds, within
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.signals import Signal, SignalKind, SignalScope

_MAX_ACTS = 256
_MAX_WHAT = 256


@dataclass
class SharedDestructionState:
    """The last destructive acts, the oldest first; one entry per target."""

    acts: list[Entry] = field(default_factory=list)


@settings
class SharedDestruction(CrossSessionPattern[SharedDestructionState]):
    """Repeated attempts at one target, or too many acts, by several sessions of one scope."""

    consumes: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.DESTRUCTIVE})
    repeated: ClassVar[str]
    """The code of repeated attempts at one target."""
    whose: ClassVar[str]

    same_target: Annotated[int, Field(ge=2, le=100), Stricter.LOWER] = 3
    """Attempts at one target, by at least two sessions."""
    window_s: Annotated[float, Field(gt=0, le=604_800), Stricter.HIGHER] = 900.0
    """Seconds of event time, for attempts at one target."""
    max_destructive: Annotated[int, Field(ge=2, le=100), Stricter.LOWER] = 12
    """Destructive acts of all sessions."""
    volume_window_s: Annotated[float, Field(gt=0, le=604_800), Stricter.HIGHER] = 60.0
    """Seconds of event time, for destructive acts."""

    def observe(self, state: SharedDestructionState, signal: Signal) -> Finding | None:
        """Add the act, and count those in its window."""
        new = [remembered(signal, target[:_MAX_WHAT]) for target in signal.targets or [signal.target]]
        repeated: Finding | None = None
        for entry in new:
            state.acts.append(entry)
            repeated = self._repeated(state, signal, entry) or repeated
        del state.acts[:-_MAX_ACTS]
        return repeated or self._many(state, signal, new[-1])

    def _repeated(self, state: SharedDestructionState, signal: Signal, last: Entry) -> Finding | None:
        same_one = [
            entry for entry in state.acts if entry[WHAT] == last[WHAT] or same_thing(str(entry[WHAT]), str(last[WHAT]))
        ]
        same = within(same_one, self.window_s * 1000)
        if len(same) < self.same_target or sessions(same) < 2:
            return None
        return self.finding(
            self.repeated,
            Severity.CRITICAL if len(same) >= 2 * self.same_target - 1 else Severity.HIGH,
            f"{len(same)} attempts on {last[WHAT]} in {seconds(same)}s by {sessions(same)} sessions of {self.whose}",
            evidence(same, last),
            values={"attempts": len(same), "sessions": sessions(same), "span_s": seconds(same)},
            thresholds=self.thresholds("same_target", "window_s"),
            target=str(last[WHAT]),
            session_id=went_on(same, signal),
        )

    def _many(self, state: SharedDestructionState, signal: Signal, last: Entry) -> Finding | None:
        near = within(state.acts, self.volume_window_s * 1000)
        acts = len({entry[EVENT_ID] for entry in near})
        if acts < self.max_destructive or sessions(near) < 2:
            return None
        return self.finding(
            self.id,
            Severity.MEDIUM,
            f"{acts} destructive actions in {seconds(near)}s by {sessions(near)} sessions of {self.whose}",
            evidence(near, last),
            values={"acts": acts, "sessions": sessions(near), "span_s": seconds(near)},
            thresholds=self.thresholds("max_destructive", "volume_window_s"),
            session_id=went_on(near, signal),
        )


@settings
class AgentDestruction(SharedDestruction):
    """By the sessions of one agent."""

    id: ClassVar[str] = "agent_destruction"
    scope: ClassVar[SignalScope] = SignalScope.AGENT
    repeated: ClassVar[str] = "respawned_destruction"
    whose: ClassVar[str] = "one agent"


@settings
class MissionDestruction(SharedDestruction):
    """By the sessions of one mission, whichever agents they belong to."""

    id: ClassVar[str] = "mission_destruction"
    scope: ClassVar[SignalScope] = SignalScope.MISSION
    repeated: ClassVar[str] = "mission_destroyed_again"
    whose: ClassVar[str] = "one mission"


@settings
class TreeDestruction(SharedDestruction):
    """By a session and those that it started."""

    id: ClassVar[str] = "tree_destruction"
    scope: ClassVar[SignalScope] = SignalScope.ROOT
    repeated: ClassVar[str] = "tree_destroyed_again"
    whose: ClassVar[str] = "one tree"
