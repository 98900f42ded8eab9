"""Secrets that are told by their form, as `kinds.json` has them.

A row has a `kind`, a `form` (a regular expression that Python, RE2 and Node.js read alike; its group, where it has one,
is the secret), the texts that a secret `starts` with or has `inside` (`back`: at most so many characters before it;
with neither, it is looked for anywhere), and the `hosts` of who gives it out. `as` is the kind in marks, where it
differs. `check`: `mixed`, with letters and digits, or `not a word`. `needs`: a word that stands before. `open`: more
letters may follow at once. `public`: known to others anyway, so that it may be sent. `hint`: what Rust looks for where
the form is of several lines.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from haltline.interventions.agent.redaction.marks import Found

TABLE: Final[dict[str, list[dict[str, Any]]]] = json.loads(
    files("haltline.interventions.agent.redaction").joinpath("kinds.json").read_text(encoding="utf-8")
)
HOSTS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(
        host for rows in TABLE.values() for row in rows if row["kind"] == kind for host in row.get("hosts", ())
    )
    for kind in {row["kind"] for rows in TABLE.values() for row in rows}
}
"""Of each kind the domains of who gives it out; none where that is not known."""
PUBLIC: Final = frozenset(row["kind"] for row in TABLE["forms"] if row.get("public"))

_NEAR_CHARS: Final = 200
_AHEAD_CHARS: Final = 300
_MOST_MISSES: Final = 256
"""Of a text that tells a form, without the form around it, between two places: the time for a text has a bound."""
_LEAST_DISTINCT: Final = 6
# An escaped line break or sign stands before a word as well as a space does.
_BEFORE: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
_BEHIND: Final = r"(?![A-Za-z0-9_])"
_COUNT: Final = re.compile(r"\{(\d+)(?:,\d*)?\}")
_COUNTED: Final = 24
_COUNTED_ANYWHERE: Final = 8  # what may begin anywhere has a state for each place that it may have begun at
AT_FIRST: Final = 1
_DIGIT: Final = re.compile("[0-9]")
_LETTER: Final = re.compile("[A-Za-z]")
_WORD: Final = re.compile(r"[a-z-]{1,24}|[A-Z]?[a-z]{1,23}")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """On its first use: all of them would take half a second."""
    return re.compile(pattern)


@dataclass(frozen=True, slots=True)
class Form:
    """A row of the table."""

    kind: str
    shown: str
    pattern: str
    check: str | None
    needs: str | None
    back: int

    def at(self, text: str, at: int) -> Found | None:
        """The secret whose telling text stands there."""
        if self.back:
            found = compiled(self.pattern).search(text, max(0, at - self.back), at + _AHEAD_CHARS)
            if found is None or found.start() > at:
                return None
        else:
            found = compiled(self.pattern).match(text, at)
            if found is None:
                return None
        return self.of(text, found)

    def of(self, text: str, found: re.Match[str]) -> Found | None:
        """The secret of a match, if it is one."""
        start, end = found.span(1 if found.re.groups else 0)
        if self.check is not None and not CHECKS[self.check](text[start:end]):
            return None
        if self.needs is not None and self.needs not in text[max(0, start - _NEAR_CHARS) : start].lower():
            return None
        return Found(start, end, self.kind, self.shown)


def is_mixed(secret: str) -> bool:
    """Letters and digits, and not the same ones again and again."""
    return len(set(secret)) >= _LEAST_DISTINCT and is_of_both(secret)


def is_of_both(text: str) -> bool:
    """Letters and digits of ASCII."""
    return _DIGIT.search(text) is not None and _LETTER.search(text) is not None


CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "mixed": is_mixed,
    "not a word": lambda secret: _WORD.fullmatch(secret) is None,
}


def _is_anywhere(row: dict[str, Any]) -> bool:
    return "starts" not in row and "inside" not in row


def _form_of(row: dict[str, Any]) -> Form:
    before = _BEFORE if row.get("back") or _is_anywhere(row) else ""
    behind = "" if row.get("open") else _BEHIND
    form = row["form"].replace("|$)", r"|\Z)")
    return Form(
        kind=row["kind"],
        shown=row.get("as", row["kind"]),
        pattern=f"{before}(?:{form}){behind}",
        check=row.get("check"),
        needs=row.get("needs"),
        back=row.get("back", 0),
    )


def one_of(words: Sequence[str]) -> str:
    """A regular expression for the shortest of these texts that stands at a place; each letter is looked at once."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branches(tree)


