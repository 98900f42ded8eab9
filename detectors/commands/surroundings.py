"""Where an act takes place: on something local or made for tests, where it is SCRATCH, or in production.

One table: the options, flags and variables by which each program names its cluster, server, database, project or stage,
and the arguments by which a tool does. Besides them count the name of the target itself, and addresses of databases
(`postgres://localhost/app_test`, `file:./dev.db`). All of it has no effect beside a name of production, on files, on
work trees and on branches; a local server alone shows nothing, since it may be a tunnel.

Misses: test environments with other names; valuable targets with the name of a test; what a program reads from its
configuration.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from haltline.detectors.commands.model import IN_PRODUCTION, LOSSES, STAYS, ActEffect, Badness, Destruction, placed
from haltline.detectors.commands.names import is_for_tests, is_production
from haltline.detectors.commands.rows import cells_of, expression_of, words_of
from haltline.detectors.commands.shell import choices
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re

_UNLESS = {
    ("xcrun", "simctl"): (),
    ("supabase", "db"): ("--linked", "--db-url"),
    ("supabase", "stop"): (),
    ("stripe", ""): ("--live",),
}
"""Programs, with the first word of what they do, that act on what is local or for tests unless an option is given."""
_REMOTE_FLAGS = {"supabase": ("--linked",), "wrangler": ("--remote",)}
_RECREATES = frozenset(("reset_database", "run_task", "prisma_db_push", "drizzle_kit_push"))
_RESETS_WITH = words_of("options of what recreates a database")
"""Options of programs that recreate a database."""
_TEST = r"(?:tests?|testing|e2e|ci|tmp|temp|scratch|sandbox|dummy|throwaway|:?memory:?|fixtures?|pr-?\d{1,6})"
_DEVELOPMENT = r"(?:dev|devel|development|local|preview)"
_LOCAL_HOST = r"(?:localhost|127\.0\.0\.1|\[?::1\]?|0\.0\.0\.0|host\.docker\.internal|localstack|minio)"
_VALUES: Mapping[str, re.Pattern[str]] = {
    "tests": re.compile(rf"\A(?:.*[\W_])?{_TEST}(?:[\W_].*|\d*)", re.IGNORECASE),
    "development": re.compile(rf"\A(?:.*[\W_])?{_DEVELOPMENT}(?:[\W_].*|\d*)", re.IGNORECASE),
    "a_cluster": re.compile(
        r"\A(?:.*/)?(?:minikube|kind(?:[-.].*)?|docker-(?:desktop|for-desktop)|desktop-linux|k3d-.*|k3s-default|rancher-desktop|orbstack|colima"
        r"(?:-.*)?|microk8s|podman-desktop|lima-.*)",
        re.IGNORECASE,
    ),
    "a_server": re.compile(rf"\A(?:\w+://)?{_LOCAL_HOST}(?::\d+)?(?:/.*)?", re.IGNORECASE),
    "a_demo": re.compile(r"\A(?:demo|test)-.*"),
    "a_spare_number": re.compile(r"\A1[45]"),
}
"""`a_demo`: a project of Firebase's emulators. `a_spare_number`: the last of the sixteen databases of a Redis server,
which test suites use by convention."""
_VARIABLE = re.compile(
    rf"\A(?:(?:\w+_)?(?:STAGE|DATABASE_URL|DB_NAME|DB|DATABASE|PGDATABASE|NAMESPACE|WORKSPACE)"
    rf"=(?:.*[\W_])?{_TEST}(?:[\W_]\w*)?"
    rf"|\w+_EMULATOR_HOST=.+|AWS_ENDPOINT_URL\w*=(?:\w+://)?{_LOCAL_HOST}\b.*)",
    re.IGNORECASE,
)
"""`PGDATABASE=app_test`, `FIRESTORE_EMULATOR_HOST=localhost:8080`."""
_OF_A_FRAMEWORK = re.compile(
    rf"\A(?:(?:\w+_)?(?:ENV|ENVIRONMENT)=|(?:\w+_)?SETTINGS_MODULE=(?:[\w.]*[._])?){_TEST}(?:[_-]\w*|\d*)",
    re.IGNORECASE,
)
"""`RAILS_ENV=test`, `DJANGO_SETTINGS_MODULE=app.settings.test`."""
_OF_NO_FRAMEWORK = words_of("programs of no framework")
"""Programs that do not read the environment of a framework."""
_OF_APPLICATIONS = expression_of("a variable of an application", re.IGNORECASE)
"""Variables that only an application reads."""
_ADDRESS = expression_of("the address of a database")
"""The address of a database: a file, or a server with the database's name."""
_LESS_THAN_A_TABLE = frozenset(("delete_rows", "redis_del", "drop_view", "drop_index", "drop_function", "drop_trigger"))
_OF_DATABASES = words_of("schemes of databases")
_NAMES_A_DATABASE = "--dbname"
"""An option of clients that also take the database as an operand."""
_HOST_OPTIONS = frozenset(("-h", "--host", "--hostname"))
_OF_CONNECTIONS = _HOST_OPTIONS | {"-u", "-U", "-p", "-P", "--user", "--username", "--port", "--password"}
_NEAR = re.compile(rf"\A(?:{_LOCAL_HOST}|/.*|db|database|postgres|mysql|mariadb|redis|mongo|)", re.IGNORECASE)
_CLUSTER_WIDE = tuple(words_of("kinds in no namespace"))
"""What is in no namespace."""
_OF_A_MACHINE = frozenset(("path=", "worktree=", "stash=", "device="))
_NAMED = tuple(words_of("kinds that are scratch by their name"))
"""Targets that are scratch by their own name."""
_STACKS = ("stack=", "az=group/", "aws=cloudformation/", "dataset=", "vercel=", "branches=")
_DEVELOPMENT_STACK = re.compile(rf"\A(?:.*[\W_])?{_DEVELOPMENT}\d*", re.IGNORECASE)
"""Those that are so also by a name that ends with one of development."""
_OF_A_CONTROLLER = re.compile(r"k8s=pod/[\w-]+-[a-z0-9]{8,10}-[a-z0-9]{5}(?:@.*)?")
"""A pod of a deployment, which is recreated automatically."""
_PASSING = expression_of("a target that passes")
_EMULATOR = re.compile(r"\AUseDevelopmentStorage=true|(?:localhost|127\.0\.0\.1):(?:5432[1-9]|4566)\b")
"""Of Azure's storage, Supabase and AWS, by their usual ports."""
_OWN_SERVER = expression_of("a server of the developer")
_LITTLE = re.compile(r"(?:^|[\W_])(?:dev|devel|local|localhost|own|mine|preview|ci)(?:$|[\W_])", re.IGNORECASE)
_MAX_CHARS, _MAX_WORDS = 256, 256
"""The numbers of characters and words that are checked, which bound the time for any text."""
_ARGUMENTS = tuple(words_of("arguments that name an environment"))
_DRY = ("dry_run", "dryRun", "dryrun", "preview", "simulate", "validate_only", "what_if")
_TRUE, _FALSE = ("sandbox", "test_mode", "testmode", "is_test", "use_emulator", "local"), ("livemode", "live_mode")


