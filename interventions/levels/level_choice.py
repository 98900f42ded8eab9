"""The finding that counts, and what is done about it."""

from dataclasses import dataclass, field

from haltline.interventions.levels.strategies import (
    Case,
    score_of,
)
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Finding
from haltline.schemas.payloads import Choice


@dataclass(slots=True)
class Chosen:
    """The finding that counts, and what follows from it."""

    finding: Finding
    mode: Mode
    meant: Level
    """What it would be under `enforce`."""
    strategy: str = "by_rule"
    why: list[str] = field(default_factory=list)
    """Each step from the rule's own level on; empty: it is the rule's own."""
    case: Case | None = None
    attempts: int = 0
    last_hint: bool = False
    """From now on the session hears no more hints."""

    @property
    def level(self) -> Level:
        """What the mode leaves of it."""
        return held_back(self.meant, self.mode)

    @property
    def choice(self) -> Choice | None:
        """For the record; None: the rule's own level."""
        if not self.why or self.case is None:
            return None
        return Choice(
            strategy=self.strategy,
            why="; ".join(self.why),
            score=score_of(self.case) if self.strategy == "scored" else None,
            escalation=self.case.escalation,
            attempts=self.attempts,
            effectiveness=self.case.effectiveness,
        )


def held_back(level: Level, mode: Mode) -> Level:
    """What a mode leaves of a level."""
    if mode is Mode.ENFORCE:
        return level
    return Level.ALLOW if mode is Mode.SHADOW else min(level, Level.NUDGE)
