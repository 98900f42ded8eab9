"""The result of a history."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.simulator.plan import Step


@dataclass
class Outcome:
    """The result of one history."""

    seed: int
    plan: Sequence[Step]
    differences: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    ends: list[str] = field(default_factory=list)
    """Why processes ended, in order."""

    @property
    def ok(self) -> bool:
        """Nothing differs."""
        return not self.differences
