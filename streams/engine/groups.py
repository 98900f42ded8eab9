"""The rules that a group of workers runs: all of them, or those in shadow beside those that can stop an agent.

A rule in shadow decides nothing. In a group of its own, it has its own offsets and state, so that rules that can stop
an agent never wait for it. Both groups read the same topics:

| group | runs | writes |
| --- | --- | --- |
| `all` | every rule | everything |
| `enforced` | rules that decide somewhere, and those that they use | everything except findings of rules in shadow |
| `shadow` | every rule, if any is in shadow: a finding can depend on every other rule, and on a kill | \
findings of rules in shadow, and the decisions that these rules would have caused |

Together, `enforced` and `shadow` write the records of `all`, under the same ids.
"""

from enum import StrEnum
from typing import Final

from haltline.interventions.acgp.evaluation import DETECTOR as ACGP
from haltline.schemas.decisions import Decision, Mode
from haltline.schemas.findings import Detection

SHADOW_SUFFIX: Final = "-shadow"


class Runs(StrEnum):
    """The rules that a group of workers runs."""

    ALL = "all"
    ENFORCED = "enforced"
    SHADOW = "shadow"

    def says(self, record: Detection | Decision) -> bool:
        """Return whether this group publishes the record. An ACGP evaluation in shadow belongs to no rule."""
        if self is Runs.ALL:
            return True
        shadow = record.mode == Mode.SHADOW and getattr(record, "detector", "") != ACGP
        return shadow is (self is Runs.SHADOW)

    def group(self, group: str) -> str:
        """Return the name of this group's consumer group, which also names its changelog."""
        return f"{group}{SHADOW_SUFFIX}" if self is Runs.SHADOW else group

    @property
    def component(self) -> str:
        """The component name of its processes in the metrics."""
        return "shadow" if self is Runs.SHADOW else "worker"
