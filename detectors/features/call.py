"""A call of a session, and where an event stands in its life."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from haltline.schemas.events import Effect

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    pass


class Phase(StrEnum):
    """Where in the life of a call an event stands."""

    ATTEMPT = "attempt"
    """The session says what it is about to do."""
    RESULT = "result"
    """What came of an attempt that was seen, or that is still to come."""
    BOTH = "both"
    """A completed call that was never proposed: the attempt and its result at once."""
    NONE = "none"
    """Not about a call, or about one that was counted already."""


class Call(Struct):
    """An attempt that is remembered until its result comes. Plain JSON values: part of the session's state."""

    key: str
    time_ms: int
    index: int
    event_id: str
    offset: int
    action: str
    effect: Effect
    losses: list[list[str]] = field(default_factory=list)
    """`[verb, target, badness]` of each of somebody's things that it would take away, and of what else it would do that
    cannot be taken back, then with its effect behind."""
    creates: list[str] = field(default_factory=list)
    head: str = ""
    """The beginning of the command line or program, or the first target: what the call is about."""
    reading: str = ""
    """How that is read, where the call runs something."""
    fingerprint: str = ""
    step: int = 0
    """Index of the first call of its step; 0: not known."""
    novelty: list[int] | None = None
    """What the measure of progress remembers of it; see `Novelty.call_of`."""
    places: list[str] | None = None
    """Where it runs programs after everything that it removes; None: it runs none, or nothing was removed yet."""
    renames: list[list[str]] = field(default_factory=list)
    """`[new target, old target]` of what it calls otherwise."""


class Known(Struct):
    """What is known of a call that was made before. Plain JSON values: part of the session's state."""

    results: list[str]
    """Its results, the newest last."""
    rows: list[list[int | float | str]]
    """`[time_ms, index, event_id, offset, quarters]` of each time since something new came of it."""
    done: int
    """How many attempts the session had made when the last result came."""
    variant: str = ""
    """What was left out of its fingerprint the last time."""
    idle: int = 0
    """How often it was repeated with nothing learned in between, since something new came of it or was changed."""
    idle_ms: int = 0
    """How long that took."""
    shape: str = ""
    """Of the newest result that was another one: its beginning without what looks random, and its size."""
    varied: list[list[int | float | str]] = field(default_factory=list)
    """`[time_ms, index, event_id, offset]` of each time since results have had that shape and all differed."""


@dataclass
class Again:
    """A call that was made before, and what that means."""

    known: Known
    stale: bool
    quarters: int
    waits: bool
    """It is repeated because it is expected to change: it polls."""
    blind: bool
    """Its result is not known."""
    results: list[str]
    mark: str
    """What goes into the trail, if it is stale."""
    varies: bool = False
    """The result is another one again, and differs from the last only in what looks random."""

    @property
    def is_known(self) -> bool:
        """Whether its result is the same as before."""
        return self.stale and not self.blind
