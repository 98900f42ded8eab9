"""Deletions by database clients, key-value stores and message brokers.

The connection counts too: dropping, truncating or emptying something is SEVERE if an argument or a preceding variable
(`PGHOST=prod-db`) names production.

Misses: SQL in files (`psql -f x.sql`, `mysql < x.sql`) unless a heredoc writes them into the pipe; connection names
in configuration files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from haltline.detectors.commands.effects import rows, statements
from haltline.detectors.commands.model import Badness, Destruction, listed
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.paths import badness
from haltline.detectors.commands.programs import http
from haltline.detectors.commands.rows import cells_of, expression_of, words_of
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import OPTIONS, Options, parse
from haltline.detectors.commands.shell.runs import PROGRAMS
from haltline.detectors.commands.shell.wrappers import PREFIXES, SHELLS
from haltline.detectors.commands.sql import sql_destructions
from haltline.detectors.commands.surroundings import raised
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[Destruction]]


@dataclass(frozen=True, slots=True)
class Client:
    """How a database client receives its SQL."""

    sql_options: tuple[str, ...] = ()
    value_options: frozenset[str] = frozenset()
    sql_operands_from: int | None = None
    """The index of the first operand that is SQL; None: no operand is."""

    file_operand: bool = False
    """The first operand is the database file."""


def _clients() -> Iterator[tuple[str, Client]]:
    for names, options, operands in cells_of("clients"):
        number, _, file = operands.partition(" ")
        for name in names.split(","):
            values = OPTIONS.get(name, frozenset())
            yield name, Client(tuple(options.split()), values, int(number) if number else None, file == "file")


CLIENTS: Mapping[str, Client] = dict(_clients())


def _sql(client: Client) -> Reader:
    def read(invocation: Invocation) -> Iterator[Destruction]:
        options = parse(
            invocation.argv[1:], client.value_options | {*client.sql_options}, single_dash_words=client.file_operand
        )
        texts = list(options.values(*client.sql_options))
        if client.sql_operands_from is not None:
            texts += options.operands[client.sql_operands_from :]
        if not texts and invocation.stdin is not None:
            texts.append(invocation.stdin)
        found = (destruction for text in texts for destruction in sql_destructions(text))
        connection = [argument for argument in invocation.argv[1:] if argument not in texts]
        if client.file_operand and _is_scratch_file(invocation, options):
            for destruction in found:
                yield replace(destruction, badness=Badness.SCRATCH)
        else:
            yield from _seen_from(invocation, found, connection)

    return read


def _is_scratch_file(invocation: Invocation, options: Options) -> bool:
    file = options.operands[0] if options.operands else ":memory:"
    return file in (":memory:", "") or badness(invocation.path(file), everything=False) is Badness.SCRATCH


def _seen_from(
    invocation: Invocation, found: Iterator[Destruction], connection: list[str] | tuple[str, ...] = ()
) -> Iterator[Destruction]:
    """Raise the badness of losses through a connection that names production."""
    return raised(found) if is_production(*connection, *invocation.assigned) else found


def _graph(invocation: Invocation) -> Iterator[Destruction]:
    """`redis-cli graph.query NAME STATEMENT`."""
    return _stated(invocation) if "graph.query" in " ".join(invocation.argv[:_MAX_WORDS]).lower() else iter(())


def _mongo(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--eval --host --port -u -p --username --password --file -f")
    text = "\n".join(options.values("--eval")) or invocation.stdin or ""
    name = options.operands[0].rpartition("/")[2].partition("?")[0] if options.operands else "db"
    yield from _seen_from(invocation, iter(statements.acts(text, database=name)), options.operands)


def _stated(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by statements for clients of graph or document databases, in any option."""
    for text in (*invocation.argv[1:_MAX_WORDS], invocation.stdin or ""):
        yield from statements.acts(text)


def _databricks(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--json --profile -p")
    for body in options.values("--json"):
        yield from http.body_losses(body)
    yield from generic(invocation)


_GENERIC_VERBS = words_of("verbs of programs that destroy")
_GENERIC_ENDS = frozenset(("flush", "clear", "empty", "remove", "disable"))
_MILD = frozenset(("cache", "caches", "dns", "log", "logs", "test", "screen", "history", "buffer", "label", "tag"))
_STATEMENT = expression_of("an argument is a statement", re.IGNORECASE)
_MAX_WORDS = 64
_RESET_THINGS = frozenset(("db", "database", "cluster", "env", "environment", "factory"))
_TALKS = words_of("programs that are not guessed about")
_CARRY = frozenset((*PREFIXES, *PROGRAMS, *SHELLS))
"""Programs that run other programs, which are read on their own."""
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")


def _statements(invocation: Invocation) -> Iterator[Destruction]:
    for word in (*invocation.argv[1:_MAX_WORDS], invocation.stdin or ""):
        text = word.partition("=")[2] if word[:2] == "--" else word
        if " " in text and _STATEMENT.match(text) is not None:
            yield from sql_destructions(text)


_CLOUDS = frozenset(("aws", "gcloud", "az", "databricks", "heroku", "fly", "railway", "invoke-sqlcmd"))


def statements_of_clouds(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by statements in any option of a program that takes other options too."""
    return _statements(invocation) if invocation.name.lower() in _CLOUDS else iter(())


def generic(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by `tool [words] delete NAME` of an unknown program."""
    if invocation.name in _TALKS or invocation.name in _CARRY or not _SUBCOMMAND.fullmatch(invocation.name):
        return
    operands = invocation.options().operands
    if rows.is_dry(invocation.argv):
        return
    yield from _statements(invocation)
    for at, word in enumerate(operands[:3]):
        if not _SUBCOMMAND.fullmatch(word):
            return
        parts = word.replace("_", "-").replace(":", "-").split("-")
        named = operands[at - 1] if at else invocation.name
        if len(parts) > 1 and parts[-1] in _GENERIC_ENDS and _MILD.isdisjoint(parts):
            parts = ["delete"]
        resets_it = parts[-1] == "reset" and not _RESET_THINGS.isdisjoint((named, *parts))
        if resets_it or not _GENERIC_VERBS.isdisjoint((parts[0], parts[-1])):
            kind = named if len(parts) == 1 else word
            name = "/".join(operands[at + 1 : at + 17]) or ("" if word == "rm" else " ".join(invocation.argv))
            if name:  # one act on one target: which words repeat, nobody knows
                bad = Badness.SEVERE if is_production(*operands[at + 1 : at + 17]) else Badness.PLAIN
                yield Destruction(f"{invocation.name}_{word}", f"{kind}={name[:240]}", bad, guessed=True)
            return


TOOLS: Mapping[str, Reader] = {
    **{name: _sql(client) for name, client in CLIENTS.items()},
    "redis-cli": _graph,
    "mongo": _mongo,
    **dict.fromkeys(listed("gremlin.sh gremlin s-update arangosh"), _stated),
    "databricks": _databricks,
}
