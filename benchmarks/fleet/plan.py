"""The plan of sessions and their times: a pure function of their number, the duration and the seed."""

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The behaviour of an agent."""

    HEALTHY = "healthy"
    """Reads, searches and writes, fails at times, and ends."""
    LOOPING = "looping"
    """Repeats the same failing call."""
    DELETING = "deleting"
    """Deletes the same target repeatedly, despite refusals."""
    SPENDING = "spending"
    """Spends many times its task's budget."""
    WAITING = "waiting"
    """Makes one call that needs approval, which an operator gives or rejects."""
    KILLED = "killed"
    """Works without problems until an operator kills it."""


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
"""The share of the duration within which sessions start."""


@dataclass(frozen=True)
class Planned:
    """One session."""

    session_id: str
    agent_id: str
    kind: Kind
    start_s: float
    """The start in seconds after the beginning of the run."""
    lasts_s: float
    """The seconds it works unless stopped."""
    seed: int
    approved: bool
    """Whether the operator approves the waiting call."""


def plan(sessions: int, seconds: float, seed: int, run: str) -> tuple[Planned, ...]:
    """Return the sessions in order of their starts; `run` makes their ids unique.

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
