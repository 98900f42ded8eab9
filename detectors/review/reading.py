"""The category and side effects of a proposed action, from its tool, targets and command line.

Misses: effects within a program that the action runs; networks and privileges used without a known program; backups
    with unusual names.
"""

from functools import lru_cache
from typing import NamedTuple

from haltline.detectors.commands.model import Badness, holds_one
from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.detectors.features import task_scope
from haltline.detectors.features.file_access import Access
from haltline.detectors.features.observation import Observation
from haltline.detectors.review.scoring import Category
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Reading

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_SQL, _PLAIN = Reading.SQL, Reading.PLAIN

_READ_CHARS = 2048
_SHORT_CHARS = 256
_MAX_SIDE_EFFECTS = 8
_EDITS = re.compile(r"edit|replace|insert|patch|append|update", re.IGNORECASE)
_NETWORK = expression_of("a command line reaches out")
_LOCAL = re.compile(r"\b(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|host\.docker\.internal)\b|\[::1\]")
_SENDS = expression_of("a request sends something")
_PRIVILEGED = expression_of("more rights are requested", re.IGNORECASE)
_SYSTEM = expression_of("a command line changes the system")
_PIPED_TO_SHELL = re.compile(r"\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh\b(?!\s+-c)")
_DANGEROUS = expression_of("a pattern is dangerous")
_SUSPECT = texts_of("signs of a suspect action")
_BACKUP = re.compile(r"(?:\.(?:bak|backup|orig|old)\d*|~)$")
_RECURSIVE = re.compile(r"\brm\s+(?:\S+\s+){0,32}?-(?:\w*[rR]|-recursive)")


class SideEffect(NamedTuple):
    """A side effect of an action."""

    kind: str
    """`file_write`, `file_delete`, `network` or `system_call`."""
    severity: Severity
    reversible: bool
    target: str = ""

    def __str__(self) -> str:
        undone = "reversible" if self.reversible else "irreversible"
        return " ".join(filter(None, (self.kind, self.severity.value, undone, self.target[:120])))


def category_of(act: Observation) -> Category:
    """The category of an action, for its risk. A command line has that of its effect, where known."""
    if act.losses:
        return Category.DELETION
    if act.runs:
        return _category_of_program(act)
    if act.destroys:
        return Category.MODIFICATION  # scratch, or created by the session itself
    effect = act.effect
    if effect is Effect.READ and act.tool.effect is None and act.event.effect is None:
        return Category.UNKNOWN
    if effect is Effect.WRITE:
        return Category.MODIFICATION if _EDITS.search(act.action) else Category.CREATION
    if effect is Effect.NETWORK:
        return Category.NETWORK
    return Category.READ if effect in (Effect.READ, Effect.POLL) else Category.MODIFICATION


def _category_of_program(act: Observation) -> Category:
    reading = act.tool.reading
    if reading is _SQL:
        return Category.MODIFICATION if act.changes else Category.READ
    if reading is _PLAIN or not act.text:
        return Category.COMMAND
    if _NETWORK.search(act.text, 0, _READ_CHARS) and leaves_the_machine(act):
        return Category.NETWORK
    if act.produces:
        return Category.COMMAND
    if act.destroys:
        return Category.MODIFICATION
    if not act.changes:
        return Category.COMMAND if is_privileged(act) else Category.READ
    return Category.CREATION if act.creates else Category.MODIFICATION


def side_effects(
    act: Observation, category: Category, accessed: tuple[Access, ...], backed_up: dict[str, bool]
) -> tuple[SideEffect, ...]:
    """The side effects of the action, the worst first."""
    found = [
        SideEffect(
            "file_delete",
            Severity.CRITICAL if loss.badness is Badness.SEVERE else Severity.HIGH,
            loss.target in backed_up,
            loss.target,
        )
        for loss in act.losses[:_MAX_SIDE_EFFECTS]
    ]
    for access in accessed[:_MAX_SIDE_EFFECTS]:
        how = task_scope.critical(access.path, changes=True) if access.changes else ""
        if how:
            severity = Severity.CRITICAL if how == "grave" else Severity.HIGH
            found.append(SideEffect("file_write", severity, f"path={access.path}" in backed_up, f"path={access.path}"))
    if category in (Category.MODIFICATION, Category.CREATION):
        target = act.event.targets[0] if act.event.targets else ""
        undone = category is Category.CREATION or target in backed_up
        found.append(SideEffect("file_write", Severity.MEDIUM, undone, target))
    elif category is Category.NETWORK:
        found.append(SideEffect("network", Severity.MEDIUM, not (act.text and _SENDS.search(act.text, 0, _READ_CHARS))))
    elif category is Category.COMMAND:
        system = _SYSTEM.search(act.text, 0, _READ_CHARS) is not None
        found.append(SideEffect("system_call", Severity.HIGH if system else Severity.MEDIUM, not system))
    return tuple(sorted(found, key=lambda effect: -effect.severity.rank))


def is_suspect(act: Observation) -> bool:
    """Return whether it could be more than a harmless action. Cheap; prefers false positives to false negatives."""
    text = act.text or "\n".join(act.targets)
    return _short_is_suspect(text) if len(text) <= _SHORT_CHARS else _is_suspect(text)


def _is_suspect(text: str) -> bool:
    if "|" in text and _PIPED_TO_SHELL.search(text, 0, _READ_CHARS) is not None:
        return True
    return holds_one(text, _SUSPECT) or text.endswith(" /")


_short_is_suspect = lru_cache(maxsize=4096)(_is_suspect)
"""Cached, because agents repeat the same programs and paths."""


def may_be_critical(act: Observation) -> bool:
    """Return whether a search for critical paths is worthwhile."""
    return task_scope.may_be_critical(act.text) or any(map(task_scope.may_be_critical, act.targets))


def is_privileged(act: Observation) -> bool:
    """Return whether it requests more rights than a session has by default."""
    return _PRIVILEGED.search(act.text, 0, _READ_CHARS) is not None


def is_dangerous(act: Observation) -> bool:
    """Return whether the command line has a dangerous pattern, such as a download piped into a shell."""
    text = act.text
    if "|" in text and _PIPED_TO_SHELL.search(text, 0, _READ_CHARS) is not None:
        return True
    return _DANGEROUS.search(text, 0, _READ_CHARS) is not None


def is_catastrophe(act: Observation, accessed: tuple[Access, ...]) -> bool:
    """Return whether one of its side effects is critical."""
    if any(loss.badness is Badness.SEVERE for loss in act.losses):
        return True
    return any(access.changes and task_scope.critical(access.path, changes=True) == "grave" for access in accessed)


def is_recursive(act: Observation) -> bool:
    """Return whether it deletes a folder with its content."""
    if any(loss.verb in ("rmtree", "find_delete") for loss in act.losses):
        return True
    return bool(act.text) and _RECURSIVE.search(act.text, 0, _READ_CHARS) is not None


def reaches_out(act: Observation) -> bool:
    """Return whether a deleted path is outside of the working directory, or its loss is severe."""
    return any(
        loss.badness is Badness.SEVERE or loss.target.startswith(("path=/", "path=~", "path=..")) for loss in act.losses
    )


def leaves_the_machine(act: Observation) -> bool:
    """Return whether a request goes to another machine, as far as the command line shows."""
    text = act.text or " ".join(act.event.targets) or str((act.args or {}).get("url", ""))
    return _LOCAL.search(text, 0, _READ_CHARS) is None


def backs_up(target: str) -> str:
    """The target that this one is a backup of, by its name; empty if none."""
    kept = _BACKUP.sub("", target)
    return kept if kept != target else ""
