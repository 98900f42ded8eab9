"""What happens to a history: from its seed, and as a list of steps that can be shortened."""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

FAULTS_FOR_S: Final = 6.0
"""Faults strike within that time; afterwards everything is healed."""


class Deed(StrEnum):
    """What is done."""

    KILL = "kill"
    KILL_AT = "kill at"
    """One of the next times that the target does what is named."""
    FREEZE_AT = "freeze at"
    """The same, for a while."""
    CUT = "cut off"
    """It runs, and what it writes and its membership reach nobody for a while."""
    CUT_AT = "cut off at"
    FREEZE = "freeze"
    DROP = "drop"
    """Its group drops it; it learns so from its next heartbeat, and joins again."""
    STOP = "stop"
    """SIGTERM."""
    DOUBLE = "begins twice"
    """A static member's process begins although the one before still runs."""
    CRASH = "crash"
    AWAY = "away"
    SLOW = "slow"
    REBALANCE = "rebalance"
    """Some in a row, as where members come and go."""
    ROLLING = "rolling deployment"
    """SIGTERM to one worker after another."""
    COMPACT = "compact"
    ROLL = "roll"
    LAG = "lag"
    ADD = "add"
    """One worker more, or one that was taken away."""


class Step(NamedTuple):
    """One thing that is done."""

    at_s: float
    deed: Deed
    target: str = ""
    seconds: float = 0.0
    point: str = ""
    life: int = 0
    """Of the topics: 1 once one was deleted and made again."""

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
"""Of the deeds above a history has some: what a few do together is seldom seen where all are (swarm testing)."""
_WORKERS_SHARES: Final = (0.9, 0.9, 0.75, 0.25)
"""How many of the deeds are for workers, in one history or another."""
_SHORTEST_S: Final = (0.1, 0.1, 2.5)
"""Of what lasts for a while, up to 5 s: in some of the histories longer than a session timeout."""
_LAGGING: Final = ("", "actions", "commands")
"""Topics whose high watermarks fall behind; "": some of all."""
_POINTS: Final = (
    "changelog", "changelog", "claim", "output", "entry", "entry", "entry",
    "commit", "committed", "committed", "request", "poll",
)  # fmt: skip
_SINK_POINTS: Final = ("table", "table", "request", "poll")
_CONSOLE_POINTS: Final = ("database", "database", "request", "poll")
_RETURNS_SHARE: Final = 0.7
"""Of the workers that are dropped: it returns while a source cannot be read, and is killed once it has committed."""
_BUSY_S: Final = (1.2, 3.5)
"""When most of the traffic is on its way."""


def plan_of(seed: int, workers: Sequence[str], readers: Sequence[str], life: int = 0) -> list[Step]:
    """Some deeds, many or few, of some kinds."""
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
    """The member is back before another has gone on, commits before it can read again, and ends before it writes."""
    at_s = round(rng.uniform(*_BUSY_S), 3)
    return [
        Step(at_s, Deed.DROP, target),
        Step(at_s, Deed.KILL_AT, target, 0.0, "committed"),
        Step(round(at_s + rng.uniform(0.0, 0.6), 3), Deed.LAG, BROKER, 3.0, rng.choice(_LAGGING[1:])),
    ]
