"""Rows of the tables of programs: their syntax, and matching them with a program.

A line is `effect | program and words | conditions | target`; a `#` begins a comment. `effect~` is reversible, one
act of `effect!` is SEVERE.

- Words are the first non-option words after the program's name. `*` matches part of a word, `a/b` either word. Values
  of options before these words are skipped if the program is in `GLOBAL_OPTIONS`.
- All conditions must hold. The text of the arguments ends with the input, as `< file`. `+word/other` (a preselection:
  lines without any of these are not parsed), `--force` (present), `!--dry-run` (absent), `--acl=public*` (has such a
  value, with `=` or as the next word), `/regex/` and `!/regex/` over all arguments, ignoring case.
- Target: `--name,-n` (values of options), `$1` (an operand after the words), `$*` (each of them), `.` (the working
  directory), `path:$1` (a file), `user:$1` (of kind `user`), `'this'` (itself). The default is
  the command line. `kms:{--keyring}/{$1}` is one target of several parts, of which missing ones are left out; `{$-}`
  is every operand but the verb.

Misses: abbreviated options; values of options before the words of programs outside `GLOBAL_OPTIONS`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cache
from itertools import chain, product

from haltline.detectors.commands.files import lost_path
from haltline.detectors.commands.model import ActEffect, Badness, Destruction, listed
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.shell.invocation import STDIN, Invocation
from haltline.detectors.commands.shell.wrappers import GLOBAL_OPTIONS, SYNONYMS
from haltline.schemas import expressions as re

ANY = "*"
"""Matches every program."""
_DRY = frozenset(listed("--dry-run --dryrun --dry_run -whatif --what-if --simulate --preview-only --plan"))
_WORD = re.compile(r"[a-z0-9_]+")
_PART_OF_A_WORD = re.compile(r"(?<!\w)\w*\*[\w*]*")
_CELLS = re.compile(r"\s\|(?=\s|$)")
_ALSO: Mapping[str, tuple[str, ...]] = {
    program: tuple(name for name, path in SYNONYMS.items() if path[0] == program)
    for program in {path[0] for path in SYNONYMS.values()}
}
"""The other names of each program."""
_PART = re.compile(r"\{([^{}]*)\}")
_VERBS = frozenset(listed("delete remove rm purge archive destroy unset del"))
_MAX_TARGETS = 32
_MAX_WORDS = 4096
_MAX_NAME_CHARS = 240
_MAX_TEXT_CHARS = 16 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    effect: ActEffect
    reversible: bool
    severe: bool
    program: str
    words: tuple[str, ...]
    conditions: tuple[str, ...]
    target: str
    source: str
    """The source line."""
    first: frozenset[str] | None
    """The allowed first words, if they are listed."""

    def named(self, invocation: Invocation) -> str:
        """Return the program with the matching words: `aws s3api put-bucket-acl`."""
        if self.program == ANY:
            return invocation.name
        return " ".join((invocation.name, *leading(invocation.name, invocation.argv[1:])[: len(self.words)]))


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a text, by program."""

    rows: Mapping[str, tuple[Row, ...]]
    needs: Mapping[bytes, frozenset[frozenset[bytes]]]
    """Groups of words by the first word of a program's name: a command line needs all words of one group."""
    anywhere: frozenset[bytes]
    """The words of rows for every program."""


def table(text: str) -> Table:
    """Parse a table.

    Raises:
        ValueError: a line is malformed.

    """
    rows: dict[str, list[Row]] = {}
    needs: dict[bytes, set[frozenset[bytes]]] = {}
    anywhere: set[bytes] = set()
    for line in filter(None, (line.partition(" #")[0].strip() for line in text.splitlines())):
        if line.startswith("#"):
            continue
        cells = [cell.strip() for cell in _CELLS.split(line)]
        if len(cells) not in (2, 3, 4):
            raise ValueError(f"expected `effect | program and words | conditions | target`, got {line!r}")
        effect, called, conditions, target = (*cells, "", "")[:4]
        if effect.rstrip("~!") not in set(ActEffect):
            raise ValueError(f"expected one of {', '.join(ActEffect)}, got {effect!r} in {line!r}")
        names, *words = called.split()
        for name in names.split(","):
            row = Row(
                ActEffect(effect.rstrip("~!")),
                effect.endswith("~"),
                effect.endswith("!"),
                name,
                tuple(words),
                tuple(conditions.split()),
                target,
                line,
                frozenset(words[0].split("/")) if words and "*" not in words[0] else None,
            )
            rows.setdefault(name, []).append(row)
            if name == ANY:
                anywhere.update(word.encode() for word in words)
                continue
            for known in (name, *_ALSO.get(name, ())):
                first = _pieces(known)[0]
                needs.setdefault(first, set()).update(group - {first} for group in _groups(known, row))
    return Table(
        {name: tuple(listed) for name, listed in rows.items()},
        {name: frozenset(groups) for name, groups in needs.items()},
        frozenset(anywhere),
    )


