"""`find`: the paths that it matches, and its actions on them.

Misses: the precedence of `-o`, `-prune`, and all tests other than names: with one of those the result is
"something below", never "all of it".
"""

from itertools import islice

from haltline.detectors.commands.rows import words_of
from haltline.detectors.commands.shell.invocation import Invocation

_NAME_TESTS = frozenset(("-name", "-iname"))
_PATH_TESTS = frozenset(("-path", "-ipath", "-wholename", "-iwholename"))
_NOT_NARROWING = words_of("words of find that narrow nothing")
_MAX_RESULTS = 256
_COMMANDS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_NEGATIONS = frozenset(("!", "-not"))


def _parts(invocation: Invocation) -> tuple[list[str], list[str]]:
    """Return the starting points and the expression."""
    words = list(invocation.argv[1:])
    while words and (words[0] in ("-H", "-L", "-P") or words[0].startswith("-O")):
        words.pop(0)
    at = next((i for i, word in enumerate(words) if word.startswith("-") or word in ("(", "!")), len(words))
    return words[:at] or ["."], words[at:]


def find_deletes(invocation: Invocation) -> bool:
    """Return whether `-delete` is in the expression itself, not in a command of `-exec`."""
    return any(word == "-delete" for word in _without_commands(_parts(invocation)[1]))


def find_results(invocation: Invocation) -> tuple[str, ...]:
    """Return the matched paths as written, with `**` for any depth.

    `root/**`: everything there; `root/**/NAME`: the matches of the name test; `root/**/?*`: an unknown part of it.
    """
    roots, expression = _parts(invocation)
    words = _without_commands(expression)
    patterns: list[str] = []
    narrowed = False
    for at, word in enumerate(words):
        negated = at > 0 and words[at - 1] in _NEGATIONS
        value = words[at + 1] if at + 1 < len(words) else "*"
        if word in _NAME_TESTS and not negated:
            patterns.append(value)
        elif word in _PATH_TESTS and not negated:
            patterns.append(value.removeprefix("./").removeprefix("*/") or "*")
        elif word.startswith("-") and word not in _NOT_NARROWING and not negated:
            narrowed = narrowed or word not in _NAME_TESTS | _PATH_TESTS | _NEGATIONS
    patterns = [pattern for pattern in patterns if pattern.strip("*")]
    tails = patterns or (["?*"] if narrowed else [""])
    each = (f"{root}/**/{tail}".rstrip("/") for root in roots for tail in tails)
    return tuple(islice(each, _MAX_RESULTS))


def find_commands(invocation: Invocation) -> list[tuple[str, ...]]:
    """Return the commands of `-exec` and similar actions, with their `{}`."""
    found: list[tuple[str, ...]] = []
    words = _parts(invocation)[1]
    at = 0
    while at < len(words):
        if words[at] in _COMMANDS:
            end = _command_end(words, at)
            found.append(tuple(words[at + 1 : end]))
            at = end
        at += 1
    return found


def _without_commands(words: list[str]) -> list[str]:
    kept: list[str] = []
    at = 0
    while at < len(words):
        kept.append(words[at])
        at = _command_end(words, at) + 1 if words[at] in _COMMANDS else at + 1
    return kept


def _command_end(words: list[str], at: int) -> int:
    """Return the index of the `;` or `{} +` that ends a command, or the number of words."""
    for end in range(at + 1, len(words)):
        if words[end] == ";" or (words[end] == "+" and words[end - 1] == "{}"):
            return end
    return len(words)
