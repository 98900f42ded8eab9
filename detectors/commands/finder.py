"""`find`: which paths it comes upon, and what it does to them.

Misses: the precedence of `-o`, `-prune`, and every test that is not about names: with one of those the result is
"something below", never "all of it".
"""

from itertools import islice

from haltline.detectors.commands.invocation import Invocation

_NAME_TESTS = frozenset(("-name", "-iname"))
_PATH_TESTS = frozenset(("-path", "-ipath", "-wholename", "-iwholename"))
_NOT_NARROWING = frozenset((
    "-type", "-mindepth", "-maxdepth", "-depth", "-d", "-print", "-print0", "-delete", "-xdev", "-mount", "-o", "-or",
    "-a", "-and", "-follow", "-ls", "-warn", "-nowarn", "-noleaf", "-exec", "-execdir", "-ok", "-okdir",
))  # fmt: skip
_MAX_RESULTS = 256
_COMMANDS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_NEGATIONS = frozenset(("!", "-not"))


def _parts(invocation: Invocation) -> tuple[list[str], list[str]]:
    """The places where it looks, and its expression."""
    words = list(invocation.argv[1:])
    while words and (words[0] in ("-H", "-L", "-P") or words[0].startswith("-O")):
        words.pop(0)
    at = next((i for i, word in enumerate(words) if word.startswith("-") or word in ("(", "!")), len(words))
    return words[:at] or ["."], words[at:]


def find_deletes(invocation: Invocation) -> bool:
    """Whether `-delete` is in the expression itself, not in a command that it runs."""
    return any(word == "-delete" for word in _without_commands(_parts(invocation)[1]))


def find_results(invocation: Invocation) -> tuple[str, ...]:
    """Paths as they were written, with `**` for any depth.

    `root/**`: all that is there; `root/**/NAME`: what the name test lets through; `root/**/?*`: some of it.
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
    """The commands of `-exec` and the like, with `{}` still in them."""
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
    """Where the `;` or `{} +` of the command at this place is, or the end."""
    for end in range(at + 1, len(words)):
        if words[end] == ";" or (words[end] == "+" and words[end - 1] == "{}"):
            return end
    return len(words)
