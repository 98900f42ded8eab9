"""The review's rules in addition to the matrix: built-in sets, which can be disabled one by one, and a policy's own."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, Final, Literal, get_args

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
        "all": get_args(BuiltIn),
        "essential": ("prevent_recursive_deletion", "limit_file_operations"),
        "none": (),
    }
)
"""`essential` are the rules that block. `modify_dangerous_pattern` is not among the published rules: a first time does
not excuse everything."""

CHANGES_FILES: Final = frozenset({Category.DELETION, Category.MODIFICATION, Category.CREATION})


class CustomRule(BaseModel):
    """A rule of a policy: its decision applies if all globs match, unless a harder one does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    decision: Verdict
    action: Annotated[str, Field(min_length=1, max_length=256)] = "*"
    target: Annotated[str, Field(min_length=1, max_length=512)] = "*"
    category: Category | None = None

    def matches(self, act: Observation, category: Category) -> bool:
        """Return whether the rule applies to this action."""
        if self.category is not None and self.category is not category:
            return False
        if not fnmatchcase(act.action, self.action):
            return False
        return self.target == "*" or any(fnmatchcase(target, self.target) for target in targets_of(act))


def targets_of(act: Observation) -> tuple[str, ...]:
    """The targets of the action: its own, and those that its command line would destroy."""
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
    """Each rule that objects to the action, with its decision."""
    for name in names:
        if name == "prevent_recursive_deletion" and category is Category.DELETION and is_recursive(act):
            # As a side effect of its work, a session deletes folders that its programs created.
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
