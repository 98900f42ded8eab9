"""The session refers to things that do not exist.

Fires: `hallucination`, on each further reference, when at least `min_occurrences` different ones within the last
    `last_actions` actions were wrong (medium), or `high` (high). Wrong are: a phantom file (a program that is to run
    or read a file, or a tool that is to read one, does not find it); an incorrect reference (a tool that does not
    exist, a record that a tool does not find, or `exists: false` in the event); a false assertion
    (`verified: false` in the event, from producers that check what their agents claim).
Quiet: asking whether something exists (`ls`, `find`, `test`, `rm`, a search), and a pattern; what the session made
    or removed itself; calls that wait for something; one wrong reference, however often: that is a repetition.
Misses: references inside of text and code; errors of a missing name (`ImportError`), which is what tests are for; files
    that are missing without the call failing (`cat x || true`); what is invented and happens to exist.
"""

import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pydantic
from pydantic import Field, model_validator

from haltline.detectors.act import Act, Sight
from haltline.detectors.base import SETTINGS, Detector
from haltline.detectors.classify import UNKNOWN
from haltline.detectors.commands.paths import canonical
from haltline.detectors.strictness import Stricter
from haltline.detectors.window import INDEX, Entry, entry, evidence
from haltline.schemas.events import Effect, Kind
from haltline.schemas.findings import Finding, Severity

_MAX_CHARS = 1024
"""Of an error, what is looked at."""
_MAX_KEY_CHARS = 120
_KEY, _SORT = 4, 5
"""Where an entry has what was referred to, and how it was wrong."""

_PHANTOM, _REFERENCE, _ASSERTION = "phantom_file", "incorrect_reference", "false_assertion"
_HINTS = ("o such", "not found", "ot exist", "nknown", "ot find", "NOENT", "nrecognized", "ot available")
_NO_FILE = re.compile(
    r"can't open file ['\"](?P<script>[^'\"\n]+)"
    r"|(?:^|\n|rc=\d+: )(?:/usr/bin/)?(?:cat|sed|head|tail|less|more|wc|nl|awk|grep|bash|sh|source|patch|diff|\.): "
    r"(?:line \d+: )?(?:cannot open |can't (?:read|open) )?['\"]?(?P<read>[^'\":\n]+?)['\"]?(?: for reading)?"
    r": No such file"
    r"|FileNotFoundError: \[Errno 2\] No such file or directory: ['\"](?P<opened>[^'\"\n]+)"
    r"|ERROR: file (?:or directory )?not found: (?P<tested>\S+)"
)
_NO_TOOL = re.compile(
    r"(?:unknown|no such|unrecognized|invalid) (?:tool|function|action)\b|\b(?:tool|function) \S{0,80} ?(?:not found"
    r"|does not exist|is not (?:available|defined))",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"\bnot found\b|\b(?:does not|doesn't) exist\b|\bno such\b|\bENOENT\b|\bcould not find\b|\bunknown\b", re.IGNORECASE
)


