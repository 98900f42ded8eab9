"""A session starts others, which start others: copies of itself without end.

Fires: `spawn_depth` when a session is more than `max_depth` generations below the first; `spawn_rate` when more than
    `max_started` sessions of one tree start within `window_s`; `spawn_storm` when more than `max_spawners` sessions
    have started the last `last_started` sessions of a tree: work is delegated and not done. High; critical from 1.5
    times the limit on.
Quiet: one session that starts many others over time, each of which does its part; a tree of the usual depth.
Misses: sessions that name neither their parent nor their root; copies in processes that send no events.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.base import CrossSessionPattern, evidence, remembered
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, seconds, within
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.record import Values
from haltline.schemas.signals import Signal, SignalKind, SignalScope

_MAX_SESSIONS = 512
_HARDER = 1.5


@dataclass
class SpawnStormState:
    """The last sessions of the tree, the oldest first: their parents by id, and their starts."""

    parents: dict[str, str] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    """Generations below the first, stored because the parents may have been dropped."""
    started: list[Entry] = field(default_factory=list)


@settings
class SpawnStorm(CrossSessionPattern[SpawnStormState]):
    """Too many sessions in one tree, started too fast, or nested too deeply."""

    id: ClassVar[str] = "spawn_storm"
    scope: ClassVar[SignalScope] = SignalScope.ROOT
    consumes: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.STARTED})

    max_depth: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 5
    """Generations below the first session."""
    max_started: Annotated[int, Field(ge=2, le=500), Stricter.LOWER] = 30
    """Sessions started in the window."""
    window_s: Annotated[float, Field(gt=0, le=604_800), Stricter.HIGHER] = 60.0
    """Seconds of event time, for started sessions."""
    max_spawners: Annotated[int, Field(ge=2, le=500), Stricter.LOWER] = 8
    """Sessions that have started others."""
    last_started: Annotated[int, Field(ge=2, le=500), Stricter.HIGHER] = 64
    """The last sessions that count for `max_spawners`, whatever their rate."""

    def observe(self, state: SpawnStormState, signal: Signal) -> Finding | None:
        """Add a session to the tree, and check its depth, its rate and its spawners."""
        parent = signal.parent_session_id
        if parent is None or signal.session_id in state.parents:
            return None
        last = remembered(signal)
        self._add(state, signal.session_id, parent, last)
        depth = state.depths[signal.session_id]
        near = within(state.started, self.window_s * 1000)
        spawners = {state.parents[session] for session in list(state.parents)[-self.last_started :]}
        counts = {
            "spawn_depth": (depth, self.max_depth),
            "spawn_rate": (len(near), self.max_started),
            "spawn_storm": (len(spawners), self.max_spawners),
        }
        code, (count, limit) = max(counts.items(), key=lambda item: item[1][0] / item[1][1])
        if count <= limit:
            return None
        values: Values = {"depth": depth, "started": len(near), "spawners": len(spawners), "span_s": seconds(near)}
        return self.finding(
            code,
            Severity.CRITICAL if count >= _HARDER * limit else Severity.HIGH,
            f"{len(state.parents)} sessions below {signal.id}: {depth} generations deep, {len(near)} begun in "
            f"{seconds(near)}s, {len(spawners)} of them or above have started others",
            evidence(state.started[-self.last_started :], last),
            values=values,
            thresholds=self.thresholds("max_depth", "max_started", "window_s", "max_spawners"),
        )

    @staticmethod
    def _add(state: SpawnStormState, session: str, parent: str, entry: Entry) -> None:
        state.parents[session] = parent
        state.depths[session] = depth = state.depths.get(parent, 0) + 1
        for child, its_parent in state.parents.items():  # received before their parent
            if its_parent == session:
                state.depths[child] = depth + 1
        state.started.append(entry)
        while len(state.parents) > _MAX_SESSIONS:
            oldest = next(iter(state.parents))
            del state.parents[oldest], state.depths[oldest]
        del state.started[:-_MAX_SESSIONS]
