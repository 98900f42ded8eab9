"""Expansion of words into arguments: variables, braces, word splitting, the tilde.

A loop variable holds all its values at once, and a word that uses it becomes one argument for each.
Unknown parts keep a readable, stable form: `$NAME`, `$(...)`.

Misses: `{1..9}`, globs (left unchanged), arithmetic, `${x%/*}` and the like (unknown).
"""

from collections.abc import Callable
from itertools import product

from haltline.detectors.commands.shell.syntax import Array, Substitution, Text, Variable, Word
from haltline.schemas import expressions as re

Environment = dict[str, tuple[str, ...]]
Resolve = Callable[[Substitution], str | None]
"""Returns the output of a substitution; None if it is unknown."""

MAX_VALUE_CHARS = 4096
_MAX_EXTRA_ARGUMENTS = 1000
_MAX_BRACE_ARGUMENTS = 64
_MAX_VARIABLE_CHARS = 256 * 1024

# Stand-ins for characters that are literal because of a quote, and for blanks that split a word.
_SPECIAL = "{},~"
_PROTECT = {ord(char): chr(0xE000 + i) for i, char in enumerate(_SPECIAL)}
_RESTORE = {0xE000 + i: char for i, char in enumerate(_SPECIAL)}
_IS_SPECIAL = re.compile(f"[{_SPECIAL}]")
_SPLIT = "\ue010"
_STAND_INS = re.compile(f"[{''.join(map(chr, _RESTORE))}{_SPLIT}]")
_PROTECTED_TILDE = "\ue003"
_BRACES = re.compile(r"\{([^{},]*+,[^{}]*+)\}")
_WELL_KNOWN = {"HOME": "~", "TMPDIR": "/tmp", "RUNNER_TEMP": "/tmp", "IFS": " "}


class Expander:
    """Expands the words of one command line within one budget, which bounds the result for any text."""

    def __init__(self) -> None:
        self._extra = _MAX_EXTRA_ARGUMENTS
        self._chars = _MAX_VARIABLE_CHARS

    def arguments(self, word: Word, environment: Environment, resolve: Resolve) -> list[str]:
        """Return the arguments that one word expands to: none, one or many."""
        if len(word) == 1 and isinstance(word[0], Text):
            value = word[0].value
            if not word[0].quoted and "{" not in value:
                return [value]
            if word[0].quoted and _is_plain(value):
                return [_kept(value)]
        quoted = any(part.quoted for part in word if not isinstance(part, Array))
        found: list[str] = []
        for alternative in self._alternatives(word, environment, resolve):
            for braced in self._braces(alternative):
                pieces = [piece for piece in braced.split(_SPLIT) if piece] or ([""] if quoted else [])
                found += map(_restored, pieces)
        self._extra -= max(len(found) - 1, 0)
        return found

    def value(self, word: Word, environment: Environment, resolve: Resolve) -> tuple[str, ...]:
        """Return the values of a variable assigned from a word: unsplit; several from a loop or an array."""
        if len(word) == 1 and isinstance(word[0], Array):
            each = [self.value(element, environment, resolve) for element in word[0].words]
            return tuple(value for values in each for value in values)[: self._extra + 1]
        if len(word) == 1 and isinstance(word[0], Text) and _is_plain(word[0].value):
            return ((_kept(word[0].value) if word[0].quoted else word[0].value)[:MAX_VALUE_CHARS],)
        alternatives = self._alternatives(word, environment, resolve)
        return tuple(_restored(text.replace(_SPLIT, " "))[:MAX_VALUE_CHARS] for text in alternatives)

    def text(self, word: Word, environment: Environment, resolve: Resolve) -> str:
        """Return one word as one text: the target of a redirection, the body of a heredoc."""
        values = self.value(word, environment, resolve)
        return values[0] if values else ""

    def _alternatives(self, word: Word, environment: Environment, resolve: Resolve) -> list[str]:
        choices: list[tuple[str, ...]] = []
        count = 1
        for part in word:
            values = self._part(part, environment, resolve)
            if count * len(values) > self._extra + 1:
                values = values[: max(1, (self._extra + 1) // count)]
            count *= max(len(values), 1)
            choices.append(values)
        return ["".join(parts) for parts in product(*choices)]

    def _part(
        self, part: Text | Variable | Substitution | Array, environment: Environment, resolve: Resolve
    ) -> tuple[str, ...]:
        if isinstance(part, Text):
            protects = part.quoted and _IS_SPECIAL.search(part.value) is not None
            return (part.value.translate(_PROTECT) if protects else part.value,)
        if isinstance(part, Array):
            return ("(...)",)
        if isinstance(part, Substitution):
            output = resolve(part)
            values: tuple[str, ...] = ("$(...)",) if output is None else (output.rstrip("\n"),)
        else:
            values = _variable(part, environment)
        values = tuple(value[:MAX_VALUE_CHARS] for value in values)
        self._chars -= sum(map(len, values))
        if self._chars < 0:
            return ("$",)
        return values if part.quoted else tuple(map(_in_words, values))

    def _braces(self, text: str) -> list[str]:
        if "{" not in text:
            return [text]
        done: list[str] = []
        waiting = [text]
        while waiting:
            text = waiting.pop()
            self._chars -= len(text)
            found = _BRACES.search(text) if self._chars >= 0 else None
            if found is None or len(waiting) + len(done) >= min(_MAX_BRACE_ARGUMENTS, self._extra):
                done.append(text)
            else:
                waiting += [
                    f"{text[: found.start()]}{choice}{text[found.end() :]}"
                    for choice in reversed(found[1].split(",")[:_MAX_BRACE_ARGUMENTS])
                ]
        return done


def _in_words(value: str) -> str:
    """Mark the blanks of an unquoted value as word boundaries, including leading and trailing ones."""
    words = _SPLIT.join(value.split())
    if value[:1].isspace():
        words = _SPLIT + words
    return words + _SPLIT if value[-1:].isspace() else words


def _variable(part: Variable, environment: Environment) -> tuple[str, ...]:
    known = environment.get(part.name)
    if part.altered:
        return (f"${part.name}",)
    if known is not None:
        return known
    if part.name in _WELL_KNOWN:
        return (_WELL_KNOWN[part.name],)
    return (f"${part.name}" if part.default is None else part.default,)


def _is_plain(text: str) -> bool:
    """Return whether a text has no stand-in."""
    return text.isascii() or _STAND_INS.search(text) is None


def _restored(text: str) -> str:
    if _is_plain(text):
        return text
    if text.startswith(_PROTECTED_TILDE):
        text = "./" + text  # a quoted tilde is a file with that name, not a home directory
    return text.translate(_RESTORE)


def _kept(quoted: str) -> str:
    """Return the result of protecting and restoring a quoted text."""
    return f"./{quoted}" if quoted.startswith("~") else quoted
