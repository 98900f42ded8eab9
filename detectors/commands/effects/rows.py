"""Rows of the tables of programs: their syntax, and matching them with a program.

A line is `effect verb | program and words | conditions | target`; a `#` begins a comment. `effect~` is reversible;
`effect!` is SEVERE, `effect^` is if an argument or a variable names production, `effect-` is SCRATCH. The verb names
the act; without one it is the program with its words.

- Words are the first non-option words after the program's name. `*` matches part of a word, `**` up to four of them,
  `a/b` either word. Which options have a value is in `options.txt`.
- All conditions must hold. The text of the arguments ends with the input, as `< file`. `+word/other` (a preselection:
  lines without any of these are not parsed), `--force` (present), `!--dry-run` (absent), `--acl=public*` (has such a
  value, with `=` or as the next word), `/regex/` and `!/regex/` over all arguments, ignoring case, `$1=/regex/` over
  a part of them, as targets name it.
- Target: `--name,-n` (values of options), `$1` (an operand after the words, `$0` the last), `$*` (each of them), `$2*`
  (each from the second on), `.` (the working directory), `@--name` (a path), `/regex/` (its first group, each time),
  `'this'` (itself), `<` (what is piped in). The default is the command line. `user:$1` is of kind `user`; of the kinds
  `path`, `tree` (with all below), `disk` (devices, else a path), `ref` (a branch that others have), `controlled` (what
  a cluster makes again), `object` and `objects` (URLs of stores; with all below) and `bucket` the name is read as such;
  `words` is the kind that the words but the last say.
- `kms:{--keyring}/{$1}` is one target of several parts, of which missing ones are left out, and one for each operand
  with `{$*}`; `{$-}` is every operand but the verb, `{words}` the words but the last, `{ids}` what options that end in
  `-id`, `-name`, `-arn` and the like name, `{resources}` each `kind/name` of kubectl's operands, `{kinds}` the kinds.

Misses: abbreviated options; values of options that are not in `options.txt`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cache
from itertools import chain, islice, product

from msgspec.structs import replace as replaced

from haltline.detectors.commands.effects import kubernetes
from haltline.detectors.commands.files import is_disk, lost_path
from haltline.detectors.commands.model import ActEffect, Badness, Destruction, listed
from haltline.detectors.commands.names import is_agents_branch, is_main_branch, is_production, is_throwaway
from haltline.detectors.commands.rows import cells, expression_of
from haltline.detectors.commands.shell import pipes
from haltline.detectors.commands.shell.invocation import STDIN, Invocation
from haltline.detectors.commands.shell.options import leading
from haltline.detectors.commands.shell.wrappers import SYNONYMS, VERSIONED
from haltline.schemas import expressions as re

ANY = "*"
"""Matches every program."""
_DRY = frozenset(listed("--dry-run --dryrun --dry_run -whatif --what-if --simulate --preview-only --plan"))
_WORD = re.compile(r"[a-z0-9_]+")
_PART_OF_A_WORD = re.compile(r"(?<!\w)\w*\*[\w*]*")
_ALSO: Mapping[str, tuple[str, ...]] = {
    program: tuple(name for name, path in SYNONYMS.items() if path[0] == program)
    for program in {path[0] for path in SYNONYMS.values()}
}
"""The other names of each program."""
_PART = re.compile(r"([/@]?)\{([^{}\d][^{}]*)\}")
_MARKS = {"": None, "~": None, "^": None, "^~": None, "!": Badness.SEVERE, "-": Badness.SCRATCH}
_IDS = expression_of("an option identifies a target")
_ONE_TEXT = frozenset(("$-", "words"))
"""Parts of a target that are one text."""
_PRELIMINARY = frozenset(("alpha", "beta"))
_BUCKET = re.compile(r"\A[a-z0-9]+://([^/]+)(?:/(.*))?", re.DOTALL)
_ALL_OBJECTS = frozenset(("", "*", "**"))
_DEEP = 4
_INTERPRETERS = frozenset(("python", "php", "ruby", "node"))
"""Programs whose first argument may be a program with rows."""
_VERBS = frozenset(listed("delete remove rm purge archive destroy unset del"))
_REPEATED = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.)(?:([*+])(?![+?]))?")
_MOST_OF_ONE, _MOST_OF_ANY = 256, 1024
"""The repetitions of `\\S*` and the like, and of `.*`."""
_MAX_TARGETS = 32
_MAX_WORDS = 4096
_MAX_NAME_CHARS = 240
_MAX_TEXT_CHARS = 16 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    effect: ActEffect
    mark: str
    """One of `_MARKS`."""
    verb: str
    program: str
    words: tuple[str, ...]
    conditions: tuple[str, ...]
    kind: str
    """The kind of its targets; empty: the program's name."""
    target: str
    source: str
    """The source line."""
    first: frozenset[str] | None
    """The allowed first words, if they are listed."""

    def named(self, invocation: Invocation) -> str:
        """Return the program with the matching words: `aws s3api put-bucket-acl`."""
        if self.program == ANY:
            return invocation.name
        operands = leading(invocation.name, invocation.argv[1:])
        return " ".join((invocation.name, *operands[: _length(operands, self.words)]))


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a text, by program."""

    rows: Mapping[str, tuple[Row, ...]]
    needs: Mapping[bytes, frozenset[frozenset[bytes]]]
    """Groups of words by the first word of a program's name: a command line needs all words of one group."""
    alone: frozenset[bytes]
    """Words of which one is enough, among them those of rows for every program."""

    def may_match(self, words: Sequence[bytes], watched: Collection[bytes] = ()) -> bool:
        """Return whether the words of a command line may match a row; no false negatives. `watched`: known ones."""
        if not self.alone.isdisjoint(watched or words):
            return True
        for name in watched or words:
            for group in self.needs.get(name, ()):
                if group.issubset(words):
                    return True
        return False


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
        found = cells(line)
        if len(found) not in (2, 3, 4):
            raise ValueError(f"expected `effect | program and words | conditions | target`, got {line!r}")
        act, called, conditions, target = (*found, "", "")[:4]
        effect, _, verb = act.partition(" ")
        kind, colon, named = target.partition(":")
        if not colon or not kind.isidentifier():
            kind, named = "", target
        mark = effect[len(effect.rstrip("~!^-")) :]
        if effect.removesuffix(mark) not in set(ActEffect) or mark not in _MARKS:
            raise ValueError(f"expected one of {', '.join(ActEffect)}, got {effect!r} in {line!r}")
        names, *words = called.split()
        for name in names.split(","):
            row = Row(
                ActEffect(effect.removesuffix(mark)),
                mark,
                verb,
                name,
                tuple(words),
                tuple(conditions.split()),
                kind,
                named,
                line,
                frozenset(words[0].split("/")) if words and "*" not in words[0] else None,
            )
            rows.setdefault(name, []).append(row)
            if name == ANY:
                anywhere.update(word.encode() for word in words)
                continue
            versions = (f"{name}2", f"{name}3") if name in VERSIONED else ()
            for known in (name, *versions, *_ALSO.get(name, ())):
                first = _pieces(known)[0]
                needs.setdefault(first, set()).update(group - {first} for group in _groups(known, row))
    return Table(
        {name: tuple(listed) for name, listed in rows.items()},
        {name: frozenset(groups) for name, groups in needs.items()},
        frozenset(name for name, groups in needs.items() if frozenset() in groups) | anywhere,
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
def pattern(text: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Compile an expression of a row, whose repetitions of one character are bounded, so that its time is linear."""
    return re.compile(_REPEATED.sub(_bounded, text), flags)


def _bounded(found: re.Match[str]) -> str:
    one, least = found[1], {"*": 0, "+": 1}.get(found[2] or "")
    return found[0] if least is None else f"{one}{{{least},{_MOST_OF_ANY if one == '.' else _MOST_OF_ONE}}}"


@cache
def _glob(text: str) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, text.split("/"))), re.IGNORECASE)


def matching(of: Table, invocation: Invocation) -> Iterator[Row]:
    """Yield the rows that match a program; none for a dry run."""
    return _matching(of, without_interpreter(of, invocation))


def _matching(of: Table, invocation: Invocation) -> Iterator[Row]:
    name, argv = invocation.name, invocation.argv[1:_MAX_WORDS]
    rows = of.rows.get(name) or _of_family(of, name.lower())
    if rows:
        operands = leading(name, argv)
        first = operands[0] if operands else ""
        rows = tuple(
            row
            for row in rows
            if not row.words or ((row.first is None or first in row.first) and _length(operands, row.words))
        )
    options = [word for word in argv if word[:2] == "--"]
    if options:
        rows += tuple(row for row in of.rows.get(ANY, ()) if any(word in one for word in row.words for one in options))
    if not rows or is_dry(argv):
        return
    text = _text(invocation)
    for row in rows:
        if all(_holds(condition, argv, text, row, invocation) for condition in row.conditions):
            yield row


def _text(invocation: Invocation) -> str:
    upstream = invocation.upstream
    source = f"< {invocation.reads}" if invocation.reads else f"< {' '.join(upstream.argv)}" if upstream else ""
    words = map(_apart, invocation.argv[1:_MAX_WORDS])
    return " ".join(filter(None, (*words, source, invocation.stdin)))[:_MAX_TEXT_CHARS] or " "


def without_interpreter(of: Table, invocation: Invocation) -> Invocation:
    """Return `php artisan x` as `artisan x`."""
    argv = invocation.argv
    if len(argv) > 1 and argv[0] in _INTERPRETERS and argv[1].rpartition("/")[2] in of.rows:
        return replaced(invocation, argv=argv[1:])
    return invocation


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
    return all(_holds(condition, argv, text, row) for condition in row.conditions)


def _length(operands: Sequence[str], words: Sequence[str]) -> int:
    """Return the number of operands that the words match; 0 if they do not."""
    if words[:1] != ("**",):
        return len(words) if len(operands) >= len(words) and all(map(_fits, words, operands)) else 0
    for at in range(_DEEP + 1):
        length = _length(operands[at:], words[1:])
        if length:
            return at + length
    return 0


def _of_family(of: Table, name: str) -> tuple[Row, ...]:
    """Return the rows of a command in lower case, or of all with its beginning: `remove-aduser`, `mkfs.ext4`."""
    rows = of.rows.get(name, ())
    for mark in "-.":
        if not rows and mark in name:
            rows = of.rows.get(f"{name.partition(mark)[0]}{mark}*", ())
    return rows


def _apart(word: str) -> str:
    """Split `--option=value` into two words."""
    return word.replace("=", " ", 1) if word[:1] == "-" else word


def _fits(expected: str, word: str) -> bool:
    return expected == word or (("/" in expected or "*" in expected) and _glob(expected).match(word) is not None)


def values(argv: Sequence[str], option: str) -> list[list[str]]:
    """Return the values of an option each time that it is given, after `=` or as the following words."""
    found: list[list[str]] = []
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name != option and name.lower() != option:
            continue
        found.append([value] if equals else [])
        for other in () if equals else argv[at + 1 : at + 1 + _MAX_TARGETS]:
            if len(other) > 1 and other[0] == "-" and not other[1:].isdigit():
                break
            found[-1].append(other)
    return found


def _holds(condition: str, argv: Sequence[str], text: str, row: Row, invocation: Invocation | None = None) -> bool:
    if condition[0] == "+":
        return True  # a preselection, checked before
    expected = condition[0] != "!"
    condition = condition.removeprefix("!")
    if condition[0] == "/":
        return (pattern(condition[1:-1]).search(text) is not None) is expected
    option, equals, value = condition.partition("=")
    if value[:1] == "/" and invocation is not None:
        return any(map(pattern(value[1:-1]).search, _named(option, row, invocation))) is expected
    if equals:
        return any(map(_glob(value).match, chain.from_iterable(values(argv, option)))) is expected
    return any(word.partition("=")[0] == option for word in argv) is expected


def acts(of: Table, invocation: Invocation) -> Iterator[Destruction]:
    """Yield the effects of a program by the rows of a table; for each effect, the first matching row."""
    seen: set[ActEffect] = set()
    invocation = without_interpreter(of, invocation)
    for row in _matching(of, invocation):
        if row.effect in seen:
            continue
        seen.add(row.effect)
        verb = row.verb or "_".join(_WORD.findall(row.named(invocation).lower()))[:80]
        for name in _targets(row, invocation)[:_MAX_TARGETS]:
            lost = _lost(row, verb, name, invocation)
            mark = _MARKS[row.mark]
            if "^" in row.mark and is_production(*invocation.argv[1:_MAX_WORDS], *invocation.assigned):
                mark = Badness.SEVERE
            bad = lost.badness if mark is None else mark
            yield replace(lost, badness=bad, effect=row.effect, reversible="~" in row.mark)
        if row.mark == "!":
            return  # what else it does matters no more


def named_by(row: Row, invocation: Invocation) -> Iterator[Destruction]:
    """Yield what a row names of a program that it matches, whatever it does with it."""
    for name in _names(row, invocation)[:_MAX_TARGETS]:
        yield _lost(row, "", name, invocation)


def _lost(row: Row, verb: str, name: str, invocation: Invocation) -> Destruction:
    """Return the loss of what is called so, with the badness that its name shows."""
    kind = row.kind or invocation.name.lower()
    if kind == "words":
        kind = "/".join(_named("words", row, invocation))
    if kind in _PATHS:
        return lost_path(verb, invocation, name, everything=kind == "tree")
    if kind in ("object", "objects"):
        return _object(verb, name, everything=kind == "objects")
    if kind == "controlled":
        return Destruction(verb, f"k8s={name}", Badness.PLAIN)
    if kind == "ref":
        branch = name.removeprefix("refs/heads/")
        return Destruction(verb, f"branch={branch}", Badness.SEVERE if is_main_branch(branch) else Badness.PLAIN)
    if kind == "branch" and (is_throwaway(name) or is_agents_branch(name)):
        return Destruction(verb, f"branch={name}", Badness.SCRATCH)
    url = _BUCKET.fullmatch(name) if kind == "bucket" else None
    severe = row.effect is ActEffect.DESTROYS and kind not in _OF_A_FOLDER and is_production(name)
    named = name if url is None else url[1]
    return Destruction(verb, f"{kind}={named[:_MAX_NAME_CHARS]}", Badness.SEVERE if severe else Badness.PLAIN)


_PATHS = frozenset(("path", "tree", "disk"))
_OF_A_FOLDER = frozenset(("worktree", "history", "stash", "tag"))


def _object(verb: str, place: str, *, everything: bool) -> Destruction:
    """Return the loss of `s3://bucket/key`; of a whole bucket if everything is removed and there is no key.

    `remote:bucket/key` and `alias/bucket/key` are the same in a store of that name.
    """
    parts = place.replace(":", "/", 1).strip("/").split("/")
    found = _BUCKET.fullmatch(place if "://" in place else f"store://{':'.join(parts[:2])}/{'/'.join(parts[2:])}")
    bucket, key = (found[1], found[2] or "") if found is not None else ("", place)
    if key in _ALL_OBJECTS and (everything or key):
        return Destruction(verb, f"bucket={bucket}", Badness.SEVERE)
    severe = everything and is_production(bucket, key)
    return Destruction(verb, f"object={place}", Badness.SEVERE if severe else Badness.PLAIN)


def _names(row: Row, invocation: Invocation) -> list[str]:
    named = (_composed if _PART.search(row.target) else _named)(row.target, row, invocation)
    return [name for name in named if name not in (STDIN, "")]


def _targets(row: Row, invocation: Invocation) -> list[str]:
    found = _names(row, invocation)
    if row.kind == "disk":
        disks = [name for name in found if is_disk(invocation.path(name))]
        return disks or [name for name in found[-1:] if "/" in name or "." in name]
    return found or ([] if row.kind in _PATHS else [" ".join(invocation.argv)[:_MAX_NAME_CHARS]])


def _composed(target: str, row: Row, invocation: Invocation) -> list[str]:
    """Return the targets of several parts, one for each value of a part with several."""
    choices: list[list[str]] = []
    at = 0
    for part in _PART.finditer(target):
        found = _named(part[2], row, invocation)
        one = ["/".join(found)] if part[2] in _ONE_TEXT else found
        choices += ([target[at : part.start()]], [part[1] + name for name in filter(None, one)] or [""])
        at = part.end()
    return ["".join(one).removeprefix("/") + target[at:] for one in islice(product(*choices), _MAX_TARGETS)]


def _named(target: str, row: Row, invocation: Invocation) -> list[str]:
    """Return the words that one part of a target stands for."""
    argv = invocation.argv[1:_MAX_WORDS]
    found: list[str] = []
    for expected in target.split(","):
        if expected[:1] == expected[-1:] == "/":
            found += pattern(expected[1:-1]).findall(_text(invocation))
        elif expected == ".":
            found.append(invocation.path("."))
        elif expected[:1] == "'":
            found.append(expected.strip("'"))
        elif expected in ("kinds", "resources"):
            found += kubernetes.named(expected, leading(invocation.name, argv)[1:])
        elif expected == "<":
            found += pipes.items(invocation.upstream, None)
        elif expected == "ids":
            names = dict.fromkeys(word.partition("=")[0] for word in argv if word[:2] == "--")
            several = [list(chain(*values(argv, name))) for name in names if _IDS.fullmatch(name)]
            found += ["/".join(one) for one in islice(product(*several), _MAX_TARGETS)] if several else ["?"]
        elif expected[:1] == "$" or expected == "words":
            found += _operands(expected, row, leading(invocation.name, argv))
        elif expected[:1] == "@":
            found += [invocation.path(name) for name in _first_of(argv, expected[1:])]
        elif expected:
            found += _first_of(argv, expected)
        if any(found):
            break
    return list(filter(None, found))


def _first_of(argv: Sequence[str], option: str) -> list[str]:
    return [given[0] for given in values(argv, option) if given]


def _operands(expected: str, row: Row, operands: list[str]) -> list[str]:
    """Return what `$1`, `$0`, `$*`, `$2*`, `$-` or `words` stand for."""
    length = _length(operands, row.words)
    rest, number = operands[length:], expected[1:].removesuffix("*")
    if expected == "words":
        return [word for word in operands[: length - 1] if word not in _PRELIMINARY]
    if number == "-":
        return [word for word in operands if word not in _VERBS][:_MAX_TARGETS]
    if expected.endswith("*"):
        return rest[int(number or 1) - 1 :]
    return rest[int(number) - 1 :][:1] if number != "0" else rest[-1:]
