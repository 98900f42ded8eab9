"""What a command line creates, to distinguish the session's own objects from existing assets.

Targets have the format of `destructions`. A target that existed before may count (`> file`, `cp a b`): a session that
overwrites a file has created its current content, and a log that its program appends to (`>> run.log`) is its own.
Appending to anything else, `mkdir -p` and `touch` with an absolute path, and CREATE ... IF NOT EXISTS create nothing.

Misses: files that programs write by themselves (`tar x`, `patch`, `unzip`; see `code_creations`), results of a build,
names that the program chooses (`mktemp`), uploaded objects; commands whose name is quoted or concatenated.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.files import redirections
from haltline.detectors.commands.model import MAX_COMMAND_CHARS, MAX_FOUND, OPENED
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.prefilter import CREATES, telling_words, words, written_files
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.sql import sql_creations

Reader = Callable[[Invocation], Iterator[str]]

_WRITES = re.compile(r">(?<!2>)(?!&|[ \t]*/dev/null)")
_WRITING = frozenset((">", ">|", "&>"))
_LOG = re.compile(r"\.(?:log|out|err)$")
_SUFFIX_OF_COPY = re.compile(r"(?:-[nErsz]*i|--in-place=)(?P<suffix>[.~][\w.~-]*)")


def may_create(command: str) -> bool:
    """Return False if a command line creates nothing, True if it has to be parsed."""
    return ">" in command or not CREATES.isdisjoint(telling_words(command))


def creations(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return the canonical targets (`path=a/b`, `branch=x`, `table=t`) that a shell command line creates, each once.

    `cwd` is the one passed to `destructions`. Never raises.
    """
    files, text = written_files(command[:MAX_COMMAND_CHARS])
    found = dict.fromkeys(f"path={canonical(file, cwd)}" for file in files)
    if CREATES.isdisjoint(words(text)) and _WRITES.search(text) is None:
        return tuple(found)
    for invocation in invocations(text, cwd=cwd):
        found.update(dict.fromkeys(_redirected(invocation)))
        reader = _TOOLS.get(invocation.name)
        if reader is not None:
            found.update(dict.fromkeys(reader(invocation)))
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


def _operands(*value_options: str) -> Reader:
    takes_value = frozenset(value_options)

    def read(invocation: Invocation) -> Iterator[str]:
        for operand in parse(invocation.argv[1:], takes_value).operands:
            yield f"path={invocation.path(operand)}"

    return read


def _mkdir(invocation: Invocation) -> Iterator[str]:
    options = parse(invocation.argv[1:], frozenset(("-m", "--mode")))
    for operand in options.operands:
        path = invocation.path(operand)
        # `mkdir -p /data` succeeds on an existing directory; everything below would count as the session's own.
        if not (options.has("-p", "--parents") and path.startswith(("/", "~"))):
            yield f"path={path}"


def _touch(invocation: Invocation) -> Iterator[str]:
    for operand in parse(invocation.argv[1:], frozenset(("-d", "-t", "-r"))).operands:
        if not operand.startswith(("/", "~")):  # elsewhere, touching may only update an existing file
            yield f"path={invocation.path(operand)}"


def _tee(invocation: Invocation) -> Iterator[str]:
    options = parse(invocation.argv[1:])
    appends = options.has("-a", "--append")
    for operand in options.operands:
        if _is_log(appends, operand) or not (appends or operand.startswith("/dev/")):
            yield f"path={invocation.path(operand)}"


def _copy(invocation: Invocation) -> Iterator[str]:
    """The destination, and the same names below it, since it may be a directory."""
    options = parse(invocation.argv[1:], frozenset(("-t", "--target-directory", "-m", "-o", "-g", "-S", "-e")))
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


def _output_option(*names: str) -> Reader:
    takes_value = frozenset((*names, "-X", "-H", "-d", "-u", "-b", "-T", "-t"))

    def read(invocation: Invocation) -> Iterator[str]:
        for file in parse(invocation.argv[1:], takes_value).values(*names):
            if file not in ("-", "") and not file.startswith("/dev/"):
                yield f"path={invocation.path(file)}"

    return read


