"""What a command line creates, to distinguish the session's own objects from existing assets.

Targets have the format of `destructions`. A target that existed before may count (`> file`, `cp a b`): a session that
overwrites a file has created its current content, and a log that its program appends to (`>> run.log`) is its own.
Appending to anything else, `mkdir -p` and `touch` with an absolute path, and CREATE ... IF NOT EXISTS create nothing.

Misses: files that programs write by themselves (`tar x`, `patch`, `unzip`; see `code_creations`), results of a build,
names that the program chooses (`mktemp`), uploaded objects, what clouds and clusters make (see
`opposites`); commands whose name is quoted or concatenated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.files import redirections
from haltline.detectors.commands.model import MADE_AGAIN, MAX_COMMAND_CHARS, MAX_FOUND, OPENED, cached_by_text
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.prefilter import CREATES, telling_words, words, written_files
from haltline.detectors.commands.programs import databases
from haltline.detectors.commands.rows import rows_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.sql import sql_creations
from haltline.detectors.commands.surroundings import placed_in
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[str]]

_MADE = rows.table("\n".join(f"destroys | {line}" for line in rows_of("creations")))
"""Of these rows only the target counts."""

_WRITES = re.compile(r">(?<!2>)(?!&|[ \t]*/dev/null)")
_WRITING = frozenset((">", ">|", "&>"))
_LOG = re.compile(r"\.(?:log|out|err)$")
_SUFFIX_OF_COPY = re.compile(r"(?:-[nErsz]*i|--in-place=)(?P<suffix>[.~][\w.~-]*)")


def may_create(command: str) -> bool:
    """Return False if a command line creates nothing, True if it has to be parsed."""
    return ">" in command or not CREATES.isdisjoint(telling_words(command))


@cached_by_text
def creations(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return the canonical targets (`path=a/b`, `branch=x`, `table=t`) that a shell command line creates, each once.

    What is not on this computer is told with where it is (see `Destruction.placed`).

    `cwd` is the one passed to `destructions`. Never raises.
    """
    files, text = written_files(command[:MAX_COMMAND_CHARS])
    found = dict.fromkeys(f"path={canonical(file, cwd)}" for file in files)
    if CREATES.isdisjoint(words(text)) and _WRITES.search(text) is None:
        return tuple(found)
    for invocation in invocations(text, cwd=cwd):
        found.update((placed_in(target, invocation), None) for target in _redirected(invocation))
        reader = _TOOLS.get(invocation.name)
        if reader is not None:
            found.update((placed_in(target, invocation), None) for target in reader(invocation))
        found.update((placed_in(made.target, invocation), None) for made in rows.acts(_MADE, invocation))
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


def _paths(invocation: Invocation, names: Iterable[str]) -> Iterator[str]:
    return (f"path={invocation.path(name)}" for name in names)


def _mkdir(invocation: Invocation) -> Iterator[str]:
    options = invocation.options("-m --mode")
    found = _paths(invocation, options.operands)
    # `mkdir -p /data` succeeds on an existing directory; everything below would count as the session's own.
    unless_there = options.has("-p", "--parents")
    return (target for target in found if not (unless_there and target.startswith(("path=/", "path=~"))))


def _touch(invocation: Invocation) -> Iterator[str]:
    # Elsewhere, touching may only update an existing file.
    return _paths(invocation, (o for o in invocation.options("-d -t -r").operands if not o.startswith(("/", "~"))))


def _tee(invocation: Invocation) -> Iterator[str]:
    options = invocation.options()
    appends = options.has("-a", "--append")
    created = (o for o in options.operands if _is_log(appends, o) or not (appends or o.startswith("/dev/")))
    return _paths(invocation, created)


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


def _sed(invocation: Invocation) -> Iterator[str]:
    """The backup copy of a file that is edited in place."""
    words = invocation.argv[1:]
    suffix = next((found["suffix"] for word in words if (found := _SUFFIX_OF_COPY.fullmatch(word))), "")
    if suffix:
        options = parse([word for word in words if _SUFFIX_OF_COPY.fullmatch(word) is None], frozenset(("-e", "-f")))
        for operand in options.operands[not options.has("-e", "-f") :]:
            yield f"path={invocation.path(operand)}{suffix}"


def _curl(invocation: Invocation) -> Iterator[str]:
    """What a PUT makes, or changes, under the address that a DELETE would delete."""
    options = invocation.options("-X --request -o --output -X -H -d -u -b -T -t --data --json --data-binary --data-raw")
    if options.value("-X", "--request") == "PUT":
        yield from (f"{MADE_AGAIN}url={url}" for url in options.operands[:1])


def _git(invocation: Invocation) -> Iterator[str]:
    options = invocation.options("-C -c -b -B --orphan --create -o --depth")
    words = options.operands
    subcommand = words[0] if words else ""
    if subcommand == "clone" and len(words) > 1:
        name = words[2] if len(words) > 2 else words[1].rstrip("/").rpartition("/")[2].removesuffix(".git")
        yield f"path={invocation.path(name)}"
    elif subcommand == "worktree" and words[1:2] == ("add",) and len(words) > 2:
        yield f"path={invocation.path(words[2])}"
        yield from (f"branch={name}" for name in options.values("-b"))
    elif subcommand == "checkout":
        yield from (f"branch={name}" for name in options.values("-b", "-B", "--orphan") if name)
    elif subcommand == "switch":
        switched = invocation.options("-c -C --create --orphan")
        yield from (f"branch={name}" for name in switched.values("-c", "-C", "--create", "--orphan") if name)
    elif subcommand == "stash" and words[1:2] in ((), ("push",), ("save",)):
        yield "stash=stash@{0}"
    elif (
        subcommand in ("branch", "tag")
        and len(words) > 1
        and not options.has("-d", "-D", "--delete", "-m", "-M", "-r", "-a", "-l")
    ):
        yield f"{subcommand}={words[1]}"


def _sql(invocation: Invocation) -> Iterator[str]:
    client = databases.CLIENTS[invocation.name]
    options = parse(invocation.argv[1:], client.value_options | {*client.sql_options})
    for text in (*options.values(*client.sql_options), *options.operands, invocation.stdin or ""):
        if "create" in text.lower():
            yield from sql_creations(text)


def _start(invocation: Invocation) -> Iterator[str]:
    """`django-admin startproject name [directory]`, also with `manage.py` and `python -m`."""
    words = [word for word in invocation.argv[1:] if not word.startswith("-")]
    for at, word in enumerate(words[:-1]):
        if word in ("startproject", "startapp", "venv", "virtualenv"):
            yield f"path={invocation.path(words[at + 2] if at + 2 < len(words) else words[at + 1])}"
            return


_TOOLS: Mapping[str, Reader] = {
    "sed": _sed,
    "tee": _tee,
    "touch": _touch,
    "mkdir": _mkdir,
    **dict.fromkeys(("cp", "mv", "install", "ln", "scp"), _copy),
    "curl": _curl,
    "git": _git,
    **dict.fromkeys(databases.CLIENTS, _sql),
    **dict.fromkeys(("python", "django-admin", "manage.py", "uv"), _start),
}