def _groups(name: str, row: Row) -> Iterator[frozenset[bytes]]:
    """Yield groups of words; a command line needs one whole group to match the row."""
    options = [one for one in row.conditions if one.startswith("--") and one[2:].replace("-", "").isalnum()]
    fixed = [*_pieces(name), *chain.from_iterable(map(_pieces, options))]
    choices = [word.split("/") for word in row.words]
    choices += [one[1:].split("/") for one in row.conditions if one.startswith("+")]
    for alternative in product(*choices):
        yield frozenset((*fixed, *chain.from_iterable(map(_pieces, alternative))))


def _pieces(word: str) -> list[bytes]:
    """Return the literal words in a word of a table, split like the words of a command line."""
    return [part.encode() for part in _WORD.findall(_PART_OF_A_WORD.sub(" ", word).lower())]


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


@cache
def _glob(text: str) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, text.split("/"))), re.IGNORECASE)


def matching(of: Table, invocation: Invocation) -> Iterator[Row]:
    """Yield the rows that match a program; none for a dry run."""
    name, argv = invocation.name, invocation.argv[1:_MAX_WORDS]
    rows = of.rows.get(name) or (_of_windows(of, name.lower()) if "-" in name else of.rows.get(name.lower(), ()))
    if rows:
        operands = leading(name, argv)
        first = operands[0] if operands else ""
        rows = tuple(
            row
            for row in rows
            if not row.words or ((row.first is None or first in row.first) and _begin_with(operands, row.words))
        )
    options = [word for word in argv if word[:2] == "--"]
    if options:
        rows += tuple(row for row in of.rows.get(ANY, ()) if any(word in one for word in row.words for one in options))
    if not rows or is_dry(argv):
        return
    upstream = invocation.upstream
    source = f"< {invocation.reads}" if invocation.reads else f"< {' '.join(upstream.argv)}" if upstream else ""
    text = " ".join(filter(None, (*map(_apart, argv), source, invocation.stdin)))[:_MAX_TEXT_CHARS] or " "
    for row in rows:
        if all(_holds(condition, argv, text) for condition in row.conditions):
            yield row


def is_dry(argv: Sequence[str]) -> bool:
    """Return whether an option requests a dry run."""
    return any(
        word[:1] == "-" and word.lower().partition("=")[0] in _DRY and not word.endswith(("=none", "=false"))
        for word in argv
    )


def of_operation(of: Table, program: str, operation: str) -> tuple[Row, ...]:
    """Return the rows of an operation such as `put-bucket-versioning`, for any service.

    Empty unless a row names both the operation and its service literally.
    """
    rows = tuple(row for row in of.rows.get(program, ()) if len(row.words) == 2 and _fits(row.words[1], operation))
    named = any(row.words[0] != ANY and operation in row.words[1].split("/") for row in rows)
    return tuple(row for row in rows if row.conditions or row.words[0] != ANY) if named else ()


def holds(row: Row, argv: Sequence[str]) -> bool:
    """Return whether the conditions of a row hold for these options with their values."""
    text = " ".join(argv)[:_MAX_TEXT_CHARS]
    return all(_holds(condition, argv, text) for condition in row.conditions)


def _begin_with(operands: Sequence[str], words: Sequence[str]) -> bool:
    return len(operands) >= len(words) and all(map(_fits, words, operands))


def _of_windows(of: Table, name: str) -> tuple[Row, ...]:
    """Return the rows of a PowerShell command; a row may match by the verb alone: `Remove-ADUser`."""
    verb, dash, _ = name.partition("-")
    return of.rows.get(name) or (of.rows.get(f"{verb}-*", ()) if dash else ())