_PLACES = words_of("options that name a place")
_PLACES_OF = {"docker": ("-H", "-c"), "firebase": ("-P",)}
"""Options, of any program and of one, that name where it acts."""
_CLIENTS = words_of("clients of databases")
_OF_CLIENTS = ("-h", "--port", "-P")
_DATABASE_OPTIONS = frozenset(("-d", "--dbname", "--database", "--db", "-D"))
_USUAL_PORTS = frozenset(("5432", "3306", "6379", "27017", "4566"))
_PLACE_VARIABLE = expression_of("a variable names a place")
_PLACE_ARGUMENTS = tuple(words_of("arguments that name a place"))
_AUTHORITY = expression_of("the host and port of an address")
_THIS_HOST = frozenset(("127.0.0.1", "::1", "[::1]", "0.0.0.0"))
_MAX_WHERE_CHARS = 200


class _Row(NamedTuple):
    options: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    everything: bool


def _read() -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for cells in cells_of("surroundings"):
        programs, options, kinds = map(str.split, cells)
        patterns = tuple(_VALUES[kind] for kind in kinds if kind != "all")
        row = _Row(frozenset(options), patterns, "all" in kinds)
        for program in programs:
            rows.setdefault(program, []).append(row)
    return rows


_ROWS = _read()
_CLUSTER, _SPARE = _VALUES["a_cluster"], _VALUES["a_spare_number"]
_ONLY_NEAR = (_VALUES["development"], _SPARE)


