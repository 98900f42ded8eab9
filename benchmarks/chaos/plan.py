"""The plan of a run's faults from a seed: target, kind and time."""

import random
from enum import StrEnum
from typing import Final, NamedTuple

SHADOW: Final = "shadow"
AUDIT: Final = "audit"
CONSOLE: Final = "console"
AGENT: Final = "agent"
BROKER: Final = "broker"
ACTIONS: Final = "actions"
CHANGELOG: Final = "changelog"
POISON: Final = "poison"


class Deed(StrEnum):
    """A kind of fault of a process or a topic."""

    KILL = "SIGKILL"
    TERMINATE = "SIGTERM"
    FREEZE = "SIGSTOP for longer than the session timeout, then SIGCONT"
    RESTART = "orderly restart"
    CRASH = "SIGKILL and start again"
    RECREATE = "given more partitions, then deleted and recreated"
    DAMAGE = "a record that cannot be read"
    POISON = "events that hang, kill and eat memory where they are decided"


class Step(NamedTuple):
    """One fault at a time."""

    at_s: float
    """Seconds after the load began."""
    target: str
    deed: Deed


Wave = tuple[tuple[str, Deed], ...]
"""Faults that strike different processes at the same time."""

_WEIGHTED: Final[tuple[tuple[str, Deed, int], ...]] = (
    ("", Deed.KILL, 8),  # "": a worker
    ("", Deed.TERMINATE, 5),
    ("", Deed.FREEZE, 4),
    (SHADOW, Deed.KILL, 4),
    (SHADOW, Deed.TERMINATE, 1),
    (SHADOW, Deed.FREEZE, 1),
    (AUDIT, Deed.KILL, 3),
    (AUDIT, Deed.TERMINATE, 1),
    (CONSOLE, Deed.KILL, 2),
    (AGENT, Deed.KILL, 2),
    (BROKER, Deed.RESTART, 1),
    (BROKER, Deed.CRASH, 1),
    (CHANGELOG, Deed.DAMAGE, 2),
    (POISON, Deed.POISON, 1),
    (ACTIONS, Deed.RECREATE, 0),  # once: it takes long, and all processes wait for it
)
_CALM_AT_START_S = 5.0
_PAUSE_S = (2.0, 7.0)


def make_waves(workers: tuple[str, ...]) -> list[Wave]:
    """Return the faults that need real processes and a real broker, in few waves that each leave a worker running.

    The simulator covers the others, in many more orders (docs/simulation.md).
    """
    first, second = workers[:2]
    return [
        ((first, Deed.KILL), (AUDIT, Deed.KILL), (AGENT, Deed.KILL), (BROKER, Deed.CRASH)),
        ((second, Deed.FREEZE), (SHADOW, Deed.TERMINATE), (CONSOLE, Deed.KILL), (CHANGELOG, Deed.DAMAGE)),
        ((POISON, Deed.POISON),),
        ((ACTIONS, Deed.RECREATE),),
    ]


def make_plan(seed: int, seconds: float, workers: tuple[str, ...]) -> list[Step]:
    """Return every kind of fault once in random order, then more by weight until the time is over."""
    rng = random.Random(seed)
    kinds = [(target, deed) for target, deed, _ in _WEIGHTED]
    rng.shuffle(kinds)
    weights = [weight for _, _, weight in _WEIGHTED]
    steps: list[Step] = []
    at_s = _CALM_AT_START_S
    pauses_s = min(_PAUSE_S[1], max(_PAUSE_S[0], (seconds - _CALM_AT_START_S) / len(kinds)))
    while at_s < seconds:
        if kinds:
            target, deed = kinds.pop()
        else:
            target, deed, _ = rng.choices(_WEIGHTED, weights)[0]
        steps.append(Step(at_s=round(at_s, 1), target=target or rng.choice(workers), deed=deed))
        at_s += rng.uniform(_PAUSE_S[0], pauses_s)
    return steps
