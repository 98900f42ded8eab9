r"""Commands of PowerShell and cmd that take files away, or run others, by whatever case they are written in.

Misses: variables of cmd (`%X%`), pipelines of objects other than `Get-ChildItem | Remove-Item`, paths with blanks that
are not in quotes; a backslash is read as a shell of Unix does, so `C:\data` is `C:data` in targets.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.files import lost_path
from haltline.detectors.commands.invocation import Invocation
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.sql import sql_destructions

Reader = Callable[[Invocation], Iterator[Destruction]]

_RECURSIVE = frozenset(("-r", "-recurse", "-rec", "/s"))
_VALUED = frozenset(("-include", "-exclude", "-filter", "-credential", "-value", "-encoding"))
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


def _remove(verb: str) -> Reader:
    def read(invocation: Invocation) -> Iterator[Destruction]:
        names, options = _operands(invocation)
        if "-whatif" in options:
            return
        upstream = invocation.upstream
        if not names and upstream is not None and upstream.name.lower() in _LISTS:
            names = [f"{name}/*" for name in _operands(upstream)[0]]
        for name in names:
            yield lost_path(verb, invocation, name, everything=not _RECURSIVE.isdisjoint(options))

    return read


def _request(invocation: Invocation) -> Iterator[Destruction]:
    words = [word.lower() for word in invocation.argv]
    if "-method" in words and words[words.index("-method") + 1 :][:1] == ["delete"]:
        for word in invocation.argv[1:]:
            if "://" in word:
                yield Destruction("http_delete", f"url={word}", Badness.PLAIN)


def _set_content(invocation: Invocation) -> Iterator[Destruction]:
    words = [word.lower() for word in invocation.argv]
    if "-value" in words and words[words.index("-value") + 1 :][:1] in (["$null"], [""], []):
        for name in _operands(invocation)[0]:
            yield lost_path("set_content", invocation, name, everything=False)


def _sqlcmd(invocation: Invocation) -> Iterator[Destruction]:
    words = invocation.argv
    for at, word in enumerate(words[:-1]):
        if word.lower() in ("-query", "-q"):
            yield from sql_destructions(words[at + 1])


TOOLS: Mapping[str, Reader] = {
    **dict.fromkeys(("set-content", "sc"), _set_content),
    "invoke-sqlcmd": _sqlcmd,
    **dict.fromkeys(("remove-item", "ri", "del", "erase", "rd"), _remove("remove_item")),
    **dict.fromkeys(("clear-content", "clc", "clear-item"), _remove("clear_content")),
    **dict.fromkeys(("invoke-restmethod", "invoke-webrequest", "irm", "iwr"), _request),
    "format-volume": _remove("format_volume"),
}
