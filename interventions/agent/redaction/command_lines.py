"""Passwords in command lines, found by their programs' options, as in `programs.json`.

A row has `programs`, and their secret `values`: `-p` (the next argument, or what follows directly), `-p*` (only what
follows directly, or after `=`), `-u :` (the part of the option's value after the first `:`), `#2` (the second argument
that is no option), `#1 /` (the part of it after `/`), `#1?` (if it looks like a secret), `#*=` (the part after `=` in
each). `after`: only after one of these arguments, from which `#` counts; `*` is anything.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from haltline.interventions.agent.redaction.forms import is_of_both
from haltline.interventions.agent.redaction.marks import Found
from haltline.schemas import expressions as re

PROGRAMS: Final[list[dict[str, Any]]] = json.loads(
    files("haltline.interventions.agent.redaction").joinpath("programs.json").read_text(encoding="utf-8")
)
_KIND: Final = "password"
_MOST_CHARS: Final = 8192
_MOST_ITEMS: Final = 256
_LONG_CHARS: Final = 24
_BUNDLE: Final = re.compile(r"-[A-WYZa-z]{2,8}")  # -X of curl is followed by a method
_NO_SECRET: Final = re.compile(
    r"\A(?:\$[({A-Za-z_@]|[<{`@]|%[A-Za-z_]+%|-{0,2}\Z|env:|file:|fd:|stdin\Z|pass:\Z|\[redacted:"
    r"|(?:null|none|nil|true|false|undefined)\Z)",
    re.IGNORECASE | re.ASCII,
)


class Argument(NamedTuple):
    """An argument of a command line: its text, and its place."""

    text: str
    start: int


class Value(NamedTuple):
    """The place of a secret in a program's arguments."""

    option: str
    separator: str
    attached_only: bool
    place: int
    """Position of an argument that is no option; 0: an option's value, -1: each."""
    in_doubt: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    values: tuple[Value, ...]
    after: frozenset[str]
    ends: tuple[str, ...]
    begins: tuple[str, ...]

    def places(self, arguments: Sequence[Argument]) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each secret."""
        first = 0
        if self.after or self.ends or self.begins:
            first = next((at + 1 for at, one in enumerate(arguments) if self._is_after(one.text)), -1)
        if first < 0:
            return
        named = [at for at in range(first, len(arguments)) if not arguments[at].text.startswith("-")]
        for value in self.values:
            if value.place:
                for at in named if value.place < 0 else named[value.place - 1 : value.place]:
                    yield from _part(arguments[at].text, arguments[at].start, value)
            else:
                yield from _of_option(arguments[0 if not self.ends else first :], value)

    def _is_after(self, text: str) -> bool:
        return text in self.after or text.endswith(self.ends) or text.startswith(self.begins)


def _of_option(arguments: Sequence[Argument], value: Value) -> Iterator[tuple[int, int]]:
    option = value.option
    is_letter = len(option) == 2 and option[0] == "-"
    for at, one in enumerate(arguments):
        text = one.text
        if text == option or (is_letter and value.separator and _is_bundle(text, option[1])):
            if not value.attached_only and at + 1 < len(arguments):
                yield from _part(arguments[at + 1].text, arguments[at + 1].start, value)
        elif text.startswith(option):
            behind = len(option)
            if text[behind : behind + 1] in ("=", ":") and not option.endswith(":"):
                behind += 1
            elif not (is_letter or value.attached_only):
                continue
            yield from _part(text[behind:], one.start + behind, value)


def _is_bundle(text: str, letter: str) -> bool:
    return _BUNDLE.fullmatch(text) is not None and text[-1] == letter


def _part(text: str, start: int, value: Value) -> Iterator[tuple[int, int]]:
    quoted = text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1
    if quoted:
        text, start = text[1:-1], start + 1
    separator = value.separator
    if separator:
        before, found, secret = text.partition(separator)
        if not found or (not before and separator in "%/=,"):
            return
        start += len(before) + len(separator)
        text = secret.split("@")[0] if separator == "/" else secret
        if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
            text, start = text[1:-1], start + 1
    if not text or is_no_secret(text) or (value.in_doubt and not _is_likely(text)):
        return
    yield start, start + len(text)


def _is_likely(text: str) -> bool:
    """Return whether it is unlikely to be a word of a sentence."""
    return len(text) > _LONG_CHARS or is_of_both(text)


def _value(written: str) -> Value:
    option, _, separator = written.partition(" ")
    if not option.startswith("#"):
        return Value(option.rstrip("*"), separator, option.endswith("*"), 0, in_doubt=False)
    if option.startswith("#*"):
        return Value("", option[2:], attached_only=False, place=-1, in_doubt=False)
    return Value("", separator, attached_only=False, place=int(option.strip("#?")), in_doubt=option.endswith("?"))


def _rows() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for row in PROGRAMS:
        after = row.get("after", ())
        made = Row(
            tuple(map(_value, row["values"])),
            frozenset(word for word in after if "*" not in word),
            tuple(word[1:] for word in after if word.startswith("*")),
            tuple(word[:-1] for word in after if word.endswith("*")),
        )
        for program in row["programs"]:
            rows.setdefault(program, []).append(made)
    return rows


_ROWS: Final = _rows()
_LINE_ENDS: Final = frozenset(";|&)`\n")


@cache
def _programs() -> re.Pattern[str]:
    names = "|".join(re.escape(name) for name in sorted(_ROWS, key=len, reverse=True))
    first = "".join(sorted({name[0] for name in _ROWS}))
    return re.compile(rf"(?<![A-Za-z0-9_.-])(?=[{first}])({names})(?:\.exe)?[\"']?(?:\\\n)?[ \t]")


def may_be_programs() -> str:
    """Return a regular expression for Rust; without a match, no program of the table is called."""
    names = "|".join(re.escape(name) for name in sorted(_ROWS))
    return rf"(?-u:\b)(?:{names})(?:\.exe)?[\\\"']{{0,2}}(?:[ \t]|\\[nt])"


def may_be_command_lines() -> Iterator[str]:
    """Yield regular expressions for Rust; without a match, no command line has a secret."""
    for row in PROGRAMS:
        names = "|".join(map(re.escape, row["programs"]))
        values = [_value(written) for written in row["values"]]
        after = [re.escape(word.strip("*")) for word in row.get("after", ())]
        if all(len(value.option) > len("-p") for value in values):  # more specific than `after`
            after = []
        options = "|".join(after or set(map(_value_sign, values)))
        yield rf"(?-u:\b)(?:{names})(?:\.exe)?[\\\"']{{0,2}}(?:[ \t]|\\[nt])(?:[^\n]|\\\n)*?(?:{options})"


def _value_sign(value: Value) -> str:
    if value.place:
        return re.escape(value.separator) if value.separator else "[^ ]"
    option = value.option
    if value.separator and len(option) == 2:
        return rf"-[A-Za-z]{{0,8}}{re.escape(option[1])}"
    return re.escape(option)


def is_no_secret(text: str) -> bool:
    """Return whether it is a variable, a command, a template, a file, or an empty value."""
    return _NO_SECRET.match(text) is not None


def find_command_lines(text: str, begin: int, end: int) -> list[Found]:
    """Return the secrets of command lines that begin in this range."""
    found: list[Found] = []
    done: dict[str, int] = {}  # a program's name among its own arguments starts no other command line
    for program in _programs().finditer(text, begin, end):
        if program.start() < done.get(program[1], 0):
            continue
        arguments = list(arguments_of(text, program.start(), program.end()))
        if arguments:
            done[program[1]] = arguments[-1].start + len(arguments[-1].text)
        for row in _ROWS[program[1]]:
            found += [Found(start, until, _KIND, _KIND) for start, until in row.places(arguments)]
    return found


def secret_items(items: Sequence[object]) -> dict[int, tuple[int, int]]:
    """Return the secret parts of a list's items, by index."""
    texts = [item if isinstance(item, str) else "" for item in items[:_MOST_ITEMS]]
    places: dict[int, tuple[int, int]] = {}
    for first, name in enumerate(texts):
        rows = _ROWS.get(name.rpartition("/")[2].removesuffix(".exe"), ()) if name else ()
        if not rows:
            continue
        starts: list[int] = []
        at = 0
        for text in texts[first + 1 :]:
            starts.append(at)
            at += len(text) + 1
        arguments = [Argument(text, start) for text, start in zip(texts[first + 1 :], starts, strict=True)]
        for row in rows:
            for start, end in row.places(arguments):
                item = max(n for n, begin in enumerate(starts) if begin <= start)
                places[first + 1 + item] = (start - starts[item], end - starts[item])
    return places


