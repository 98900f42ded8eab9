"""The plan of a history's faults: a list of steps that follows from the seed and can be shortened."""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

FAULTS_FOR_S: Final = 6.0
"""Faults strike within this time; then all faults are removed."""


class Deed(StrEnum):
    """A kind of fault or operation."""

    KILL = "kill"
    KILL_AT = "kill at"
    """At one of the next times that the target passes the named point."""
    FREEZE_AT = "freeze at"
    """Like `KILL_AT`, but frozen for a while."""
    CUT = "cut off"
    """It runs, but its writes and heartbeats reach no broker for a while."""
    CUT_AT = "cut off at"
    FREEZE = "freeze"
    DROP = "drop"
    """Its group removes it; it learns this from its next heartbeat and joins again."""
    STOP = "stop"
    """SIGTERM."""
    DOUBLE = "begins twice"
    """A second process with the same instance id starts while the first still runs."""
    CRASH = "crash"
    AWAY = "away"
    SLOW = "slow"
    REBALANCE = "rebalance"
    """Several rebalances in a row, as when members join and leave."""
    ROLLING = "rolling deployment"
    """SIGTERM to one worker after another."""
    COMPACT = "compact"
    ROLL = "roll"
    LAG = "lag"
    ADD = "add"
    """Add another worker, or start it again if it has stopped."""


class Step(NamedTuple):
    """One step of a plan. Times are in seconds."""

    at_s: float
    deed: Deed
    target: str = ""
    seconds: float = 0.0
    point: str = ""
    life: int = 0
    """The life of the topics: 1 after a topic was recreated."""

    def __str__(self) -> str:
        about = [self.target, f"for {self.seconds:.1f} s" if self.seconds else "", self.point]
        return " ".join((f"{'again ' if self.life else ''}{self.at_s:7.3f}", self.deed.value, *filter(None, about)))


BROKER: Final = "broker"
CONSOLE: Final = "console"
_DEEDS: Final = (
    (Deed.KILL, 5), (Deed.KILL_AT, 9), (Deed.FREEZE, 4), (Deed.FREEZE_AT, 7), (Deed.CUT, 2), (Deed.CUT_AT, 7),
    (Deed.STOP, 4), (Deed.DROP, 4), (Deed.DOUBLE, 2), (Deed.CRASH, 3), (Deed.AWAY, 2), (Deed.SLOW, 3),
    (Deed.REBALANCE, 7), (Deed.ROLLING, 3), (Deed.COMPACT, 3), (Deed.ROLL, 2), (Deed.LAG, 3), (Deed.ADD, 2),
)  # fmt: skip
_KINDS_AT_LEAST: Final = 3
"""The least number of kinds in a history. A subset reaches combinations that are rare among all (swarm testing)."""
_WORKERS_SHARES: Final = (0.9, 0.9, 0.75, 0.25)
"""Shares of the steps that target workers; each history draws one."""
_SHORTEST_S: Final = (0.1, 0.1, 2.5)
"""The shortest duration of a fault; the longest is 5 s. In some histories all exceed the session timeout."""
_LAGGING: Final = ("", "actions", "commands")
"""Topics whose high watermarks fall behind; "": some partitions of any topic."""
_POINTS: Final = (
    "changelog", "changelog", "claim", "output", "entry", "entry", "entry",
    "commit", "committed", "committed", "request", "poll",
)  # fmt: skip
_SINK_POINTS: Final = ("table", "table", "request", "poll")
_CONSOLE_POINTS: Final = ("database", "database", "request", "poll")
_RETURNS_SHARE: Final = 0.7
"""The share of dropped workers that return while a source cannot be read and are killed once they have committed."""
_BUSY_S: Final = (1.2, 3.5)
"""The interval in which most of the traffic is sent."""


def plan_of(seed: int, workers: Sequence[str], readers: Sequence[str], life: int = 0) -> list[Step]:
    """Return the plan of a seed: 1 to 11 faults of some kinds, sorted by time."""
    rng = random.Random(f"{seed} plan {life}")
    deeds, weights = zip(*rng.sample(_DEEDS, rng.randint(_KINDS_AT_LEAST, len(_DEEDS))), strict=True)
    workers_share, shortest_s = rng.choice(_WORKERS_SHARES), rng.choice(_SHORTEST_S)
    steps: list[Step] = []
    for deed in rng.choices(deeds, weights, k=rng.randrange(1, 12)):
        at_s = round(rng.uniform(0.5, FAULTS_FOR_S), 3)
        is_worker = rng.random() < workers_share or not readers
        target = rng.choice(workers if is_worker else readers)
        seconds = round(rng.uniform(shortest_s, 5.0), 1)
        match deed:
            case Deed.KILL_AT | Deed.FREEZE_AT | Deed.CUT_AT:
                points = _POINTS if is_worker else _CONSOLE_POINTS if target == CONSOLE else _SINK_POINTS
                steps.append(Step(at_s, deed, target, seconds, rng.choice(points)))
            case Deed.DROP if is_worker and rng.random() < _RETURNS_SHARE:
                steps += _dropped(rng, target)
            case Deed.FREEZE | Deed.CUT:
                steps.append(Step(at_s, deed, target, seconds))
            case Deed.KILL | Deed.STOP | Deed.DROP | Deed.DOUBLE | Deed.ADD:
                steps.append(Step(at_s, deed, target))
            case Deed.LAG:
                steps.append(Step(at_s, deed, BROKER, seconds / 2, rng.choice(_LAGGING)))
            case Deed.CRASH | Deed.AWAY | Deed.SLOW:
                steps.append(Step(at_s, deed, BROKER, seconds / 2))
            case _:
                steps.append(Step(at_s, deed, BROKER))
    return [step._replace(life=life) for step in sorted(steps)]


def _dropped(rng: random.Random, target: str) -> list[Step]:
    """Drop a member that rejoins before a takeover, commits before it can read again, and ends before it writes."""
    at_s = round(rng.uniform(*_BUSY_S), 3)
    return [
        Step(at_s, Deed.DROP, target),
        Step(at_s, Deed.KILL_AT, target, 0.0, "committed"),
        Step(round(at_s + rng.uniform(0.0, 0.6), 3), Deed.LAG, BROKER, 3.0, rng.choice(_LAGGING[1:])),
    ]