def _apart(word: str) -> str:
    """Split `--option=value` into two words."""
    return word.replace("=", " ", 1) if word[:1] == "-" else word


def _fits(expected: str, word: str) -> bool:
    return expected == word or (("/" in expected or "*" in expected) and _glob(expected).match(word) is not None)


def leading(name: str, argv: Sequence[str]) -> list[str]:
    """Return the words that are no options, without the values of the program's global options."""
    valued = GLOBAL_OPTIONS.get(name, frozenset())
    found: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif len(word) > 1 and word[0] == "-":
            skip = word in valued
        else:
            found.append(word)
    return found


def values(argv: Sequence[str], option: str) -> list[str]:
    """Return the values of an option, after `=` or as the following words."""
    found: list[str] = []
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name != option and name.lower() != option:
            continue
        if equals:
            found.append(value)
            continue
        for other in argv[at + 1 : at + 1 + _MAX_TARGETS]:
            if len(other) > 1 and other[0] == "-" and not other[1:].isdigit():
                break
            found.append(other)
    return found


def _holds(condition: str, argv: Sequence[str], text: str) -> bool:
    if condition[0] == "+":
        return True  # a preselection, checked before
    expected = condition[0] != "!"
    condition = condition.removeprefix("!")
    if condition[0] == "/":
        return (_pattern(condition[1:-1]).search(text) is not None) is expected
    option, equals, value = condition.partition("=")
    if equals:
        return any(map(_glob(value).match, values(argv, option))) is expected
    return any(word.partition("=")[0] == option for word in argv) is expected


def acts(of: Table, invocation: Invocation) -> Iterator[Destruction]:
    """Yield the effects of a program by the rows of a table; for each effect, the first matching row."""
    seen: set[ActEffect] = set()
    for row in matching(of, invocation):
        if row.effect in seen:
            continue
        seen.add(row.effect)
        verb = "_".join(_WORD.findall(row.named(invocation).lower()))[:80]
        for name in _targets(row, invocation)[:_MAX_TARGETS]:
            if row.target.startswith("path:"):
                lost = lost_path(verb, invocation, name)
                bad = Badness.SEVERE if row.severe else lost.badness
                yield replace(lost, badness=bad, effect=row.effect, reversible=row.reversible)
            else:
                severe = row.severe or (row.effect is ActEffect.DESTROYS and is_production(name))
                bad = Badness.SEVERE if severe else Badness.PLAIN
                kind = row.target.partition(":")[0] if ":" in row.target else invocation.name.lower()
                yield Destruction(verb, f"{kind}={name[:_MAX_NAME_CHARS]}", bad, row.effect, row.reversible)
        if row.severe:
            return  # what else it does matters no more


def _targets(row: Row, invocation: Invocation) -> list[str]:
    target = row.target.partition(":")[2] if "{" in row.target else row.target.rpartition(":")[2]
    if "{" in target:
        parts = [_PART.sub(lambda part: "/".join(_named(part[1], row, invocation)), one) for one in target.split("/")]
        found = ["/".join(filter(None, parts))]
    else:
        found = _named(target, row, invocation)
    return [name for name in found if name not in (STDIN, "")] or [" ".join(invocation.argv)[:_MAX_NAME_CHARS]]


def _named(target: str, row: Row, invocation: Invocation) -> list[str]:
    """Return the words that one part of a target stands for."""
    argv = invocation.argv[1:_MAX_WORDS]
    found: list[str] = []
    for expected in target.split(","):
        if expected == ".":
            found.append(invocation.path("."))
        elif expected[:1] == "'":
            found.append(expected.strip("'"))
        elif expected == "$-":
            found += [word for word in leading(invocation.name, argv) if word not in _VERBS][:_MAX_TARGETS]
        elif expected.startswith("$"):
            rest = leading(invocation.name, argv)[len(row.words) :]
            number = expected[1:]
            found += rest if number == "*" else rest[int(number) - 1 :][:1] if number != "0" else rest[-1:]
        elif expected:
            found += values(argv, expected)[:1]
        if any(found):
            break
    return list(filter(None, found))