def arguments_of(text: str, program: int, at: int) -> Iterator[Argument]:
    """Yield the arguments of the command line at this place, without their quotes."""
    outer = _open_quote(text, program)
    until = min(len(text), at + _MOST_CHARS)
    for _ in range(_MOST_ITEMS):
        while at < until and (text[at] in " \t" or text.startswith("\\\n", at)):
            at += 2 if text[at] == "\\" else 1
        if at >= until or text[at] in _LINE_ENDS or text[at] == outer:
            return
        start = at
        at = _end_of_argument(text, at, until, outer)
        if at == start:
            return
        written = text[start:at]
        if len(written) > 1 and written[0] in "\"'" and written[-1] == written[0] and written.count(written[0]) == 2:
            yield Argument(written[1:-1], start + 1)
        else:
            yield Argument(written, start)


def _end_of_argument(text: str, at: int, until: int, outer: str) -> int:
    quote = ""
    while at < until:
        letter = text[at]
        if letter == "\\" and quote != "'" and at + 1 < until:
            if text[at + 1] == "\n" or (outer and text[at + 1] == outer and quote == ""):
                return at
            at += 2
            continue
        if quote:
            if letter == quote:
                quote = ""
            elif letter in ("\n", outer):
                return at
        elif letter == outer or letter in " \t" or letter in _LINE_ENDS:
            return at
        elif letter in "\"'":
            quote = letter
        at += 1
    return at


def _open_quote(text: str, at: int) -> str:
    """Return the quote around the command line itself; empty without one."""
    begin = max(text.rfind("\n", 0, at) + 1, at - 512)
    line = text[begin:at].replace('\\"', "").replace("\\'", "")
    open_quotes = [(line.rfind(quote), quote) for quote in "\"'" if line.count(quote) % 2]
    return max(open_quotes)[1] if open_quotes else ""
