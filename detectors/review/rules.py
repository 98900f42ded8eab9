"""The review's rules beside the matrix: built-in sets, switched off one by one, and a policy's own."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from haltline.detectors.features.observation import Observation
from haltline.detectors.review.reading import is_recursive, leaves_the_machine, reaches_out
from haltline.detectors.review.scoring import Category, Verdict

RuleSet = Literal["all", "essential", "none"]
BuiltIn = Literal[
    "prevent_recursive_deletion", "limit_file_operations", "warn_external_network", "modify_dangerous_pattern"
]

SETS: Final[Mapping[RuleSet, tuple[BuiltIn, ...]]] = MappingProxyType(
    {
        "all": (
            "prevent_recursive_deletion",
            "limit_file_operations",
            "warn_external_network",
            "modify_dangerous_pattern",
        ),
        "essential": ("prevent_recursive_deletion", "limit_file_operations"),
        "none": (),
    }
)
"""Essential are those that block. The last of all is ours: to be done for the first time does not excuse everything."""

CHANGES_FILES: Final = frozenset({Category.DELETION, Category.MODIFICATION, Category.CREATION})


class CustomRule(BaseModel):
    """A rule of a policy's own: what every glob matches is decided so, unless something harder is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    decision: Verdict
    action: Annotated[str, Field(min_length=1, max_length=256)] = "*"
    target: Annotated[str, Field(min_length=1, max_length=512)] = "*"
    category: Category | None = None

    def matches(self, act: Observation, category: Category) -> bool:
        """Whether it is about this action."""
        if self.category is not None and self.category is not category:
            return False
        if not fnmatchcase(act.action, self.action):
            return False
        return self.target == "*" or any(fnmatchcase(target, self.target) for target in targets_of(act))


def targets_of(act: Observation) -> tuple[str, ...]:
    """What the action is about: its own targets, and what its command line would destroy."""
    return (*act.event.targets, *(loss.target for loss in act.destroys)) or (act.head,)


def verdicts(
    act: Observation,
    category: Category,
    names: tuple[BuiltIn, ...],
    custom: tuple[CustomRule, ...],
    *,
    file_operations: int,
    max_file_operations: int,
    dangerous: bool,
) -> Iterator[tuple[str, Verdict]]:
    """Each rule that has something against the action, and what it decides."""
    for name in names:
        if name == "prevent_recursive_deletion" and category is Category.DELETION and is_recursive(act):
            # Beside its work a session removes folders that its programs made.
            yield name, Verdict.BLOCK if reaches_out(act) else Verdict.WARN
        elif name == "limit_file_operations" and category in CHANGES_FILES and file_operations > max_file_operations:
            yield name, Verdict.BLOCK
        elif name == "warn_external_network" and category is Category.NETWORK and leaves_the_machine(act):
            yield name, Verdict.WARN
        elif name == "modify_dangerous_pattern" and dangerous:
            yield name, Verdict.MODIFY
    for rule in custom:
        if rule.matches(act, category):
            yield rule.name, rule.decision
