"""Normalization of error messages: messages with equal keys report the same mistake.

`low` masks times, addresses and line numbers; `medium` also paths, numbers, ids and the names of missing things, so
that one guessed path after another is one mistake; `high` keeps only the kind of error. A message without information
(`exit code 1` of a grep without matches) has no key.
"""

from enum import StrEnum
from functools import lru_cache

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.detectors.features.masks import masked, masks_of
from haltline.schemas import expressions as re

MAX_READ_CHARS = 4096
"""Of a longer message, only the beginning and the end are read."""
MAX_KEY_CHARS = 160


class Normalization(StrEnum):
    """How much of an error message is masked before comparison."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_STATUS = expression_of("a line gives a status", re.IGNORECASE)
_TELLING = expression_of("a line names a problem", re.IGNORECASE)
_KIND = expression_of("a kind of error")
_WARNING = expression_of("a line is a warning", re.IGNORECASE)
"""A line that programs print at every run; an exception with such a name ends a traceback."""
_TIMED_OUT = expression_of("a program was stopped by a timeout", re.IGNORECASE)
_TIMED_OUT_CHARS = 240
_CATEGORIES = texts_of("kinds of errors")
_BY_CATEGORY = tuple(expression_of(f"an error is of the kind {name}") for name in _CATEGORIES)

_LOW, _MEDIUM = masks_of("errors"), masks_of("errors, by kind")
_WITH_DURATIONS = masks_of("errors", "durations in errors")
_ABSENT = expression_of("a thing is absent")
_QUOTED = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`']*['`]|\u2018[^\u2018\u2019]*\u2019|\u201c[^\u201c\u201d]*\u201d")
_BEFORE_ABSENT = re.compile(r"(?:(?<=[:\s])|^)[^\s:]+(?=: (?:no such file|(?:command )?not found|does not exist))")
_TEST_RUN = expression_of("a test run reports", re.IGNORECASE)
_FAILING = expression_of("a number of failures", re.IGNORECASE)
_FAILING_CUES = (" failed", " failure", " error", "failures=", "errors=")
_SAYS_NOTHING = re.compile(r"^your code has been rated at ")
"""The last line of programs whose report is not an error, although their exit status is not zero."""
_UNREAD_NAME = expression_of("a name of an answer that could not be read", re.IGNORECASE)
_UNREAD = expression_of("the model's output could not be parsed", re.IGNORECASE)
"""How a harness reports that it could not parse the model's output."""
_UNREAD_CHARS = 400
_CALL = r"(?:tool|call|command|task|action|step|operation|request)"
_BESIDE = r"(?:sibling|parallel|concurrent|simultaneous)"
_BROKEN_OFF = r"(?:cancell?ed|aborted|interrupted|skipped|stopped|not (?:executed|run|started|attempted))"
_BAD_END = r"(?:error(?:ed|s)?|fail(?:ed|s|ure)?|cancell?ed|aborted|rejected|denied)"
_CANCELLED = re.compile(
    rf"\b{_BROKEN_OFF}\b[^\n]{{0,60}}\b(?:{_BESIDE}|(?:an)?other|one)\b[^\n]{{0,40}}\b{_CALL}s?\b[^\n]{{0,80}}\b{_BAD_END}\b"
    rf"|\b{_BESIDE} {_CALL}[^\n]{{0,80}}\b{_BAD_END}\b",
    re.IGNORECASE,
)
"""How a harness reports that it cancelled a call because another one of the same turn failed."""
_CANCELLED_CHARS = 240
_CANCELLED_CUES = ("ibling", "arallel", "oncurrent", "imultaneous", "ther", "one ")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=1024)  # a loop repeats the same errors
def error_key(text: str, level: Normalization = Normalization.MEDIUM) -> str:
    """The normalized message; empty if it has no information."""
    line = _telling_line(text)
    if not line or _SAYS_NOTHING.match(line.lower()):
        return ""
    if level is Normalization.HIGH:
        return _kind(line)[:MAX_KEY_CHARS]
    key = masked(line.lower(), _LOW)
    if level is Normalization.MEDIUM:
        if _ABSENT.search(key):
            key = _BEFORE_ABSENT.sub("<name>", _QUOTED.sub("<name>", key))
        key = masked(key, _MEDIUM)
        key = key.replace("'<path>'", "<name>").replace("<path>", "<name>")
    return _SPACE.sub(" ", key).strip()[:MAX_KEY_CHARS]


def error_text(text: str) -> str:
    """The whole message, without times, addresses and line numbers; of a long one the beginning and the end."""
    if len(text) > MAX_READ_CHARS:
        text = f"{text[: MAX_READ_CHARS // 2]}\n{text[-MAX_READ_CHARS // 2 :]}"
    return masked(ANSI.sub("", text).lower(), _WITH_DURATIONS)


def is_unread(action: str, text: str, *, known: bool) -> bool:
    """Return whether a failure reports that the model's output could not be parsed, so that no tool was called.

    `known`: `action` is a known tool; only errors of other ones can be the harness's own.
    """
    if _UNREAD_NAME.search(action) is not None:
        return True
    return not known and _UNREAD.search(text, 0, _UNREAD_CHARS) is not None


def is_cancelled(text: str) -> bool:
    """Return whether a failure only reports that another call of the same model turn failed."""
    text = text[:_CANCELLED_CHARS]
    return holds_one(text, _CANCELLED_CUES) and _CANCELLED.search(text) is not None


def failing(text: str) -> int:
    """The number of failed tests in a test run's message; -1 for other messages. A lower number is progress."""
    text = text[-MAX_READ_CHARS:]
    if (text.isascii() and not holds_one(text.lower(), _FAILING_CUES)) or _TEST_RUN.search(text) is None:
        return -1
    counts = [int(before or after) for before, after in _FAILING.findall(text)]
    return sum(counts) if counts else -1


def is_timeout(text: str) -> bool:
    """Return whether a failure reports that a program was stopped because it ran too long."""
    text = text[:_TIMED_OUT_CHARS]
    return ("imed" in text or "IMED" in text) and _TIMED_OUT.search(text) is not None


def _telling_line(text: str) -> str:
    """The last line that names a problem, or else the last one with text: traces end with the error.

    Warnings are excluded, and so is the line after one that names no problem: its source, or advice.
    """
    if len(text) > MAX_READ_CHARS:
        text = f"{text[: MAX_READ_CHARS // 2]}\n{text[-MAX_READ_CHARS // 2 :]}"
    plain: list[str] = []
    behind = False  # whether the line after this one names no problem
    raised = "Traceback" in text
    for raw in reversed(ANSI.sub("", text).splitlines()):
        line = _STATUS.sub("", raw).strip()
        if not any(c.isalpha() for c in line):
            continue
        if not raised and "arn" in line.lower() and _WARNING.match(line) is not None:
            if behind:
                plain.pop()
            if line.lower().startswith("timed"):
                return "timed out"
            behind = False
        elif _TELLING.search(line):
            return line
        else:
            plain.append(line)
            behind = True
    return plain[0] if plain else ""


def _kind(line: str) -> str:
    """The name of the exception or error code, else a category, else the first words."""
    named = _KIND.search(line)
    if named is not None:
        return (named[1] or named[2]).lower()
    low = line.lower()
    for name, pattern in zip(_CATEGORIES, _BY_CATEGORY, strict=True):
        if pattern.search(low):
            return name
    return " ".join(re.findall(r"[a-z]+", low)[:6])