def _branches(node: dict[str, Any]) -> str:
    if "" in node:
        return ""
    ends = "".join(re.escape(letter) for letter, below in node.items() if "" in below)
    ways = [f"[{ends}]"] if ends else []
    ways += [re.escape(letter) + _branches(below) for letter, below in node.items() if "" not in below]
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _by_start() -> dict[str, list[tuple[str, Form]]]:
    """By the shortest start, the starts that go on from it, the longest first."""
    starts = [(start, _form_of(row)) for row in TABLE["forms"] for start in row.get("starts", ())]
    shortest = [start for start, _ in starts if not any(start != s and start.startswith(s) for s, _ in starts)]
    by_start: dict[str, list[tuple[str, Form]]] = defaultdict(list)
    for start, form in sorted(starts, key=lambda one: -len(one[0])):
        by_start[next(short for short in shortest if start.startswith(short))].append((start, form))
    return dict(by_start)


_BY_START: Final = _by_start()
_STARTS: Final = _BEFORE + one_of(list(_BY_START))
_INSIDE: Final = [(text, _form_of(row)) for row in TABLE["forms"] for text in row.get("inside", ())]
_ANYWHERE: Final = [_form_of(row) for row in TABLE["forms"] if _is_anywhere(row)]


def _relaxed(form: str, most: int) -> str:
    """A form that finds what this one does and more, with few states: counts are small and without a limit."""
    return _COUNT.sub(lambda count: f"{{{min(int(count[1]), most)},}}", form)


def may_be_forms(anywhere: int = _COUNTED_ANYWHERE) -> Iterator[str]:
    """Regular expressions for Rust: where none is found, no form is; the first is of forms that have a start.

    `anywhere` is the most that is counted of the others: with `AT_FIRST` more is found, and in little of the time.
    """
    closed = [row for row in TABLE["forms"] if not row.get("open") and r"[\s\S]" not in row["form"]]
    before = r"(?:^|[^A-Za-z0-9_]|\\[nrtbf]|%[0-9A-Fa-f][0-9A-Fa-f])"
    yield f"{before}(?:{'|'.join(_relaxed(row['form'], _COUNTED) for row in closed if 'starts' in row)})"
    yield from (_relaxed(row["form"], anywhere) for row in closed if "starts" not in row)
    for row in TABLE["forms"]:
        if row not in closed:
            texts = row.get("starts") or row["inside"]
            yield row.get("hint", "|".join(re.escape(text.strip("\n")) for text in texts))


def find_forms(text: str, begin: int, end: int) -> list[Found]:
    """The secrets that begin between these places."""
    found: list[Found] = []
    done = begin
    for start in compiled(_STARTS).finditer(text, begin, end):
        if start.start() >= done and (one := _of_start(text, start)) is not None:
            found.append(one)
            done = one.end
    for inside, form in _INSIDE:
        at, misses = text.find(inside, begin, end), 0
        while at >= 0 and misses < _MOST_MISSES:
            if (one := form.at(text, at)) is not None:
                found.append(one)
            else:
                misses += 1
            at = text.find(inside, max(at + 1, one.end if one is not None else 0), end)
    for form in _ANYWHERE:
        matches = compiled(form.pattern).finditer(text, begin, end)
        found += [one for match in matches if (one := form.of(text, match)) is not None]
    return found


def _of_start(text: str, start: re.Match[str]) -> Found | None:
    at = start.start()
    for whole, form in _BY_START[start.group()]:
        if text.startswith(whole, at) and (one := form.at(text, at)) is not None:
            return one
    return None
