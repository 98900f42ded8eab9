"""A tree of sessions is wasted: agents start agents, again and again, and nothing comes of it.

Fires: with more than the limit of one of these in a tree: `spawn_depth`, generations below the first session;
    `spawn_rate`, agents started within `window_s`; `spawn_storm`, sessions that have started the last `last_started`
    agents; `spawn_restarts`, agents started again by the same session for the same words after they ended, if these
    are over a third of all tasks; `spawn_deaths`, agents that a rate limit or a quota ended within `deaths_window_s`;
    `spawn_same_words`, agents started for words for which one nearer to the first session was started;
    `spawn_near_limit`, agents started when the session had used `near_limit` of a limit that it declared. High at
    first, a hint to the first session; critical when it goes on, at 1.5 times the limit or more: then no
    session of the tree starts another agent, until an operator lifts it or the user gives a new prompt. Work goes on.
Quiet: one session that starts many others over time, each of which does its part; a tree of the usual depth; agents
    started for the same words at once, such as votes.
Misses: sessions that name neither their parent nor their root; copies in processes that send no events; a task that is
    worded anew each time; over a broker, agents started before a decision arrives.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.base import WHAT, CrossSessionPattern, evidence, remembered
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import TIME_MS, Entry, seconds, within
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.record import Values
from haltline.schemas.signals import LIMIT_SHARE, LIMITED, Signal, SignalKind, SignalScope, root_of

MAX_SESSIONS = 512
_MAX_TASKS, _MAX_DEATHS = 256, 64
_HARDER = 1.5
_AGAIN_MS = 60_000
"""Agents started for the same words within this time of each other, none of which has ended, are started together."""
_RUNS_MS = 10_000
"""A call that takes as long has waited for the end of its agent."""


@dataclass
class TreeState:
    """The last sessions of a tree, the oldest first."""

    parents: dict[str, str] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    """Generations below the first, stored because the parents may have been dropped."""

    def add(self, session: str, parent: str) -> None:
        """Add a session that was started."""
        self.parents[session] = parent
        self.depths[session] = depth = self.depths.get(parent, 0) + 1
        for child, its_parent in self.parents.items():  # received before their parent
            if its_parent == session:
                self.depths[child] = depth + 1
        while len(self.parents) > MAX_SESSIONS:
            oldest = next(iter(self.parents))
            del self.parents[oldest], self.depths[oldest]


@dataclass
class Started:
    """The agents that were started for the same words."""

    by: str
    at_ms: int
    depth: int
    call: str
    ended: bool = False
    again: int = 0
    """How often the same session has started it again."""


@dataclass
class SpawnStormState(TreeState):
    """What was started in the tree, and what became of it."""

    started: list[Entry] = field(default_factory=list)
    """The starts of sessions, by their parent."""
    called: list[Entry] = field(default_factory=list)
    """The calls that start agents, by their session: an agent may report no session, and a session no such call."""
    tasks: dict[str, Started] = field(default_factory=dict)
    """By a digest of the words."""
    same_words: int = 0
    near_limit: int = 0
    died: list[Entry] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)
    """The count of the last finding of each code."""

    def forget(self) -> None:
        """Begin anew, as a person knows of it and lets the tree go on; its sessions keep their depths."""
        self.started, self.called, self.died, self.tasks = [], [], [], {}
        self.same_words, self.near_limit, self.told = 0, 0, {}


@settings
class SpawnStorm(CrossSessionPattern[SpawnStormState]):
    """Too many sessions in one tree, started too fast, too deeply, or for nothing."""

    id: ClassVar[str] = "spawn_storm"
    scope: ClassVar[SignalScope] = SignalScope.TARGET
    consumes: ClassVar[frozenset[SignalKind]] = frozenset(
        {SignalKind.STARTED, SignalKind.SPAWNED, SignalKind.RETURNED, SignalKind.ENDED, SignalKind.PROMPTED}
    )

    max_depth: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 5
    """Generations below the first session."""
    max_started: Annotated[int, Field(ge=2, le=500), Stricter.LOWER] = 30
    """Agents started in the window."""
    window_s: Annotated[float, Field(gt=0, le=604_800), Stricter.HIGHER] = 60.0
    """Seconds of event time, for started agents."""
    max_spawners: Annotated[int, Field(ge=2, le=500), Stricter.LOWER] = 8
    """Sessions that have started others."""
    last_started: Annotated[int, Field(ge=2, le=500), Stricter.HIGHER] = 64
    """The last agents that count for `max_spawners`, whatever their rate."""
    max_restarts: Annotated[int, Field(ge=1, le=500), Stricter.LOWER] = 3
    """Agents started again for the same words."""
    max_deaths: Annotated[int, Field(ge=1, le=50), Stricter.LOWER] = 2
    """Agents that a rate limit or a quota has ended."""
    deaths_window_s: Annotated[float, Field(gt=0, le=604_800), Stricter.HIGHER] = 60.0
    """Seconds of event time, for their ends."""
    max_same_words: Annotated[int, Field(ge=1, le=500), Stricter.LOWER] = 2
    """Agents started for the words of one nearer to the first session."""
    near_limit: Annotated[float, Field(gt=0, le=1), Stricter.LOWER] = 0.9
    """The used share of a limit that the session declared."""
    max_near_limit: Annotated[int, Field(ge=1, le=500), Stricter.LOWER] = 4
    """Agents started from there on."""

    def observe(self, state: SpawnStormState, signal: Signal) -> Finding | None:
        """Add what has happened to the tree, and check it."""
        last = remembered(signal, signal.parent_session_id or signal.session_id)
        match signal.kind:
            case SignalKind.PROMPTED:
                state.forget()
                return None
            case SignalKind.STARTED:
                if signal.parent_session_id is None or signal.session_id in state.parents:
                    return None
                state.add(signal.session_id, signal.parent_session_id)
                state.started.append(last)
            case SignalKind.SPAWNED:
                last[WHAT] = signal.session_id
                state.called.append(last)
                self._begun(state, signal)
            case _:
                if not self._over(state, signal, last):
                    return None
        del state.started[:-MAX_SESSIONS], state.called[:-MAX_SESSIONS], state.died[:-_MAX_DEATHS]
        return self._check(state, signal, last)

    def _begun(self, state: SpawnStormState, signal: Signal) -> None:
        """Compare the task of a new agent with those of before."""
        if signal.amount(LIMIT_SHARE) >= self.near_limit:
            state.near_limit += 1
        depth = state.depths.get(signal.session_id, 0) + 1
        known = state.tasks.get(signal.target)
        if known is None:
            state.tasks[signal.target] = Started(signal.session_id, signal.time, depth, signal.code or "")
            if len(state.tasks) > _MAX_TASKS:
                del state.tasks[next(iter(state.tasks))]
            return
        if known.by != signal.session_id:
            state.same_words += depth > known.depth
            return
        known.again += known.ended or signal.time - known.at_ms >= _AGAIN_MS
        known.at_ms, known.call, known.ended = signal.time, signal.code or "", False

    @staticmethod
    def _over(state: SpawnStormState, signal: Signal, last: Entry) -> bool:
        """Note the end of an agent. Returns whether it counts: a rate limit or a quota has ended it."""
        if signal.kind == SignalKind.RETURNED:
            last[WHAT] = ""  # the agent's session may report the same
            for task in state.tasks.values():  # a call that is over at once has left its agent in the background
                if task.call == signal.code and task.by == signal.session_id:
                    task.ended = bool(signal.amounts) or signal.time - task.at_ms >= _RUNS_MS
        if not signal.amount(LIMITED):
            return False
        state.died.append(last)
        return True

    def _check(self, state: SpawnStormState, signal: Signal, last: Entry) -> Finding | None:
        near = max((within(starts, self.window_s * 1000) for starts in (state.started, state.called)), key=len)
        of_last = (starts[-self.last_started :] for starts in (state.started, state.called))
        spawners = max(len({entry[WHAT] for entry in starts}) for starts in of_last)
        again = [task.again for task in state.tasks.values() if task.again]
        dead = [e for e in state.died if abs(signal.time - int(e[TIME_MS])) <= self.deaths_window_s * 1000]
        of_sessions = sum(bool(entry[WHAT]) for entry in dead)
        deaths = max(of_sessions, len(dead) - of_sessions)
        depth = state.depths.get(signal.session_id, 0) + (signal.kind == SignalKind.SPAWNED)
        counts = {
            "spawn_depth": (depth, self.max_depth),
            "spawn_rate": (len(near), self.max_started),
            "spawn_storm": (spawners, self.max_spawners),
            "spawn_restarts": (sum(again) * (3 * len(again) > len(state.tasks)), self.max_restarts),
            "spawn_deaths": (deaths, self.max_deaths),
            "spawn_same_words": (state.same_words, self.max_same_words),
            "spawn_near_limit": (state.near_limit, self.max_near_limit),
        }
        code, (count, limit) = max(counts.items(), key=lambda item: item[1][0] / item[1][1])
        if count <= max(limit, state.told.get(code, 0)):
            return None
        is_critical = bool(state.told) and count >= _HARDER * limit
        state.told[code] = count
        starts = max(state.called, state.started, key=len)
        root = root_of(signal.id)
        values: Values = {name.removeprefix("spawn_"): counted for name, (counted, _) in counts.items()}
        return self.finding(
            code,
            Severity.CRITICAL if is_critical else Severity.HIGH,
            f"{_SAID[code].format(count=count)}, of {len(starts)} started below {root}",
            evidence(starts[-self.last_started :], last),
            values=values | {"started": len(starts), "span_s": seconds(near)},
            thresholds={name: limit for name, (_, limit) in counts.items()},
            session_id=root,
        )

    def is_over(self, state: SpawnStormState) -> bool:
        """Return whether the user has given a new prompt."""
        return not state.told


_SAID = {
    "spawn_depth": "agents {count} generations deep",
    "spawn_rate": "{count} agents started at once",
    "spawn_storm": "{count} sessions that start others",
    "spawn_restarts": "{count} agents started again for the same task",
    "spawn_deaths": "{count} agents ended together by a rate limit or a quota",
    "spawn_same_words": "{count} agents started for what one above them was started for",
    "spawn_near_limit": "{count} agents started near the end of a limit",
}
