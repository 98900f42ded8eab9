"""What a command line creates, to distinguish the session's own objects from existing assets.

Targets have the format of `destructions`. A target that existed before may count (`> file`, `cp a b`): a session that
overwrites a file has created its current content, and a log that its program appends to (`>> run.log`) is its own.
Appending to anything else, `mkdir -p` and `touch` with an absolute path, and CREATE ... IF NOT EXISTS create nothing.

Misses: files that programs write by themselves (`tar x`, `patch`, `unzip`; see `code_creations`), results of a build,
names that the program chooses (`mktemp`), uploaded objects, what clouds and clusters make (see
`opposites`); commands whose name is quoted or concatenated.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.files import redirections
from haltline.detectors.commands.model import MADE_AGAIN, MAX_COMMAND_CHARS, MAX_FOUND, OPENED, cached_by_text
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.prefilter import words, written_files
from haltline.detectors.commands.programs import databases
from haltline.detectors.commands.rows import rows_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.sql import sql_creations
from haltline.detectors.commands.surroundings import placed_in
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[str]]

_MADE = rows.table("\n".join(f"destroys{'~' * (line[0] == '~')} | {line.lstrip('~')}" for line in rows_of("creations")))
"""Of these rows only the target counts."""

_WRITES = re.compile(r">(?<!2>)(?!&|[ \t]*/dev/null)")
_WRITING = frozenset((">", ">|", "&>"))
_LOG = re.compile(r"\.(?:log|out|err)$")


def may_create(command: str) -> bool:
    """Return False if a command line creates nothing, True if it has to be parsed."""
    return ">" in command or _may(words(command))


def _may(words_: list[bytes]) -> bool:
    return not _READ_HERE.isdisjoint(words_) or _MADE.may_match(words_)


@cached_by_text
def creations(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return the canonical targets (`path=a/b`, `branch=x`, `table=t`) that a shell command line creates, each once.

    What is not on this computer is told with where it is (see `Destruction.placed`).

    `cwd` is the one passed to `destructions`. Never raises.
    """
    files, text = written_files(command[:MAX_COMMAND_CHARS])
    found = dict.fromkeys(f"path={canonical(file, cwd)}" for file in files)
    if not _may(words(text)) and _WRITES.search(text) is None:
        return tuple(found)
    for invocation in invocations(text, cwd=cwd):
        found.update((placed_in(target, invocation), None) for target in _redirected(invocation))
        reader = _TOOLS.get(invocation.name)
        if reader is not None:
            found.update((placed_in(target, invocation), None) for target in reader(invocation))
        found.update((placed_in(target, invocation), None) for target in _by_rows(invocation))
        if len(found) >= MAX_FOUND:
            break
    return tuple(found)[:MAX_FOUND]


def _redirected(invocation: Invocation) -> Iterator[str]:
    emptied = {lost.target for lost in redirections(invocation) if lost.verb != OPENED}
    for operator, target in invocation.writes:
        created = f"path={invocation.path(target)}"
        writes = operator in _WRITING and not target.startswith("/dev/") and created not in emptied
        if writes or _is_log(operator == ">>", target):
            yield created


def _is_log(appends: bool, target: str) -> bool:
    return appends and not target.startswith(("/", "~")) and _LOG.search(target) is not None


def _by_rows(invocation: Invocation) -> Iterator[str]:
    invocation = rows.without_interpreter(_MADE, invocation)
    for row in rows.matching(_MADE, invocation):
        for made in rows.named_by(row, invocation):
            kind, _, name = made.target.partition("=")
            path = invocation.path(name) if kind == "relative" else ""
            if not made.target.startswith("path=/dev/") and not path.startswith(("/", "~")):
                yield f"path={path}" if path else f"{MADE_AGAIN * (row.mark == '~')}{made.target}"


def _copy(invocation: Invocation) -> Iterator[str]:
    """The destination, and the same names below it, since it may be a directory."""
    options = invocation.options("-t --target-directory -m -o -g -S -e")
    into = options.value("-t", "--target-directory")
    sources = options.operands if into else options.operands[:-1]
    destination = into or (options.operands[-1] if len(options.operands) > 1 else None)
    if destination is None or destination.startswith("/dev/") or ":" in destination or "/dev/null" in sources:
        return
    if len(sources) == 1 and not into and not destination.endswith("/"):
        yield f"path={invocation.path(destination)}"
    if destination.endswith("/") or len(sources) > 1 or into or destination in (".", ".."):
        for source in sources:
            yield f"path={invocation.path(destination + '/' + source.rstrip('/').rpartition('/')[2])}"


def _sql(invocation: Invocation) -> Iterator[str]:
    client = databases.CLIENTS[invocation.name]
    options = parse(invocation.argv[1:], client.value_options | {*client.sql_options})
    for text in (*options.values(*client.sql_options), *options.operands, invocation.stdin or ""):
        if "create" in text.lower():
            yield from sql_creations(text)


_TOOLS: Mapping[str, Reader] = {
    **dict.fromkeys(("cp", "mv", "install", "ln", "scp"), _copy),
    **dict.fromkeys(databases.CLIENTS, _sql),
}
_READ_HERE = frozenset(name.encode() for name in _TOOLS)