def _dd(invocation: Invocation) -> Iterator[str]:
    for argument in invocation.argv[1:]:
        if argument.startswith("of=") and not argument.startswith("of=/dev/"):
            yield f"path={invocation.path(argument[3:])}"


def _git(invocation: Invocation) -> Iterator[str]:
    options = parse(invocation.argv[1:], frozenset(("-C", "-c", "-b", "-B", "--orphan", "--create", "-o", "--depth")))
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
        switched = parse(invocation.argv[1:], frozenset(("-c", "-C", "--create", "--orphan")))
        yield from (f"branch={name}" for name in switched.values("-c", "-C", "--create", "--orphan") if name)
    elif subcommand == "stash" and words[1:2] in ((), ("push",), ("save",)):
        yield "stash=stash@{0}"
    elif subcommand in ("branch", "tag") and len(words) > 1:
        plain = not any(option in options.options for option in ("-d", "-D", "--delete", "-m", "-M", "-r", "-a", "-l"))
        if plain:
            yield f"{subcommand}={words[1]}"


def _sql(*value_options: str) -> Reader:
    takes_value = frozenset(value_options)

    def read(invocation: Invocation) -> Iterator[str]:
        options = parse(invocation.argv[1:], takes_value)
        for text in (*options.values(*value_options), *options.operands, invocation.stdin or ""):
            if "create" in text.lower():
                yield from sql_creations(text)

    return read


def _createdb(invocation: Invocation) -> Iterator[str]:
    for name in parse(invocation.argv[1:], frozenset(("-h", "-p", "-U", "-O", "-T", "-E"))).operands[:1]:
        yield f"database={name}"


def _docker(invocation: Invocation) -> Iterator[str]:
    options = parse(invocation.argv[1:], frozenset(("--name", "-t", "--tag", "-f", "--file")))
    words = options.operands
    if words[:1] in (("run",), ("create",)):
        yield from (f"container={name}" for name in options.values("--name"))
    elif words[:2] in (("volume", "create"), ("network", "create")):
        yield from (f"{words[0]}={name}" for name in words[2:])
    elif "build" in words[:2]:
        yield from (f"image={name}" for name in options.values("-t", "--tag"))


def _kubectl(invocation: Invocation) -> Iterator[str]:
    words = parse(invocation.argv[1:], frozenset(("-n", "--namespace", "--context"))).operands
    namespace = parse(invocation.argv[1:], frozenset(("-n", "--namespace", "--context"))).value("-n", "--namespace")
    where = f"@{namespace}" if namespace else ""
    if words[:1] == ("create",) and len(words) > 2:
        kind = {"ns": "namespace", "deploy": "deployment", "cm": "configmap", "cj": "cronjob"}.get(words[1], words[1])
        yield f"k8s={kind}/{words[-1 if kind in ('secret', 'service') else 2]}{'' if kind == 'namespace' else where}"
    elif words[:1] == ("run",) and len(words) > 1:
        yield f"k8s=pod/{words[1]}{where}"


def _aws(invocation: Invocation) -> Iterator[str]:
    words = parse(invocation.argv[1:], frozenset(("--region", "--profile"))).operands
    if words[:2] == ("s3", "mb") and len(words) > 2:
        yield f"bucket={words[2].removeprefix('s3://').rstrip('/')}"


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
    "virtualenv": _operands("-p", "--python"),
    "cp": _copy,
    "mv": _copy,
    "install": _copy,
    "ln": _copy,
    "scp": _copy,
    "wget": _output_option("-O", "--output-document"),
    "curl": _output_option("-o", "--output"),
    "dd": _dd,
    "git": _git,
    "psql": _sql("-c", "--command"),
    "mysql": _sql("-e", "--execute"),
    "sqlite": _sql(),
    "duckdb": _sql("-c"),
    "clickhouse-client": _sql("-q", "--query"),
    "snowsql": _sql("-q"),
    "bq": _sql(),
    "createdb": _createdb,
    "docker": _docker,
    "kubectl": _kubectl,
    "aws": _aws,
    "python": _start,
    "django-admin": _start,
    "manage.py": _start,
    "uv": _start,
}
