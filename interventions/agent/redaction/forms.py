"""Secrets recognized by their form, as in `kinds.json`.

A row has a `kind`, a `form` (a regular expression that Python, RE2 and Node.js read alike; its group, if any, is the
secret), the texts that a secret `starts` with or has `inside` (`back`: at most this many characters before it; with
neither, it is searched for anywhere), and the `hosts` of its issuer. `as`: the kind in marks, if it differs. `check`:
`mixed`, with letters and digits, `random` in both cases, `not a word`, or `set`, a password that is no variable.
`needs`: a word that precedes it; `near`: one before or after it. `open`: more letters may follow
directly. `public`: known to others anyway, so that it may be sent. `hint`: what Rust searches for if the form spans
several lines.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from haltline.interventions.agent.redaction.marks import Found
from haltline.interventions.agent.redaction.stand_ins import is_password_set, is_stand_in_form
from haltline.schemas import expressions as re

TABLE: Final[dict[str, list[dict[str, Any]]]] = json.loads(
    files("haltline.interventions.agent.redaction").joinpath("kinds.json").read_text(encoding="utf-8")
)
HOSTS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(
        host for rows in TABLE.values() for row in rows if row["kind"] == kind for host in row.get("hosts", ())
    )
    for kind in {row["kind"] for rows in TABLE.values() for row in rows}
}
"""The domains of the issuer, by kind; empty if unknown."""
PUBLIC: Final = frozenset(row["kind"] for row in TABLE["forms"] if row.get("public"))

_NEAR_CHARS: Final = 200
_OBJECT_CHARS: Final = 4096
_AHEAD_CHARS: Final = 300
_MOST_MISSES: Final = 256
"""Maximum of a form's starting texts without the form around them in a range, to bound the time for a text."""
_LEAST_DISTINCT: Final = 6
# An escaped line break or character precedes a word as a space does.
_BEFORE: Final = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
_BEHIND: Final = r"(?![A-Za-z0-9_])"
_COUNT: Final = re.compile(r"(\[0-9a-f\])?\{(\d+)(?:,\d*)?\}")
_COUNTED: Final = 24
_COUNTED_ANYWHERE: Final = 5  # what may begin anywhere has a state for each possible start
_COUNTED_HEX: Final = 5  # a date such as 2026-11-26 has four of these digits in a row
AT_FIRST: Final = 1
_DIGIT: Final = re.compile("[0-9]")
_LETTER: Final = re.compile("[A-Za-z]")
_WORD: Final = re.compile(r"[a-z-]{1,24}|[A-Z]?[a-z]{1,23}")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile on first use: all patterns together would take half a second."""
    return re.compile_given(pattern)


@dataclass(frozen=True, slots=True)
class Form:
    """A row of the table."""

    kind: str
    shown: str
    pattern: str
    check: str | None
    needs: str | None
    near: str | None
    back: int

    def at(self, text: str, at: int) -> Found | None:
        """Return the secret whose identifying text is at this place."""
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
        """Return the secret of a match, if it is one."""
        start, end = found.span(1 if found.re.groups else 0)
        if self.check is not None and not CHECKS[self.check](text[start:end]):
            return None
        if is_stand_in_form(text[start:end]):
            return None
        if self.near is not None and self.near not in text[max(0, start - _OBJECT_CHARS) : end + _OBJECT_CHARS]:
            return None
        if self.needs is not None and self.needs not in text[max(0, start - _NEAR_CHARS) : start].lower():
            return None
        return Found(start, end, self.kind, self.shown)


def is_mixed(secret: str) -> bool:
    """Return whether it has letters and digits, and enough distinct ones."""
    return len(set(secret)) >= _LEAST_DISTINCT and is_of_both(secret)


def is_of_both(text: str) -> bool:
    """Return whether it has ASCII letters and digits."""
    return _DIGIT.search(text) is not None and _LETTER.search(text) is not None


CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "mixed": is_mixed,
    "random": lambda secret: is_mixed(secret) and secret.lower() != secret != secret.upper(),
    "set": is_password_set,
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
        near=row.get("near"),
        back=row.get("back", 0),
    )


def one_of(words: Sequence[str]) -> str:
    """Return a regular expression for the shortest of these texts at a place; each letter is read once."""
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
    """Return, by the shortest start, the starts that extend it, the longest first."""
    starts = [(start, form) for row in TABLE["forms"] for form in [_form_of(row)] for start in row.get("starts", ())]
    by_start: dict[str, list[tuple[str, Form]]] = {}
    short = None
    for start, form in sorted(starts, key=lambda one: one[0]):  # what extends a text follows it
        if short is None or not start.startswith(short):
            short = start
        by_start.setdefault(short, []).append((start, form))
    return {short: sorted(longer, key=lambda one: -len(one[0])) for short, longer in by_start.items()}


_BY_START: Final = _by_start()
_STARTS: Final = _BEFORE + one_of(list(_BY_START))
_INSIDE: Final = [(text, _form_of(row)) for row in TABLE["forms"] for text in row.get("inside", ())]
_ANYWHERE: Final = [_form_of(row) for row in TABLE["forms"] if _is_anywhere(row)]


def _relaxed(form: str, most: int) -> str:
    """Return a form that matches this one's texts and more, with few states: its counts are small and open-ended."""

    def fewer(count: re.Match[str]) -> str:
        chars = count[1] or ""
        return f"{chars}{{{min(int(count[2]), max(most, _COUNTED_HEX) if chars else most)},}}"

    return _COUNT.sub(fewer, form)


def behind_word(row: dict[str, Any]) -> str:
    """Return the regular expression of a secret beside a word."""
    return rf"(?:{row['form']})(?![A-Za-z0-9+/_=-])"


def may_be_forms(anywhere: int = _COUNTED_ANYWHERE, start: int = _COUNTED) -> Iterator[str]:
    """Yield regular expressions for Rust; without a match there is no form. The first is for forms with a start.

    `start`: the highest count in it, `anywhere`: in the others; with `AT_FIRST` more is found, in much less time.
    """
    closed = [row for row in TABLE["forms"] if not row.get("open") and r"[\s\S]" not in row["form"]]
    before = r"(?:^|[^A-Za-z0-9_]|\\[nrtbf]|%[0-9A-Fa-f][0-9A-Fa-f])"
    yield f"{before}(?:{'|'.join(_relaxed(row['form'], start) for row in closed if 'starts' in row)})"
    yield from (_relaxed(row["form"], anywhere) for row in closed if "starts" not in row)
    for row in TABLE["forms"]:
        if row not in closed:
            texts = row.get("starts") or row["inside"]
            yield row.get("hint", "|".join(re.escape(text.strip("\n")) for text in texts))


def find_forms(text: str, begin: int, end: int) -> list[Found]:
    """Return the secrets that begin in this range."""
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
