"""What an action does with known files: use, analysis or replacement.

Misses: files from a pipe or a redirection; what a program does with a file that is not named.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from haltline.detectors.commands.rows import texts_of, words_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect
from haltline.schemas.policy import Reading

if TYPE_CHECKING:
    from haltline.detectors.features.files.literal import Written
    from haltline.detectors.features.observation import Observation

_READ_CHARS = 8192
_MAX_ARG_CHARS = 512
_NAMES = re.compile(r"[\w+@%-][\w.+@%-]*")

_DISSECTS = words_of("programs that take files apart")
_DUMPS = frozenset(("file", "xxd", "hexdump", "hd", "od"))
_DEBUGS = frozenset(("gdb", "r2", "radare2", "strace", "ltrace"))
_PACKS = {
    "tar": re.compile(r"\A-?[A-Za-z]*[cru]|--create|--append"),
    **dict.fromkeys(("7z", "7za", "7zr"), re.compile(r"[adu]$")),
    **dict.fromkeys(("gzip", "bzip2", "xz"), re.compile(r"\A(?!-\w*[dlt]|--(?:decompress|list|test))")),
    "xxd": re.compile(r"-r"),
}
"""By program: a first argument with which it creates a file instead of analysing one."""
_TOOL_DISSECTS = re.compile(r"disassembl|decompil|binwalk|hexdump|objdump|unzip|extract_archive", re.IGNORECASE)
_TEXT_FILE = texts_of("ends of text files")
_PROGRAM_FILE = texts_of("ends of programs")

_BY_SHELL = re.compile(r"\b(?:bash|sh|zsh)\s+(?:-\w+\s+)*([\w./~+@%-]+)")
"""A script run by a shell: when a command line is parsed, its content takes the place of its name."""
_INTERPRETS = frozenset(("python", "python2", "python3", "sage", "node", "ruby", "perl", "php"))
_USES_NOTHING = words_of("programs that use no content")
_REPLACES = frozenset(("rm", "unlink", "shred", "mv", "tee", "truncate", "patch", "wget", "zip", "make", "dd"))
_COPIES = frozenset(("cp", "install", "ln", "rsync", "scp"))
_OUTPUT = frozenset(("-o", "-O", "--output", "--output-document", "-out", "-w"))
_JOINED_OUTPUT = ("--output=", "--output-document=")
_WEIGHTY = _DISSECTS | _DUMPS | _DEBUGS | _REPLACES | _COPIES | {"sed"}
_WEIGHTY_HINTS = (">", "<<", " -o", " -O", " --out", " -w", " -c", "://")
"""Every command line that analyses or replaces a file contains one of these words or strings."""
_CODE_WRITES = (
    r"{}['\"]\s*,\s*(?:mode\s*=\s*)?['\"][wax]|(?:\.to_\w+|save\w*|dump|writeFile\w*|urlretrieve)\([^)\n]*{}"
    r"|>\s*[\w./~-]*{}"
)


class Use(IntEnum):
    """What is done with a file; a more significant use has a greater number."""

    USE = 1
    ANALYSIS = 2
    """It is analysed with tools for formats other than text."""
    MADE = 3
    """It is written, replaced or removed: its known content no longer applies."""


def program_text(act: "Observation") -> str:
    """The command line or program that an attempt runs, or the texts among its arguments."""
    if act.runs:
        return act.text[:_READ_CHARS]
    return "\n".join(v[:_READ_CHARS] for v in (act.args or {}).values() if isinstance(v, str))


def uses(
    act: "Observation", paths: Sequence[str], files: "Iterable[Written]", *, weighty: bool = False
) -> dict[str, Use]:
    """How an attempt, which writes these `files` word for word, uses each of these paths.

    `weighty`: results of USE alone are not needed and may be left out, which is often possible without parsing.
    """
    text = program_text(act)
    names = frozenset(_NAMES.findall(text))
    known = [path for path in paths if base(path) in names]
    if not known:
        return {}
    if weighty and act.runs and names.isdisjoint(_WEIGHTY) and not any(hint in text for hint in _WEIGHTY_HINTS):
        return {}
    found: dict[str, Use] = {}
    for path, use in _uses(act, known, files):
        found[path] = max(use, found.get(path, use))
    return found


def is_same(one: str, other: str) -> bool:
    """Return whether two paths can be the same file: one may be relative, or lack the home folder."""
    one, other = one.removeprefix("~/").removeprefix("./"), other.removeprefix("~/").removeprefix("./")
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def base(path: str) -> str:
    """The name of a file without its folder."""
    return path.rpartition("/")[2]


def _uses(act: "Observation", known: list[str], files: "Iterable[Written]") -> Iterator[tuple[str, Use]]:
    for file in files:
        if file.path.lower().endswith(_PROGRAM_FILE):
            yield from _by_code(file.text, [path for path in known if not is_same(path, file.path)])
    if not act.runs:
        yield from _by_tool(act, known, [file.path for file in files])
    elif act.tool.reading is Reading.SHELL:
        for invocation in invocations(act.text[:_READ_CHARS], cwd=act.cwd):
            yield from _by_program(invocation, known)
        for found in _BY_SHELL.finditer(act.text, 0, _READ_CHARS):
            yield from ((path, Use.USE) for path in known if is_same(path, found[1]))
    else:
        yield from _by_code(act.text[:_READ_CHARS], known)


def _by_tool(act: "Observation", known: list[str], now: list[str]) -> Iterator[tuple[str, Use]]:
    named = [v for v in (act.args or {}).values() if isinstance(v, str) and 0 < len(v) <= _MAX_ARG_CHARS]
    effect = act.effect
    changes = effect is Effect.WRITE or effect is Effect.MUTATE or effect is Effect.DESTRUCTIVE
    for path in known:
        if any(is_same(path, other) for other in now) or not any(is_same(path, value) for value in named):
            continue
        if changes:
            yield path, Use.MADE
        else:
            yield path, Use.ANALYSIS if _TOOL_DISSECTS.search(act.action) else Use.USE


def _by_code(code: str, known: Iterable[str]) -> Iterator[tuple[str, Use]]:
    """What program code does: it uses the files that it names, or writes those that it is seen to write."""
    names = frozenset(_NAMES.findall(code))
    for path in known:
        name = base(path)
        if name in names:
            writes = re.search(_CODE_WRITES.replace("{}", re.escape(name)), code)
            yield path, Use.MADE if writes is not None else Use.USE


def _by_program(invocation: Invocation, known: list[str]) -> Iterator[tuple[str, Use]]:
    for _, target in invocation.writes:
        yield from ((path, Use.MADE) for path in known if is_same(path, invocation.path(target)))
    name, argv = invocation.name, invocation.argv
    if name in _INTERPRETS:
        yield from _by_code("\n".join((*argv[1:], invocation.stdin or "")), known)
        return
    for path in known:
        own = base(path)
        places = [n for n, word in enumerate(argv) if own in word and is_same(path, _file(invocation, word))]
        if places:
            use = _use(name, argv, places, path)
            if use is not None:
                yield path, use


def _file(invocation: Invocation, word: str) -> str:
    if word.startswith(_JOINED_OUTPUT):
        word = word.partition("=")[2]
    if "://" in word:
        word = base(word)  # the name of a downloaded file
    return invocation.path(word) if word else word


def _use(name: str, argv: Sequence[str], places: Sequence[int], path: str) -> Use | None:
    """What a program does with the file at these positions of its arguments."""
    first, last = places[0], places[-1]
    if first == 0:
        return Use.USE
    if name in _REPLACES or argv[first - 1] in _OUTPUT or argv[first].startswith(_JOINED_OUTPUT):
        return Use.MADE
    if "://" in argv[first] or (name == "sed" and any(a.startswith(("-i", "--in-place")) for a in argv)):
        return Use.MADE
    if name in _COPIES:
        return Use.MADE if last == len(argv) - 1 else Use.USE
    packs = _PACKS.get(name)
    if packs is not None and packs.match(argv[1]):
        return Use.MADE
    is_text = path.lower().endswith(_TEXT_FILE)
    if name in _DISSECTS or (name in _DUMPS and not is_text):
        return Use.ANALYSIS
    if name in _DEBUGS and not is_text and all(word.startswith("-") for word in argv[1:first]):
        return Use.ANALYSIS
    return None if name in _USES_NOTHING else Use.USE
