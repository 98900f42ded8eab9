"""The chosen finding and its level."""

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
    """The chosen finding and its effect."""

    finding: Finding
    mode: Mode
    meant: Level
    """The level under `enforce`."""
    strategy: str = "by_rule"
    why: list[str] = field(default_factory=list)
    """Each change of the rule's own level; empty: unchanged."""
    case: Case | None = None
    attempts: int = 0
    last_hint: bool = False
    """The session gets no more hints after this one."""

    @property
    def level(self) -> Level:
        """The level under the rule's mode."""
        return held_back(self.meant, self.mode)

    @property
    def choice(self) -> Choice | None:
        """The record of the choice; None: the rule's own level."""
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
    """Return the level under a mode."""
    if mode is Mode.ENFORCE:
        return level
    return Level.ALLOW if mode is Mode.SHADOW else min(level, Level.NUDGE)
