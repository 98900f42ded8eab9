r"""Commands of PowerShell and cmd that delete files or run other commands, in any case.

Misses: variables of cmd (`%X%`), pipelines of objects except those that begin with `Get-ChildItem`, unquoted paths with
blanks; a backslash in a relative path is read as in a Unix shell, except within `cmd /c` and `pwsh -c`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from haltline.detectors.commands import files
from haltline.detectors.commands.files import lost_path
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.sql import sql_destructions
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[Destruction]]

_RECURSIVE = frozenset(("-r", "-recurse", "-rec", "/s"))
_VALUED = frozenset(("-include", "-exclude", "-filter", "-credential", "-value", "-encoding"))
_TEMPORARY = re.compile(
    r"\$env:te?mp|%te?mp%|(?:^|[\\/:]|windows|appdatalocal)te?mp(?:[\\/]|$)|windowstemp|recycle|trash", re.IGNORECASE
)
_LISTS = frozenset(("get-childitem", "gci", "dir", "ls", "get-item", "gi"))


def _operands(invocation: Invocation) -> tuple[list[str], frozenset[str]]:
    words = list(invocation.argv[1:])
    found: list[str] = []
    options: set[str] = set()
    while words:
        word = words.pop(0)
        if word[:1] == "-" and len(word) > 1:
            options.add(word.lower())
            if word.lower() in _VALUED and words:
                words.pop(0)
        elif word[:1] == "/" and len(word) <= 3 and word.count("/") == 1:
            options.add(word.lower())
        else:
            found += [part for part in word.split(",") if part]
    return found, frozenset(options)


def _listed(invocation: Invocation) -> list[str]:
    """Return the paths that `Get-ChildItem X | ...` passes on."""
    upstream = invocation.upstream
    if upstream is None or upstream.name.lower() not in _LISTS:
        return []
    return [f"{name}/*" for name in _operands(upstream)[0]]


def _remove(verb: str) -> Reader:
    def read(invocation: Invocation) -> Iterator[Destruction]:
        names, options = _operands(invocation)
        if "-whatif" in options:
            return
        for name in names or _listed(invocation):
            yield lost_path(verb, invocation, name, everything=not _RECURSIVE.isdisjoint(options))

    return read


def _rmdir(invocation: Invocation) -> Iterator[Destruction]:
    """That of cmd (`/s`, `/q`), or that of Unix."""
    of_cmd = any(word.lower() in ("/s", "/q") for word in invocation.argv[1:])
    return (_remove("rmdir") if of_cmd else files.TOOLS["rmdir"])(invocation)


def _request(invocation: Invocation) -> Iterator[Destruction]:
    words = [word.lower() for word in invocation.argv]
    if "-method" in words and words[words.index("-method") + 1 :][:1] == ["delete"]:
        for word in invocation.argv[1:]:
            if "://" in word:
                yield Destruction("http_delete", f"url={word}", Badness.PLAIN)


def _set_content(invocation: Invocation) -> Iterator[Destruction]:
    words = [word.lower() for word in invocation.argv]
    names = _operands(invocation)[0]
    by_option = "-value" in words and words[words.index("-value") + 1 :][:1] in (["$null"], [""], [])
    if by_option or names[1:] in (["$null"], [""]) or (len(words) > 2 and words[2] == ""):
        for name in names[:1]:
            yield lost_path("set_content", invocation, name, everything=False)


def _out_file(invocation: Invocation) -> Iterator[Destruction]:
    """`'' | Out-File X`, `New-Item -Force X`, which empty an existing file."""
    names, options = _operands(invocation)
    makes = invocation.name.lower() in ("new-item", "ni")
    blank = invocation.upstream is not None and not "".join(invocation.upstream.argv).strip("'\"$nul")
    if (makes and "-force" in options and "directory" not in {n.lower() for n in names}) or (not makes and blank):
        for name in names:
            if name.lower() not in ("file", "directory"):
                yield lost_path("clear_content", invocation, name)


def _move(invocation: Invocation) -> Iterator[Destruction]:
    names, options = _operands(invocation)
    by_option = [to for word, to in pairwise(invocation.argv) if word.lower() == "-destination"]
    into = by_option[0] if by_option else names[-1] if names else ""
    if _TEMPORARY.search(into) is None or "-whatif" in options:
        return
    sources = [name for name in names if name != into] or _listed(invocation)
    for name in sources:
        if _TEMPORARY.search(name) is None:
            yield replace(lost_path("move_item", invocation, name, everything=True), reversible=True)


def _copy(invocation: Invocation) -> Iterator[Destruction]:
    """`copy /y nul X`."""
    names, _ = _operands(invocation)
    if len(names) > 1 and names[0].lower() in ("nul", "$null"):
        yield lost_path("clear_content", invocation, names[-1])


def _sqlcmd(invocation: Invocation) -> Iterator[Destruction]:
    words = invocation.argv
    for at, word in enumerate(words[:-1]):
        if word.lower() in ("-query", "-q"):
            yield from sql_destructions(words[at + 1])


TOOLS: Mapping[str, Reader] = {
    **dict.fromkeys(("set-content", "sc"), _set_content),
    **dict.fromkeys(("out-file", "new-item", "ni"), _out_file),
    **dict.fromkeys(("move-item", "mi", "move"), _move),
    **dict.fromkeys(("copy", "copy-item", "xcopy"), _copy),
    "invoke-sqlcmd": _sqlcmd,
    **dict.fromkeys(("remove-item", "ri", "del", "erase", "rd"), _remove("remove_item")),
    "rmdir": _rmdir,
    **dict.fromkeys(("clear-content", "clc", "clear-item"), _remove("clear_content")),
    **dict.fromkeys(("invoke-restmethod", "invoke-webrequest", "irm", "iwr"), _request),
    "format-volume": _remove("format_volume"),
}