class _Line(NamedTuple):
    name: str
    argv: tuple[str, ...]
    assigned: list[str]
    """Variables that the program reads, as `NAME=value`."""
    words: list[str]
    valued: list[tuple[str, str]]
    production: bool
    servers: set[str]
    databases: set[str]


class _Place(NamedTuple):
    """What the words and variables of a program show."""

    production: bool
    everything: bool
    """All that the program reaches is local or for tests."""
    inside: bool
    """What is inside of the named namespace, project or database is."""
    resets: bool
    """What is recreated is."""
    near: bool
    """No other host is named."""
    remote: bool
    """The database is that of a service."""


def placed_in(target: str, invocation: Invocation) -> str:
    """Return a target that a program makes, with where it makes it."""
    if target.startswith(STAYS):
        return _on_its_machine(target, invocation)
    return placed(target, where(invocation, target))


def _on_its_machine(target: str, invocation: Invocation) -> str:
    """Return a file of another machine, or of a container, as `path=web:/srv/x`."""
    kind, equals, name = target.partition("=")
    machine = invocation.on.removesuffix("@.")
    return f"{kind}={machine}:{name}" if machine and f"{kind}{equals}" in _OF_A_MACHINE else target


def where(invocation: Invocation, target: str) -> str:
    """Return where a program acts, as far as its options, variables and addresses say; empty if they do not.

    The same server under another option is the same. A database is in no other one, so that only its server counts.
    """
    line = _line(invocation)
    if line.production:
        return IN_PRODUCTION
    found = {*line.servers, invocation.on}
    if not target.startswith("database="):
        found |= line.databases
    return " ".join(sorted(found - {""} - _USUAL_PORTS))[:_MAX_WHERE_CHARS]


@lru_cache(maxsize=8)
def _line(invocation: Invocation) -> "_Line":
    """Return the words of a program that say where it acts, for all of its losses."""
    name, argv = invocation.name, invocation.argv[1:_MAX_WORDS]
    assigned = [one[:_MAX_CHARS] for one in invocation.assigned if not _is_for_others(one, name)]
    words = [*(word[:_MAX_CHARS] for word in invocation.argv[:_MAX_WORDS]), *assigned]
    client, valued = name in _CLIENTS, _valued(argv)
    own = (*_PLACES_OF.get(name, ()), *(_OF_CLIENTS if client else ()))
    named = [(word[:2], word[2:_MAX_CHARS]) for word in argv if client and word[:2] == "-h" and len(word) > len("-h")]
    servers = {"localhost"} if any(not row.options for row in _ROWS.get(name, ())) else set[str]()
    databases: set[str] = set()
    for option, value in (*valued, *named):
        if option in _PLACES or option in own:
            servers |= _server(value)
        elif client and name not in {"createdb", "dropdb"} and option in _DATABASE_OPTIONS and "://" not in value:
            databases.add(value)
    for word in words:
        variable = _PLACE_VARIABLE.match(word)
        address = _ADDRESS.search(word)
        if address is not None and address["scheme"] in _OF_DATABASES:
            servers |= _server(word[address.start("scheme") :])
            databases.add(address["name"] or "")
        elif variable is not None and not word.startswith("-"):
            servers |= _server(variable["value"])
    return _Line(name, argv, assigned, words, valued, is_production(*words, invocation.on), servers, databases)


def _is_for_others(assigned: str, program: str) -> bool:
    """Return whether a program does not read a variable, or reads it as an option (see `shell.choices`)."""
    variable = assigned.partition("=")[0]
    if choices.is_choice(variable):
        return choices.reads_choices(program)
    is_client = program in _CLIENTS
    return program in _OF_NO_FRAMEWORK and not is_client and _OF_APPLICATIONS.match(assigned) is not None


def where_of_tool(args: Mapping[str, Any]) -> str:
    """Return where a tool acts by its arguments; empty if they do not say."""
    named = [value[:_MAX_CHARS] for name in _PLACE_ARGUMENTS if isinstance(value := args.get(name), str)]
    if is_production(*named):
        return IN_PRODUCTION
    return " ".join(sorted(frozenset[str]().union(*map(_server, named))))[:_MAX_WHERE_CHARS]


