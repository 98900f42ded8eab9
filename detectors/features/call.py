"""A call of a session, and the phase that an event has in it."""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import field

from haltline.schemas.events import Effect
from haltline.schemas.stored import Stored


class Phase(StrEnum):
    """The phase of a call that an event reports."""

    ATTEMPT = "attempt"
    """The session is about to make the call."""
    RESULT = "result"
    """The result of an attempt, which was received before or may still arrive."""
    BOTH = "both"
    """A completed call that was never proposed: attempt and result in one event."""
    NONE = "none"
    """Not about a call, or a duplicate."""


class OpenCall(Stored):
    """An attempt that is stored until its result arrives. Plain JSON values: part of the session's state."""

    key: str
    time_ms: int
    index: int
    event_id: str
    offset: int
    action: str
    effect: Effect
    losses: list[list[str]] = field(default_factory=list)
    """`[verb, target, badness]` of each loss: a thing of others that it would destroy. For other irreversible acts,
    the effect is appended; then where it is, if that is known."""
    creates: list[str] = field(default_factory=list)
    head: str = ""
    """The subject of the call: the beginning of the command line or program, or the first target."""
    reading: str = ""
    """The `Reading` of that text; empty if the call runs nothing."""
    fingerprint: str = ""
    step: int = 0
    """Index of the first call of its step; 0: unknown."""
    novelty: list[int] | None = None
    """Its data for the measure of progress; see `Novelty.call_of`."""
    places: list[str] | None = None
    """Where it runs programs after everything that it removes; None: it runs none, or nothing was removed yet."""
    renames: list[list[str]] = field(default_factory=list)
    """`[new target, old target]` of the things that it renames."""
    chosen: list[str] = field(default_factory=list)
    """`NAME=value` of what it chooses for later calls, such as the context of a cluster."""


class Known(Stored):
    """History of a call that was made before. Plain JSON values: part of the session's state."""

    results: list[str]
    """Its recent results, the newest last."""
    rows: list[list[int | float | str]]
    """`[time_ms, index, event_id, offset, quarters]` of each time since its last new result."""
    done: int
    """Number of the session's attempts when its last result arrived."""
    variant: str = ""
    """The masked part of its last fingerprint."""
    idle: int = 0
    """Repetitions without anything learned in between, since its last new result or a change."""
    idle_ms: int = 0
    """Duration of these repetitions in milliseconds."""
    shape: str = ""
    """Of its newest differing result: the beginning without random-looking parts, and the size."""
    varied: list[list[int | float | str]] = field(default_factory=list)
    """`[time_ms, index, event_id, offset]` of each time since its results have had that shape and all differed."""


@dataclass
class Again:
    """A repeated call, and how it compares with its earlier results."""

    known: Known
    stale: bool
    quarters: int
    waits: bool
    """It polls: its result is expected to change."""
    blind: bool
    """Its result is unknown."""
    results: list[str]
    mark: str
    """Its mark in the trail, if it is stale."""
    varies: bool = False
    """The result differs again, but only in random-looking parts."""

    @property
    def is_known(self) -> bool:
        """Return whether its result is known to be the same as before."""
        return self.stale and not self.blind
