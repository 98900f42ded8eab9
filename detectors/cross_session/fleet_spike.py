"""A sudden increase in the whole fleet: of stopped sessions, destructive acts, or started sessions.

Fires: `fleet_spike` (high) when the count of a minute is at least the minimum of its kind, and at least `factor` times
    the mean of earlier minutes; critical at twice that threshold. Once per severity, kind and minute. A session counts
    as stopped once per minute, however often it is stopped.
Quiet: counts that were as high before, or grow slowly; small fleets.
Misses: increases between agents whose clocks differ by minutes, as they count in different ones. The first minute of a
    fleet has no earlier ones: only the minimum applies to it.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from haltline.detectors.cross_session.base import EVENT_ID, WHAT, CrossSessionPattern, evidence, remembered
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.signals import Signal, SignalKind, SignalScope

Watched = Literal["stopped", "destructive", "started"]

_LEAST: dict[Watched, float] = {"stopped": 10.0, "destructive": 60.0, "started": 300.0}

_COUNTED: dict[Watched, str] = {
    "stopped": "sessions stopped",
    "destructive": "destructive acts",
    "started": "sessions started",
}

COUNT = "count"
"""Key of a signal to the fleet: how many occurrences it stands for."""

_MINUTE_MS = 60_000
_MEMORY = 30
"""Minutes. Older ones have less and less weight."""
_MAX_ENTRIES = 32


@dataclass
class Minutes:
    """The current minute, and the usual count before it."""

    minute: int = 0
    """Minutes since 1970, in event time."""
    count: float = 0.0
    usual: float = 0.0
    """Mean of the earlier minutes; recent ones have more weight."""
    past: int = 0
    """The number of earlier minutes."""
    told: int = 0
    """What was reported in this minute: 1 high, 2 critical."""
    entries: list[Entry] = field(default_factory=list)


@dataclass
class FleetSpikeState:
    """By kind: its minutes."""

    kinds: dict[str, Minutes] = field(default_factory=dict)


@settings
class FleetSpike(CrossSessionPattern[FleetSpikeState]):
    """A minute whose count is far above that of the minutes before."""

    id: ClassVar[str] = "fleet_spike"
    scope: ClassVar[SignalScope] = SignalScope.FLEET
    consumes: ClassVar[frozenset[SignalKind]] = frozenset(
        {SignalKind.STOPPED, SignalKind.DESTRUCTIVE, SignalKind.STARTED}
    )

    least: dict[Watched, Annotated[float, Field(ge=1, le=1e9), Stricter.LOWER]] = Field(default_factory=_LEAST.copy)
    """Minimum count per minute that can be a spike, by kind; kinds that are not listed are ignored."""
    factor: Annotated[float, Field(ge=1.1, le=1000), Stricter.LOWER] = 5.0
    """Multiple of the usual count in the minutes before."""

    def observe(self, state: FleetSpikeState, signal: Signal) -> Finding | None:
        """Add to the minute of the signal; a signal of an earlier minute adds to the current one."""
        kind: Watched | None = next((name for name in self.least if name == signal.kind), None)
        if kind is None:
            return None
        minutes = state.kinds.setdefault(kind, Minutes(minute=signal.time // _MINUTE_MS))
        _go_on(minutes, signal.time // _MINUTE_MS)
        minutes.count += signal.amount(COUNT, 1.0)
        last = remembered(signal, signal.agent_id)
        minutes.entries.append(last)
        del minutes.entries[:-_MAX_ENTRIES]
        threshold = max(self.least[kind], self.factor * minutes.usual)
        stage = 2 if minutes.count >= 2 * threshold else int(minutes.count >= threshold)
        if stage <= minutes.told:
            return None
        minutes.told = stage
        agents = {entry[WHAT] for entry in minutes.entries}
        return self.finding(
            "fleet_spike",
            Severity.CRITICAL if stage == 2 else Severity.HIGH,
            f"{minutes.count:g} {_COUNTED[kind]} in a minute, {minutes.usual:.1f} is usual; last by "
            + ", ".join(sorted(map(str, agents))[:5]),
            evidence([entry for entry in minutes.entries if entry[EVENT_ID]], last),
            values={
                "kind": kind,
                "count": minutes.count,
                "usual": round(minutes.usual, 3),
                "past_minutes": minutes.past,
            },
            thresholds={"least": self.least[kind], "factor": self.factor},
        )


def _go_on(minutes: Minutes, to: int) -> None:
    """Close the minute if a later one has begun; empty minutes count as well."""
    passed = to - minutes.minute
    if passed <= 0:
        return
    minutes.past += 1
    minutes.usual += (minutes.count - minutes.usual) / min(minutes.past, _MEMORY)
    if passed > 1:
        minutes.past += passed - 1
        minutes.usual *= (1 - 1 / _MEMORY) ** (passed - 1)
    minutes.minute, minutes.count, minutes.told = to, 0.0, 0
    minutes.entries.clear()
