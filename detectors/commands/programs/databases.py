"""Deletions by database clients, key-value stores and message brokers.

The connection counts too: dropping, truncating or emptying something is SEVERE if an argument or a preceding variable
(`PGHOST=prod-db`) names production.

Misses: SQL in files (`psql -f x.sql`, `mysql < x.sql`) unless a heredoc writes them into the pipe; connection names
in configuration files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from haltline.detectors.commands.effects import rows, statements
from haltline.detectors.commands.model import LOSSES, Badness, Destruction, listed
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.paths import badness
from haltline.detectors.commands.programs import http
from haltline.detectors.commands.shell.carriers import CARRIERS
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import Options, parse
from haltline.detectors.commands.shell.wrappers import PREFIXES, SHELLS
from haltline.detectors.commands.sql import sql_destructions
from haltline.detectors.commands.surroundings import raised
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb

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


def _client(
    sql_options: str, value_options: str = "", operands_from: int | None = None, *, file: bool = False
) -> Client:
    values = frozenset((*value_options.split(), *sql_options.split()))
    return Client(tuple(sql_options.split()), values, operands_from, file)


_PSQL = _client("-c --command", "-d --dbname -h --host -p --port -U --username -f --file -v --set -o -F -R -T -P -L")
_MYSQL = _client("-e --execute", "-u --user -h --host -P --port -D --database -S --socket --login-path")
CLIENTS: Mapping[str, Client] = {
    "psql": _PSQL,
    "pgcli": _PSQL,
    "vsql": _PSQL,
    "usql": _PSQL,
    "mysql": _MYSQL,
    "mycli": _MYSQL,
    "sqlite3": _client("-cmd", "-separator -nullvalue -newline -init -maxsize -lookaside", 1, file=True),
    "sqlite": _client("-cmd", "", 1, file=True),
    "duckdb": _client("-c -s", "", 1, file=True),
    "clickhouse-client": _client("-q --query", "-h --host -u --user --port --password -d --database"),
    "clickhouse": _client("-q --query", "-h --host -u --user --port --password -d --database"),
    "sqlcmd": _client("-Q -q", "-S -U -P -d -i -o"),
    "sqlplus": _client(""),
    "snowsql": _client("-q", "-a -u -d -s -w -r -c -f -o"),
    "snow": _client("-q --query", "-c --connection --database --schema --role --warehouse"),
    "cockroach": _client("-e --execute", "--host --url -d --database -u --user"),
    "cqlsh": _client("-e --execute", "-u -p -k -f"),
    "trino": _client("--execute", "--server --catalog --schema --user"),
    "presto": _client("--execute", "--server --catalog --schema --user"),
    "hive": _client("-e"),
    "beeline": _client("-e", "-u -n -p -f"),
    "impala-shell": _client("-q --query", "-i -d"),
    "spark-sql": _client("-e", "-f --master --conf --database"),
    "cbq": _client("-s --script", "-e --engine -u --user -p --password -c --credentials -f --file"),
    "turso": _client("", "", 3),
    "wrangler": _client("--command", "--env -e --config"),
}


def _sql(client: Client) -> Reader:
    def read(invocation: Invocation) -> Iterator[Destruction]:
        options = parse(invocation.argv[1:], client.value_options, single_dash_words=client.file_operand)
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


def _database(verb: str, name: str) -> Destruction:
    return Destruction(verb, f"database={name}", Badness.SEVERE)


def _dropdb(invocation: Invocation) -> Iterator[Destruction]:
    for name in invocation.options("-h --host -p --port -U --username --maintenance-db").operands:
        yield _database("drop_database", name)


def _mysqladmin(invocation: Invocation) -> Iterator[Destruction]:
    operands = invocation.options("-u --user -h --host -P --port -S").operands
    for at, word in enumerate(operands[:-1]):
        if word == "drop":
            yield _database("drop_database", operands[at + 1])


_REDIS_VALUE_OPTIONS = frozenset(("-h", "-p", "-a", "-n", "-u", "--user", "--pass", "-s", "-r", "-i", "-t", "--cacert"))


def _redis(invocation: Invocation) -> Iterator[Destruction]:
    options = parse(invocation.argv[1:], _REDIS_VALUE_OPTIONS)
    lines = (
        [options.operands] if options.operands else [tuple(x.split()) for x in (invocation.stdin or "").splitlines()]
    )
    number = options.value("-n") or "0"
    for words in lines:
        command = words[0].lower() if words else ""
        if command == "flushall":
            yield Destruction("redis_flushall", "database=redis/*", Badness.SEVERE)
        elif command == "flushdb":
            yield Destruction("redis_flushdb", f"database=redis/{number}", Badness.SEVERE)
        elif command == "graph.query":
            yield from statements.acts(" ".join(words))
        elif command in ("del", "unlink"):
            for key in words[1:]:
                yield Destruction("redis_del", f"key={key}", Badness.PLAIN)


_MONGO = re.compile(
    r"""(?:getSiblingDB\(\s*['"]([^'"\n]*)['"]\s*\)\s*\.\s*)?\b(dropDatabase)\(
    |(?:getCollection\(\s*['"]([^'"\n]*)['"]\s*\)|\bdb(?:\.|\[)(\w+)\]?)\s*\.\s*(drop|deleteMany|deleteOne|remove)\(\s*(\{\s*\})?""",
    re.VERBOSE,
)


def _mongo(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--eval --host --port -u -p --username --password --file -f")
    text = "\n".join(options.values("--eval")) or invocation.stdin or ""
    name = options.operands[0].rpartition("/")[2].partition("?")[0] if options.operands else "db"
    yield from _seen_from(invocation, _mongo_script(text, name), options.operands)


def _mongo_script(text: str, database: str) -> Iterator[Destruction]:
    for act in statements.acts(text):
        if act.effect not in LOSSES or not re.search(r"dropDatabase\(|\.(?:drop|deleteMany|deleteOne|remove)\(", text):
            yield act
    for found in _MONGO.finditer(text):
        if found[2]:
            yield _database("drop_database", found[1] or database)
            continue
        all_rows = found[5] in ("deleteMany", "remove") and found[6] is not None
        verb = "drop_collection" if found[5] == "drop" else "delete_all_rows" if all_rows else "delete_rows"
        yield Destruction(verb, f"table={found[3] or found[4]}", Badness.PLAIN)


def _stated(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by statements for clients of graph or document databases, in any option."""
    for text in (*invocation.argv[1:_MAX_WORDS], invocation.stdin or ""):
        yield from statements.acts(text)


def _kafka_topics(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--topic --bootstrap-server --zookeeper --group")
    if options.has("--delete"):
        found = (Destruction("kafka_delete", f"topic={name}", Badness.PLAIN) for name in options.values("--topic"))
        yield from _seen_from(invocation, found, [*options.values("--topic", "--bootstrap-server")])


def _databricks(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--json --profile -p")
    for body in options.values("--json"):
        yield from http.body_losses(body)
    yield from generic(invocation)


def _dbt(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--args --target -t --profiles-dir --project-dir")
    if options.operands[:1] == ("run-operation",) and destroying_verb("".join(options.operands[1:2])):
        name = re.search(r"[\w.]\s*[:=]\s*['\"]?([\w.]+)", options.value("--args") or "")
        yield Destruction(options.operands[1], f"table={name[1] if name else options.operands[1]}", Badness.PLAIN)


_GENERIC_VERBS = frozenset(listed("""
    delete destroy drop purge rm truncate wipe erase nuke obliterate terminate decommission deprovision deregister
    unpublish deactivate
"""))  # fmt: skip
_GENERIC_ENDS = frozenset(("flush", "clear", "empty", "remove", "disable"))
_MILD = frozenset(("cache", "caches", "dns", "log", "logs", "test", "screen", "history", "buffer", "label", "tag"))
_STATEMENT = re.compile(
    r"\A\s*(?:delete\s+from|drop\s+(?:table|database|schema)|truncate|update\s+\S+\s+set)\s", re.IGNORECASE
)
_MAX_WORDS = 64
_RESET_THINGS = frozenset(("db", "database", "cluster", "env", "environment", "factory"))
_TALKS = frozenset(listed("""
    echo printf grep egrep fgrep rg ag ack test [ man help which type less cat head tail ls make npm yarn pnpm cargo
    poetry go pytest tox bundle rake mvn gradle just task say logger wall jq yq sort diff cut tr ip set alias export
    read expr cd for case tmux screen vim sed awk tar zip ssh nmcli route brctl ovs-vsctl tc hg svn bd td todo op pass
    xclip pip pipx uv conda brew apt apt-get yum dnf apk nft ufw iptables ip6tables systemctl zfs zpool btrfs vgremove
    lvremove hdfs hadoop etcdctl diskutil crontab docker helm fdisk sfdisk sgdisk parted cryptsetup mdadm nvme hdparm
    shred gio rar zip 7z
"""))  # fmt: skip
_CARRY = frozenset((
    *PREFIXES, *CARRIERS, *SHELLS, "xargs", "parallel", "watch", "trap", "su", "runuser", "eval", "vagrant", "gcloud",
    "fly", "flyctl", "poetry", "pipenv", "pdm", "hatch", "rye", "lxc", "multipass", "direnv", "aws-vault", "doppler",
    "railway", "heroku",
))  # fmt: skip
"""Programs that run other programs, which are read on their own."""
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")


def _statements(invocation: Invocation) -> Iterator[Destruction]:
    for word in (*invocation.argv[1:_MAX_WORDS], invocation.stdin or ""):
        text = word.partition("=")[2] if word[:2] == "--" else word
        if " " in text and _STATEMENT.match(text) is not None:
            yield from sql_destructions(text)


_CLOUDS = frozenset(("aws", "gcloud", "az", "databricks", "heroku", "fly", "railway"))


def statements_of_clouds(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by statements in any option of a cloud's program."""
    return _statements(invocation) if invocation.name in _CLOUDS else iter(())


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


# Tools that recreate a database: their subcommands.
_RESETS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "rails": (("db:drop",), ("db:reset",), ("db:purge",), ("db:migrate:reset",), ("db:schema:load",)),
    "rake": (("db:drop",), ("db:reset",), ("db:purge",), ("db:migrate:reset",), ("db:schema:load",)),
    "prisma": (("migrate", "reset"),),
    "artisan": (("migrate:fresh",), ("migrate:reset",), ("db:wipe",), ("migrate:refresh",)),
    "alembic": (("downgrade", "base"),),
    "flask": (("db", "downgrade", "base"),),
    "mix": (("ecto.drop",), ("ecto.reset",)),
    "supabase": (("db", "reset"),),
    "sequelize": (("db:drop",), ("db:migrate:undo:all",)),
    "sequelize-cli": (("db:drop",), ("db:migrate:undo:all",)),
    "typeorm": (("schema:drop",),),
    "flyway": (("clean",),),
    "liquibase": (("drop-all",), ("dropAll",)),
    "goose": (("reset",), ("down-to", "0")),
    "knex": (("migrate:rollback",),),
    "dbmate": (("drop",),),
    "diesel": (("database", "reset"),),
    "dotnet-ef": (("database", "drop"), ("database", "update", "0")),
    "manage.py": (("flush",), ("reset_db",), ("sqlflush",)),
    "django-admin": (("flush",), ("reset_db",)),
}
_INTERPRETERS = frozenset(("python", "php", "ruby", "node"))


def resets(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by `rails db:drop`, `manage.py flush` and similar commands, also after an interpreter's name."""
    argv = invocation.argv
    if argv and argv[0] in _INTERPRETERS:
        argv = argv[1:]
    name = argv[0].rpartition("/")[2] if argv else ""
    operands = parse(argv[1:]).operands
    for words in _RESETS.get(name, ()):
        if operands[: len(words)] == words and words != ("sqlflush",):
            lost = Destruction("reset_database", f"database={invocation.path('.')}", Badness.PLAIN)
            yield from _seen_from(invocation, iter((lost,)), argv)
    if name == "prisma" and operands[:2] == ("db", "push") and "--force-reset" in argv:
        yield Destruction("reset_database", f"database={invocation.path('.')}", Badness.PLAIN)


TOOLS: Mapping[str, Reader] = {
    **{name: _sql(client) for name, client in CLIENTS.items()},
    **dict.fromkeys((*_RESETS, *_INTERPRETERS), resets),
    "dropdb": _dropdb,
    "mysqladmin": _mysqladmin,
    "redis-cli": _redis,
    "mongo": _mongo,
    **dict.fromkeys(listed("gremlin.sh gremlin s-update arangosh"), _stated),
    "kafka-topics.sh": _kafka_topics,
    "kafka-topics": _kafka_topics,
    "databricks": _databricks,
    "dbt": _dbt,
}