def _server(value: str) -> set[str]:
    """Return the host and the port of an address, without the user; or a name."""
    parts = _AUTHORITY.match(value) if ":" in value or "@" in value else None
    host, port = (value, "") if parts is None else (parts["host"], parts["port"] or "")
    return {"localhost" if host in _THIS_HOST else host} | ({port} if port and port not in _USUAL_PORTS else set())


def with_places(found: Iterable[Destruction], invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by a program, and by what its arguments run, with where they are."""
    for one in found:
        if one.where:
            yield one
        elif one.target.startswith(STAYS):
            yield replace(one, target=_on_its_machine(one.target, invocation)) if invocation.on else one
        else:
            yield replace(one, where=where(invocation, one.target))


def seen_in(found: Iterable[Destruction], invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by a program: SCRATCH in local and test surroundings, a reset of a remote database SEVERE."""
    place: _Place | None = None
    for one in found:
        deploys = one.effect is ActEffect.SENDS and "deploy" in one.verb
        if one.badness is Badness.SCRATCH or not (one.effect in LOSSES or deploys) or one.target.startswith(STAYS):
            yield one
            continue
        if place is None:
            place = _place(invocation)
        target = one.target[:_MAX_CHARS]
        if not (place.production or is_production(target)) and (_is_named_so(target, place) or _holds(place, one)):
            yield replace(one, badness=Badness.SCRATCH)
        elif place.remote and (one.verb == "reset_database" or _flags(invocation, _REMOTE_FLAGS)):
            yield replace(one, badness=Badness.SEVERE)
        else:
            yield one


def _is_named_so(target: str, place: _Place) -> bool:
    if target.startswith(_NAMED):
        name = target.partition("=")[2].partition("@")[0]
        if is_for_tests(name) or (target.startswith("database=") and place.near and _is_development(name)):
            return True
    if target.startswith(_STACKS) and _is_of_stack(target):
        return True
    return _OF_A_CONTROLLER.fullmatch(target) is not None or _PASSING.fullmatch(target) is not None


def _is_of_stack(target: str) -> bool:
    name = target.partition("=")[2].rpartition("/")[2]
    return is_for_tests(name) or _DEVELOPMENT_STACK.fullmatch(name) is not None


def _is_development(name: str) -> bool:
    return "/" not in name and _VALUES["development"].fullmatch(name) is not None


def _holds(place: _Place, one: Destruction) -> bool:
    if place.everything or (place.resets and one.verb in _RECREATES):
        return True
    # `DROP DATABASE x` inside of another database, and what is in no namespace, go by their own names.
    return place.inside and not one.target.startswith(_CLUSTER_WIDE) and one.verb != "drop_database"


def _place(invocation: Invocation) -> _Place:
    line = _line(invocation)
    name, argv, words, assigned, valued = line.name, line.argv, line.words, line.assigned, line.valued
    everything = any(map(_VARIABLE.fullmatch, assigned))
    everything |= name not in _OF_NO_FRAMEWORK and any(map(_OF_A_FRAMEWORK.fullmatch, assigned))
    hosts = [value for option, value in valued if option in _HOST_OPTIONS]
    hosts += [option[2:] for option, _ in valued if option[:2] == "-h" and len(option) > len("-h")]
    hosts += [one.partition("=")[2] for one in assigned if one.startswith(("PGHOST=", "MYSQL_HOST="))]
    inside = remote = False
    for word in words:
        address = _ADDRESS.search(word)
        if address is None or not (address["file"] or address["scheme"] in _OF_DATABASES):
            continue
        if address["file"]:
            everything = True
            continue
        database, near = address["name"] or "", _NEAR.fullmatch(address["host"]) is not None
        tests = _VALUES["tests"].fullmatch(database) is not None
        inside |= tests or (near and (_is_development(database) or _SPARE.fullmatch(database) is not None))
        hosts.append(address["host"])
        remote |= not near and not tests
    near = all(_NEAR.fullmatch(host[:_MAX_CHARS]) for host in hosts)
    for row in (*_ROWS["*"], *_ROWS.get(name, ())):
        if not row.options:
            everything = True
        elif not row.patterns:
            everything |= not row.options.isdisjoint(argv)
        else:
            values = [value for option, value in valued if option in row.options]
            values += _databases(argv) if _NAMES_A_DATABASE in row.options else []
            # A development database, or number 15 of a Redis server, elsewhere may be everybody's.
            patterns = [one for one in row.patterns if near or one not in _ONLY_NEAR]
            everything |= _CLUSTER in patterns and any(map(_CLUSTER.fullmatch, values))
            named = any(pattern.fullmatch(value) for value in values for pattern in patterns)
            everything |= named and row.everything
            inside |= named
    unless = _UNLESS.get((name, argv[0] if argv else ""), _UNLESS.get((name, "")))
    everything |= unless is not None and not any(word.partition("=")[0] in unless for word in argv)
    everything |= any(map(_EMULATOR.search, words))
    _, space, context = (*invocation.on.split("@"), "", "")[:3]
    everything |= is_for_tests(space) or _CLUSTER.fullmatch(context) is not None
    resets = any(option in _RESETS_WITH and _VALUES["tests"].fullmatch(value) for option, value in valued)
    everything &= not remote  # a variable for tests does not move a database
    return _Place(line.production, everything, inside, resets, near, remote or _flags(invocation, _REMOTE_FLAGS))


def _databases(argv: tuple[str, ...]) -> list[str]:
    """Return the operands of a database client, one of which may be the name or address of a database."""
    before = ("", *argv)
    operands = (word for at, word in enumerate(argv) if word[:1] != "-" and before[at] not in _OF_CONNECTIONS)
    return [word[:_MAX_CHARS].rpartition("/")[2] for word in operands if " " not in word]


def _flags(invocation: Invocation, by_program: Mapping[str, tuple[str, ...]]) -> bool:
    return any(flag in invocation.argv for flag in by_program.get(invocation.name, ()))


def _valued(argv: tuple[str, ...]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for at, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if option[:1] == "-":
            value = value if equals else (argv[at + 1] if at + 1 < len(argv) else "")
            found.append((option, value[:_MAX_CHARS]))
    return found


def raised(found: Iterable[Destruction]) -> Iterator[Destruction]:
    """Yield what statements lose in a production database: SEVERE, but for a few rows and what is made again."""
    for one in found:
        is_whole = one.badness is Badness.PLAIN and one.effect in LOSSES and one.verb not in _LESS_THAN_A_TABLE
        yield replace(one, badness=Badness.SEVERE) if is_whole else one


def seen_by_tool(found: tuple[Destruction, ...], args: Mapping[str, Any]) -> tuple[Destruction, ...]:
    """Return the acts of a tool; SCRATCH in a dry run, and losses if its arguments name an environment for tests."""
    if not found:
        return found
    at = where_of_tool(args)
    if at:
        found = tuple(replace(one, where=at) for one in found)
    if any(args.get(name) is True for name in _DRY):
        return tuple(replace(one, badness=Badness.SCRATCH) for one in found)
    if not _names_tests(args):
        return found
    return tuple(
        replace(one, badness=Badness.SCRATCH)
        if one.effect in LOSSES and not one.target.startswith(STAYS) and not is_production(one.target[:_MAX_CHARS])
        else one
        for one in found
    )


def names_production(args: Mapping[str, Any]) -> bool:
    """Return whether the arguments of a tool name a production environment."""
    return is_production(*_named(args))


def _named(args: Mapping[str, Any]) -> list[str]:
    return [value[:_MAX_CHARS] for name in _ARGUMENTS if isinstance(value := args.get(name), str)]


def _names_tests(args: Mapping[str, Any]) -> bool:
    named = _named(args)
    if is_production(*named):
        return False
    if any(args.get(name) is True for name in _TRUE) or any(args.get(name) is False for name in _FALSE):
        return True
    last = [value.rpartition("/")[2] for value in named]
    return any(
        pattern.fullmatch(value) for value in last for pattern in (_VALUES["tests"], _VALUES["development"], _CLUSTER)
    )


def is_own_server(place: str) -> bool:
    """Return whether a request goes to a local development server."""
    return _OWN_SERVER.match(place) is not None


def is_little(target: str) -> bool:
    """Return whether a tool's target, other than a file, is named as one for tests, or as the session's own."""
    name = target.partition("=")[2]
    return "/" not in name and (is_for_tests(name) or _LITTLE.search(name) is not None)
