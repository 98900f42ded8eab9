"""The session repeatedly refers to things that do not exist.

Fires: `hallucination`, on each further one, when at least `min_occurrences` references within the last `last_actions`
    actions were wrong (medium), or `high` (high). A reference is wrong if it is repeated after the thing was reported
    missing: a phantom file (a program that is to run or read a file, or a tool that is to read one, does not find it),
    or an incorrect reference (a tool does not find a record). Wrong at once are calls of a tool that does not exist
    according to the harness, and what the producer has checked itself (`exists: false`: an incorrect reference;
    `verified: false`: a false assertion).
Quiet: the first guess, of any number of names; checks of existence (`ls`, `find`, `test`, `rm`, a search), and
    patterns; another look after a change; what the session created or removed itself; what is missing inside the target
    of the call (a symbol, a module, a text to replace, a folder of a container); what a program under development
    misses without a name in its command line; calls that wait for something.
Misses: references inside text and code; errors of a missing name (`ImportError`), which are what tests are for; missing
    files without a failed call (`cat x || true`); invented things that happen to exist; one invented name after
    another, each of which fails (see `error_repetition`).
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.tool_classifier import UNKNOWN
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect, Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

_MAX_CHARS = 1024
"""Characters that are read of an error."""
_MAX_KEY_CHARS = 120
_KEY, _SORT = 4, 5
"""Positions in an entry: the target of the reference, and how it was wrong."""

_PHANTOM, _REFERENCE, _ASSERTION = "phantom_file", "incorrect_reference", "false_assertion"
_MAX_MISSING = 16
_HINTS = ("o such", "not found", "ot exist", "nknown", "ot find", "NOENT", "nrecognized", "ot available")
_NO_FILE = expression_of("a file was not found")
_NO_TOOL = expression_of("a tool does not exist", re.IGNORECASE)
_WITHIN = expression_of("something inside was not found", re.IGNORECASE)
"""Something is missing inside the target of the call."""
_NOT_FOUND = expression_of("a record was not found", re.IGNORECASE)
_FOLDER = re.compile(r"\A\s*cd\s+([^\s;&|]+)")
_NOTHING = ("", "", False)


class HallucinationState(Stored):
    """Recent wrong references, and what was reported missing."""

    wrong: list[Entry] = field(default_factory=list)
    missing: list[Entry] = field(default_factory=list)
    """The last reference to each thing that was reported missing."""


@settings
class Hallucination(Detector[HallucinationState]):
    """At least `min_occurrences` wrong references within the last `last_actions` actions."""

    id: ClassVar[str] = "hallucination"
    optional: ClassVar[bool] = True
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED, Kind.MODEL_TURN})
    sees: ClassVar[Trait] = Trait.FAILURE | Trait.MORE
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("min_occurrences", "high"),)

    min_occurrences: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 2
    """Threshold of a medium finding: wrong references."""
    high: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 4
    """Threshold of a high finding: wrong references."""
    last_actions: Annotated[int, Field(ge=1, le=1000), Stricter.HIGHER] = 20
    """Actions. References within this many of the session's last actions count together."""

    def concerns(self, act: Observation) -> bool:
        """Failed calls, and what the producer has checked itself."""
        return (act.is_result and act.failed) or _checked(act) != ""

    def observe(self, state: HallucinationState, act: Observation) -> Finding | None:
        """Record what was missing; a repeated reference to it is wrong."""
        sort, key, at_once = _wrong(act)
        if not sort:
            return None
        oldest = act.index - self.last_actions
        known = [e for e in state.missing if int(e[INDEX]) > oldest]
        state.missing = [*(e for e in known if e[_KEY] != key), entry(act, key, sort)][-_MAX_MISSING:]
        changed = act.calls.belongings.changed
        if not at_once and not any(e[_KEY] == key and int(e[INDEX]) > changed for e in known):
            return None
        state.wrong = [e for e in state.wrong if int(e[INDEX]) > oldest]
        state.wrong.append(entry(act, key, sort))
        del state.wrong[: -max(self.high, self.min_occurrences)]
        return self._found(act, state.wrong) if len(state.wrong) >= self.min_occurrences else None

    def near(self, state: HallucinationState) -> float:
        """The number of wrong references, relative to the one that is a finding."""
        newest = max((int(e[INDEX]) for e in state.wrong), default=0)
        close = sum(1 for e in state.wrong if int(e[INDEX]) > newest - self.last_actions)
        return min(1.0, close / self.min_occurrences)

    def _found(self, act: Observation, wrong: list[Entry]) -> Finding:
        actions = min(self.last_actions, max(1, act.index))
        rate = len(wrong) / actions
        examples = ", ".join(str(e[_KEY]) for e in wrong[-3:])
        sorts = [e[_SORT] for e in wrong]
        return self.finding(
            "hallucination",
            Severity.HIGH if len(wrong) >= self.high else Severity.MEDIUM,
            f"{len(wrong)} references within {actions} actions to things that do not exist: {examples}",
            evidence(act, wrong),
            confidence=min(10 * rate, 1.0),
            values={
                "occurrences": len(wrong),
                "rate": round(rate, 3),
                **{f"{sort}s": sorts.count(sort) for sort in (_PHANTOM, _REFERENCE, _ASSERTION)},
            },
            thresholds=self.thresholds("min_occurrences", "high", "last_actions"),
        )


