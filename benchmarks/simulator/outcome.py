"""What kinds of histories there are, and the result of one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.simulator.plan import Step


class Shape(Enum):
    """What happens between one life of topics and workers and the next."""

    PLAIN = "there is one only"
    RECREATED = "the topic of actions is deleted and made again"
    UPGRADED = "workers of the release before claims are replaced"
    WENT_BACK = "the same after an operator went back to them"


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
