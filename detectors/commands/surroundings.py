"""Whether a target belongs to tests: a database, a namespace or a server named as one for tests.

A table of patterns over the options, variables and arguments that name the environment. They have no effect if another
one names production.

Misses: test environments with other names; valuable targets with the name of a test.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from haltline.detectors.commands.model import Badness, Destruction, listed
from haltline.detectors.commands.names import is_production, is_test, is_throwaway
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re

_TESTS = r"(?:tests?|testing|e2e|ci|tmp|temp|scratch|sandbox|dummy|throwaway|:?memory:?|fixtures?)"
_TEST_NAME = re.compile(rf"\A(?:.*[\W_])?{_TESTS}(?:[\W_].*|\d*)", re.IGNORECASE)
_DATABASE_NAME = re.compile(rf"\A(?:(?:.*[\W_])?(?:{_TESTS}|dev|devel|development)(?:[\W_].*|\d*))", re.IGNORECASE)
_ENVIRONMENT = re.compile(
    rf"\A(?:(?:\w+_)?(?:ENV|ENVIRONMENT|SETTINGS_MODULE|STAGE|DATABASE_URL|DB_NAME|DB|DATABASE|NAMESPACE)=(?:.*[\W_])?{_TESTS}(?:[\W_]\w*)?)",
    re.IGNORECASE,
)
"""`RAILS_ENV=test`, `DATABASE_URL=postgres://localhost/app_test`."""
_OPTIONS = frozenset((
    "--settings", "--env", "--environment", "-e", "--stage", "--namespace", "-n", "--context", "--kube-context",
    "--database", "--dbname", "--db", "-d", "-D", "-f", "--file", "--project-name", "-p", "--workspace", "--profile",
))  # fmt: skip
"""Options that name the environment; values of `-f` and `-p` must be names, such as `docker-compose.test.yml`."""
_LOCAL_SERVICE = re.compile(r"\A(?:\w+://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?/?")
_DATABASE_PROGRAMS = frozenset(listed("""
    psql pgcli mysql mycli mariadb sqlite3 sqlite duckdb mongosh mongo clickhouse-client cockroach usql sqlcmd
"""))  # fmt: skip
_MAX_CHARS, _MAX_WORDS = 256, 256
"""The numbers of characters and words that are checked, which bound the time for any text."""
_TEST_NUMBERS = frozenset(("14", "15"))
"""The last of a Redis server's sixteen databases, which test suites use by convention."""
_ROWS_ONLY = listed("redis_ delete_ truncate_ drop_table drop_view drop_index drop_column reset_ update")
_NAMED = ("container=", "helm=", "resource=", "k8s=pod/", "k8s=job/", "k8s=deployment/", "image=", "network=")
_OF_A_CONTROLLER = re.compile(r"k8s=pod/[\w-]+-[a-z0-9]{8,10}-[a-z0-9]{5}(?:@.*)?")
"""A pod of a deployment, which is recreated automatically."""
_PASSING = re.compile(
    r"\A(?:key=(?:cache|session|tmp|temp|test|lock)[:_.-]|object=s3://[^/]+/(?:.*/)?(?:tmp|temp|ci|test)/).*"
)
_ARGUMENTS = ("database", "db", "dbname", "connection", "connection_string", "dsn", "schema", "environment", "env",
              "namespace", "catalog")  # fmt: skip


def as_in_tests(found: Iterable[Destruction], invocation: Invocation) -> Iterator[Destruction]:
    """Yield the losses by a program; those in a test environment are SCRATCH."""
    production: bool | None = None
    for one in found:
        if one.badness is not Badness.SCRATCH and (
            _is_named_so(one.target[:_MAX_CHARS]) or _is_of_tests(one, invocation)
        ):
            if production is None:
                words = (*invocation.argv[:_MAX_WORDS], *invocation.assigned)
                production = is_production(*(word[:_MAX_CHARS] for word in words))
            if not production and not is_production(one.target[:_MAX_CHARS]):
                yield Destruction(one.verb, one.target, Badness.SCRATCH, one.effect, one.reversible)
                continue
        yield one