def _checked(act: Observation) -> str:
    """What the producer's own check found wrong; empty if nothing."""
    extra = act.event.model_extra
    if not extra:
        return ""
    if extra.get("verified") is False:
        return _ASSERTION
    return _REFERENCE if extra.get("exists") is False else ""


def _wrong(act: Observation) -> tuple[str, str, bool]:
    """How the reference was wrong, its target, and whether the first time counts; empty if it was not wrong."""
    sort = _checked(act)
    if sort:
        about = act.head if sort == _REFERENCE and act.head != UNKNOWN else act.event.event_id
        evidence_text = act.event.error or act.event.output_head or about
        return sort, evidence_text[:_MAX_KEY_CHARS], True
    text = (act.event.error or act.event.output_head or "")[:_MAX_CHARS]
    if not any(hint in text for hint in _HINTS) or act.waits:
        return _NOTHING
    missing = _NO_TOOL.search(text)
    if missing and act.action and act.action in missing.group():
        return _REFERENCE, f"tool {act.action}"[:_MAX_KEY_CHARS], True
    if act.runs:
        found = _NO_FILE.search(text)
        path = _named(act, found[found.lastgroup or 0].strip()) if found else ""
        return (_PHANTOM, path[:_MAX_KEY_CHARS], False) if path and not _is_known(act, path) else _NOTHING
    if not _NOT_FOUND.search(text) or _WITHIN.search(text) or act.effect is Effect.DESTRUCTIVE:
        return _NOTHING
    head = act.head
    if _is_known(act, head.removeprefix("path=")) or act.calls.belongings.own.get(head) is not None:
        return _NOTHING
    return (_PHANTOM if head.startswith("path=") else _REFERENCE), (head or act.action)[:_MAX_KEY_CHARS], False


def _named(act: Observation, path: str) -> str:
    """A missing path in canonical form; empty if the call does not name it, as then the program's code does."""
    if path.rpartition("/")[2] not in act.text:
        return ""
    folder = _FOLDER.match(act.text)
    return canonical(path, folder[1] if folder else act.cwd)


def _is_known(act: Observation, path: str) -> bool:
    """Return whether the session created or removed it, or it is a pattern and not a reference."""
    if "*" in path or "?" in path or "$" in path:
        return True
    belongings = act.calls.belongings
    name = path.rpartition("/")[2]
    return any(
        target == f"path={path}" or target.endswith((f"/{name}", f"={name}"))
        for known in (belongings.own, belongings.removed)
        for target in known
    )
