"""Which rules a group of workers runs: all of them, or those in shadow beside those that can stop an agent.

A rule in shadow decides nothing. In a group of its own it has a place in the log and a state of its own, so that what
can stop an agent never waits for it. Both groups read the same topics:

| group | runs | writes |
| --- | --- | --- |
| `all` | every rule | everything |
| `enforced` | rules that decide somewhere, and what these go by | everything but what rules in shadow find |
| `shadow` | every rule, once any is in shadow: what a rule finds can depend on each other one, and on a kill | \
what rules in shadow find, and would have decided |

What `enforced` and `shadow` write together is what `all` writes, under the same ids.
"""

from enum import StrEnum
from typing import Final

from haltline.interventions.acgp.evaluation import DETECTOR as ACGP
from haltline.schemas.decisions import Decision, Mode
from haltline.schemas.findings import Detection

SHADOW_SUFFIX: Final = "-shadow"


class Runs(StrEnum):
    """Which rules a group of workers runs."""

    ALL = "all"
    ENFORCED = "enforced"
    SHADOW = "shadow"

    def says(self, record: Detection | Decision) -> bool:
        """Whether it is for this group to say. What an ACGP evaluation in shadow comes to is no rule's."""
        if self is Runs.ALL:
            return True
        shadow = record.mode == Mode.SHADOW and getattr(record, "detector", "") != ACGP
        return shadow is (self is Runs.SHADOW)

    def group(self, group: str) -> str:
        """The consumer group, of which the changelog has its name, beside the group of this name."""
        return f"{group}{SHADOW_SUFFIX}" if self is Runs.SHADOW else group

    @property
    def component(self) -> str:
        """What its processes are called in the metrics."""
        return "shadow" if self is Runs.SHADOW else "worker"
