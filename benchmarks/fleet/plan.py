"""Who takes part, and when: a pure function of the number of sessions, the time and the seed."""

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What an agent does."""

    HEALTHY = "healthy"
    """Reads, searches and writes, fails now and then, and comes to an end."""
    LOOPING = "looping"
    """Makes the same failing call again and again."""
    DELETING = "deleting"
    """Deletes the same thing again and again, whatever it is told."""
    SPENDING = "spending"
    """Spends many times what its task allows."""
    WAITING = "waiting"
    """Makes one call that takes a person, who approves or rejects it."""
    KILLED = "killed"
    """Works well, until a person kills it."""


_OF_FIFTY: Final = {
    Kind.HEALTHY: 20,
    Kind.LOOPING: 7,
    Kind.DELETING: 6,
    Kind.SPENDING: 5,
    Kind.WAITING: 6,
    Kind.KILLED: 6,
}
_AGENTS: Final = {
    Kind.HEALTHY: ("analyst", "writer", "support"),
    Kind.LOOPING: ("builder", "tester"),
    Kind.DELETING: ("cleaner", "archivist"),
    Kind.SPENDING: ("researcher",),
    Kind.WAITING: ("publisher", "migrator", "steward"),
    Kind.KILLED: ("crawler", "indexer"),
}
_STARTS_WITHIN: Final = 0.5
"""The part of the time in which sessions start."""


@dataclass(frozen=True)
class Planned:
    """One session."""

    session_id: str
    agent_id: str
    kind: Kind
    start_s: float
    """After the beginning."""
    lasts_s: float
    """How long it works, where nobody stops it."""
    seed: int
    approved: bool
    """Of what waits: what the person says to it."""


def plan(sessions: int, seconds: float, seed: int, run: str) -> tuple[Planned, ...]:
    """The sessions in the order of their starts; `run` makes their ids those of this run alone.

    Raises ValueError for fewer than one of each kind.
    """
    if sessions < len(Kind):
        raise ValueError(f"sessions: expected at least {len(Kind)}, one of each kind, got {sessions}")
    rng = random.Random(seed)
    kinds = [kind for kind, count in _OF_FIFTY.items() for _ in range(max(1, round(count * sessions / 50)))]
    kinds = (kinds + [Kind.HEALTHY] * sessions)[:sessions] if len(kinds) < sessions else kinds
    while len(kinds) > sessions:  # rounding up the rare kinds
        kinds.remove(max(Kind, key=kinds.count))
    planned = []
    for number, kind in enumerate(kinds):
        planned.append(
            Planned(
                session_id=f"{kind}-{number:02}-{run}",
                agent_id=f"{rng.choice(_AGENTS[kind])}-{run}",
                kind=kind,
                start_s=rng.uniform(0, seconds * _STARTS_WITHIN),
                lasts_s=seconds * (1 - _STARTS_WITHIN) * rng.uniform(0.6, 0.9),
                seed=rng.randrange(2**32),
                approved=number % 2 == 0,
            )
        )
    return tuple(sorted(planned, key=lambda one: one.start_s))