@dataclass
class State:
    """The wrong references of late, each once."""

    wrong: list[Entry] = field(default_factory=list)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class Hallucination(Detector[State]):
    """At least `min_occurrences` different wrong references within the last `last_actions` actions."""

    id: ClassVar[str] = "hallucination"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED, Kind.MODEL_TURN})
    sees: ClassVar[Sight] = Sight.FAILURE | Sight.MORE

    min_occurrences: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 2
    """Different wrong references from which on it is medium."""
    high: Annotated[int, Field(ge=1, le=100), Stricter.LOWER] = 4
    """From how many on it is high."""
    last_actions: Annotated[int, Field(ge=1, le=1000), Stricter.HIGHER] = 20
    """Actions. What happened within so many of the session's last ones counts together."""

    @model_validator(mode="after")
    def _ordered(self) -> "Hallucination":
        if self.min_occurrences > self.high:
            raise ValueError("min_occurrences <= high")
        return self

    def start(self) -> State:
        """Nothing referred to."""
        return State()

    def concerns(self, act: Act) -> bool:
        """Calls that failed, and what the producer has checked itself."""
        return (act.is_result and act.failed) or _checked(act) != ""

    def observe(self, state: State, act: Act) -> Finding | None:
        """Notes what was not there."""
        sort, key = _wrong(act)
        if not sort:
            return None
        oldest = act.index - self.last_actions
        state.wrong = [e for e in state.wrong if e[_KEY] != key and int(e[INDEX]) > oldest]
        known = len(state.wrong)
        state.wrong.append(entry(act, key, sort))
        del state.wrong[: -max(self.high, self.min_occurrences)]
        if known + 1 < self.min_occurrences:
            return None
        return self._found(act, state.wrong)

    def near(self, state: State) -> float:
        """How many references were wrong, to those that are a finding."""
        newest = max((int(e[INDEX]) for e in state.wrong), default=0)
        close = sum(1 for e in state.wrong if int(e[INDEX]) > newest - self.last_actions)
        return min(1.0, close / self.min_occurrences)

    def _found(self, act: Act, wrong: list[Entry]) -> Finding:
        actions = min(self.last_actions, max(1, act.index))
        rate = len(wrong) / actions
        told = ", ".join(str(e[_KEY]) for e in wrong[-3:])
        sorts = [e[_SORT] for e in wrong]
        return self.finding(
            "hallucination",
            Severity.HIGH if len(wrong) >= self.high else Severity.MEDIUM,
            f"{len(wrong)} references within {actions} actions to what does not exist: {told}",
            evidence(act, wrong),
            confidence=min(10 * rate, 1.0),
            values={
                "occurrences": len(wrong),
                "rate": round(rate, 3),
                **{f"{sort}s": sorts.count(sort) for sort in (_PHANTOM, _REFERENCE, _ASSERTION)},
            },
            thresholds={
                "min_occurrences": self.min_occurrences,
                "high": self.high,
                "last_actions": self.last_actions,
            },
        )


def _checked(act: Act) -> str:
    """What the producer found wrong, if it says so."""
    extra = act.event.model_extra
    if not extra:
        return ""
    if extra.get("verified") is False:
        return _ASSERTION
    return _REFERENCE if extra.get("exists") is False else ""


def _wrong(act: Act) -> tuple[str, str]:
    """How the reference was wrong, and to what; empty when it was not."""
    sort = _checked(act)
    if sort:
        about = act.head if sort == _REFERENCE and act.head != UNKNOWN else act.event.event_id
        said = act.event.error or act.event.output_head or about
        return sort, said[:_MAX_KEY_CHARS]
    text = (act.event.error or act.event.output_head or "")[:_MAX_CHARS]
    if not any(hint in text for hint in _HINTS) or act.waits:
        return "", ""
    if _NO_TOOL.search(text):
        return _REFERENCE, f"tool {act.action}"[:_MAX_KEY_CHARS]
    if act.runs:
        found = _NO_FILE.search(text)
        path = canonical(found[found.lastgroup or 0].strip()) if found else ""
        return (_PHANTOM, path[:_MAX_KEY_CHARS]) if path and not _is_known(act, path) else ("", "")
    if not _NOT_FOUND.search(text) or act.effect is Effect.DESTRUCTIVE:
        return "", ""
    head = act.head
    if _is_known(act, head.removeprefix("path=")) or act.calls.belongings.own.get(head) is not None:
        return "", ""
    return (_PHANTOM if head.startswith("path=") else _REFERENCE), (head or act.action)[:_MAX_KEY_CHARS]


def _is_known(act: Act, path: str) -> bool:
    """Whether the session made it or removed it, or it is a pattern and no reference."""
    if "*" in path or "?" in path or "$" in path:
        return True
    belongings = act.calls.belongings
    name = path.rpartition("/")[2]
    return any(
        target == f"path={path}" or target.endswith((f"/{name}", f"={name}"))
        for known in (belongings.own, belongings.removed)
        for target in known
    )
