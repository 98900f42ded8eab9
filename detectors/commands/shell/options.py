"""Options and operands of a command line, in GNU or Go style.

Misses: abbreviations of long options (`--recurs`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from haltline.detectors.commands.rows import cells_of

_WINDOWS = "windows"


def _read(*, but: bool) -> Iterator[tuple[str, frozenset[str]]]:
    for names, options in cells_of("options"):
        if options.startswith("all but ") is but:
            for name in names.split(","):
                yield name, frozenset(options.removeprefix("all but ").split())


OPTIONS: Mapping[str, frozenset[str]] = dict(_read(but=False))
"""Options with a value, by a program, or a program with its first word (`docker compose`)."""
_WITHOUT_VALUE: Mapping[str, frozenset[str]] = dict(_read(but=True))
"""Options without a value, of programs whose other options have one."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed arguments of a command line, without the program's name."""

    operands: tuple[str, ...] = ()
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Values by option as written, with its dashes; an option without a value has one empty string."""

    def has(self, *names: str) -> bool:
        """Return whether any of these options is present, with or without a value."""
        return any(name in self.options for name in names)

    def values(self, *names: str) -> tuple[str, ...]:
        """Return every value of these options, in the order of the names."""
        return tuple(value for name in names for value in self.options.get(name, ()))

    def value(self, *names: str) -> str | None:
        """Return the last value of the first of these options that is present."""
        for name in names:
            if name in self.options:
                return self.options[name][-1]
        return None


def parse(
    arguments: Iterable[str], takes_value: frozenset[str] = frozenset(), *, single_dash_words: bool = False
) -> Options:
    """Parse arguments.

    `takes_value` are the options whose value is the next word (or, for a short option, the rest of its
    cluster). With `single_dash_words`, `-auto-approve` is one option rather than a cluster of letters.
    """
    words = list(arguments)
    operands: list[str] = []
    found: dict[str, list[str]] = {}
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if word == "--":
            operands += words[i:]
            break
        if len(word) < 2 or word[0] != "-":
            operands.append(word)
            continue
        if word[1] == "-" or single_dash_words:
            name, equals, value = word.partition("=")
        else:
            name, value = _cluster(word, found, takes_value)
            equals = value
        if not equals and name in takes_value and i < len(words):
            value = words[i]
            i += 1
        found.setdefault(name, []).append(value)
    return Options(tuple(operands), {name: tuple(values) for name, values in found.items()})


def _cluster(word: str, found: dict[str, list[str]], takes_value: frozenset[str]) -> tuple[str, str]:
    """Parse `-rfv`; return its last option and the attached value."""
    for at in range(1, len(word) - 1):
        name = "-" + word[at]
        if name in takes_value:
            return name, word[at + 1 :]
        found.setdefault(name, []).append("")
    return "-" + word[-1], ""


def leading(name: str, argv: Sequence[str]) -> list[str]:
    """Return the words of a program that are no options, without the values of its options."""
    valued, flags = OPTIONS.get(name) or OPTIONS.get(name.lower(), frozenset()), _WITHOUT_VALUE.get(name)
    windows = _WINDOWS in valued
    found: list[str] = []
    skip = False
    for word in argv:
        if len(word) > 1 and word[0] == "-" and not (skip and flags is None):
            option = word.lower() if windows else word
            skip = option in valued if flags is None else "=" not in word and word not in flags
        elif skip:
            skip = False
        elif (windows and word[:1] == "/" and len(word) <= 3 and "/" not in word[1:]) or (
            word[:1] == "+" and "+" in valued
        ):
            continue
        else:
            found += filter(None, word.split(",")) if windows else (word,)
            if len(found) == 1:
                valued |= OPTIONS.get(f"{name} {word}", frozenset())
    return found