def _is_named_so(target: str) -> bool:
    if target.startswith(_NAMED) and (is_test(target) or is_throwaway(target)):
        return True
    return _OF_A_CONTROLLER.fullmatch(target) is not None or _PASSING.fullmatch(target) is not None


def _is_of_tests(found: Destruction, invocation: Invocation) -> bool:
    if any(_ENVIRONMENT.fullmatch(one[:_MAX_CHARS]) for one in invocation.assigned):
        return True
    name, argv = invocation.name, invocation.argv[1:_MAX_WORDS]
    if name not in _BY_PROGRAM and found.verb != "reset_database":
        return False
    values = [(option, value) for option, value in _valued(argv) if option in _OPTIONS]
    holds = _BY_PROGRAM.get(name, _is_reset)
    return holds(found, argv, values)


Values: TypeAlias = list[tuple[str, str]]


def _of_cluster(found: Destruction, _: tuple[str, ...], values: Values) -> bool:
    lasts = found.target.startswith(("k8s=namespace", "k8s=persistent", "k8s=node"))
    pattern = _DATABASE_NAME if found.target.startswith(("k8s=pod/", "k8s=job/")) else _TEST_NAME
    return not lasts and any(pattern.fullmatch(value) for _, value in values)


def _of_database(found: Destruction, argv: tuple[str, ...], values: Values) -> bool:
    where = [value for option, value in values if option in ("-d", "--dbname", "--database", "--db", "-D")]
    where += [word.rpartition("/")[2][:_MAX_CHARS] for word in argv if word[:1] != "-" and " " not in word][:2]
    return found.verb.startswith(_ROWS_ONLY) and any(_DATABASE_NAME.fullmatch(one) for one in where)


def _of_redis(_: Destruction, argv: tuple[str, ...], values: Values) -> bool:
    return "-h" not in argv and any(option == "-n" and value in _TEST_NUMBERS for option, value in values)


def _of_local_service(_: Destruction, argv: tuple[str, ...], __: Values) -> bool:
    return any(option == "--endpoint-url" and _LOCAL_SERVICE.fullmatch(value) for option, value in _valued(argv))


def _of_compose(found: Destruction, _: tuple[str, ...], values: Values) -> bool:
    return found.verb.startswith("compose") and any(_TEST_NAME.fullmatch(value) for _, value in values)


def _is_reset(found: Destruction, _: tuple[str, ...], values: Values) -> bool:
    return found.verb == "reset_database" and any(_TEST_NAME.fullmatch(value) for _, value in values)


_BY_PROGRAM: Mapping[str, Callable[[Destruction, tuple[str, ...], Values], bool]] = {
    **dict.fromkeys(("kubectl", "helm", "oc"), _of_cluster),
    **dict.fromkeys(_DATABASE_PROGRAMS, _of_database),
    **dict.fromkeys(("redis-cli", "valkey-cli"), _of_redis),
    **dict.fromkeys(("aws", "gsutil", "mc"), _of_local_service),
    **dict.fromkeys(("docker", "docker-compose", "podman"), _of_compose),
}
"""What shows that a loss by a program is in a test environment."""


def _valued(argv: tuple[str, ...]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for at, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if option[:1] == "-":
            value = value if equals else (argv[at + 1] if at + 1 < len(argv) else "")
            found.append((option, value[:_MAX_CHARS]))
    return found


def names_tests(args: Mapping[str, Any]) -> bool:
    """Return whether a tool's arguments name a database or namespace for tests."""
    named = [value for name in _ARGUMENTS if isinstance(value := args.get(name), str)]
    return any(
        _DATABASE_NAME.fullmatch(value.rpartition("/")[2][:_MAX_CHARS]) for value in named
    ) and not is_production(*named)
