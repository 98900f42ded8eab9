"""Options and operands of a command line, in GNU or Go style.

Misses: abbreviations of long options (`--recurs`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field


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
