"""Stores with a program of their own: distributed files, secrets, keys, queues, series, sites, schedules.

Misses: what their own shells are told (`hbase shell`, `zkCli.sh` line by line).
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.invocation import Invocation
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.options import parse

Reader = Callable[[Invocation], Iterator[Destruction]]

_STORES: tuple[tuple[str, ...], ...] = (("secrets", "disable"), ("auth", "disable"))
_SECRETS: tuple[tuple[str, ...], ...] = (
    ("kv", "delete"),
    ("kv", "destroy"),
    ("kv", "metadata", "delete"),
    ("delete",),
)


def _hdfs(invocation: Invocation) -> Iterator[Destruction]:
    """`hdfs dfs -rm -r /data`, `hadoop fs -rm`: a folder at the top, or of production, is more than one among many."""
    words = invocation.argv[1:]
    if words[:1] not in (("dfs",), ("fs",)):
        return
    verb = words[1].lstrip("-") if len(words) > 1 else ""
    if verb not in ("rm", "rmr", "rmdir", "expunge"):
        return
    recursive = verb == "rmr" or not {"-r", "-R"}.isdisjoint(words)
    for path in (word for word in words[2:] if not word.startswith("-")):
        top = len([part for part in path.split("://")[-1].split("/") if part not in ("", "*")]) <= 1
        bad = Badness.SEVERE if recursive and (top or is_production(path)) else Badness.PLAIN
        yield Destruction("hdfs_rm", f"hdfs={path}", bad)
    if verb == "expunge":
        yield Destruction("hdfs_expunge", "hdfs=trash", Badness.PLAIN)


def _vault(invocation: Invocation) -> Iterator[Destruction]:
    operands = parse(invocation.argv[1:], single_dash_words=True).operands
    for words in _STORES:
        if operands[:2] == words:
            for name in operands[2:]:  # all that is below it
                yield Destruction("vault_disable", f"secret={name}", Badness.SEVERE)
    for words in _SECRETS:
        if operands[: len(words)] == words:
            for name in operands[len(words) :]:
                bad = Badness.SEVERE if is_production(name) else Badness.PLAIN
                yield Destruction("vault_delete", f"secret={name}", bad)


def _etcd(invocation: Invocation) -> Iterator[Destruction]:
    options = parse(invocation.argv[1:], frozenset(("--endpoints", "--cacert", "--cert", "--key", "--user")))
    if options.operands[:1] == ("del",):
        for name in options.operands[1:2]:
            everything = options.has("--prefix", "--from-key") and name in ("", "/", "\\0")
            bad = Badness.SEVERE if everything or is_production(name) else Badness.PLAIN
            yield Destruction("etcd_del", f"key={name or '*'}", bad)


def _named(verb: str, kind: str, *patterns: tuple[str, ...], option: str = "") -> Reader:
    """A reader of tools whose thing follows some words, or is the value of an option."""

    def read(invocation: Invocation) -> Iterator[Destruction]:
        options = parse(invocation.argv[1:], frozenset((option,)) if option else frozenset())
        operands = options.operands
        for pattern in patterns:
            if operands[: len(pattern)] != pattern:
                continue
            for name in (*operands[len(pattern) :], *(options.values(option) if option else ())) or ("*",):
                what = name.partition("=")[2] or name
                bad = Badness.SEVERE if is_production(what) else Badness.PLAIN
                yield Destruction(verb, f"{kind}={what}", bad)

    return read


TOOLS: Mapping[str, Reader] = {
    "hdfs": _hdfs,
    "hadoop": _hdfs,
    "vault": _vault,
    "etcdctl": _etcd,
    "rabbitmqadmin": _named(
        "rabbitmq_delete", "queue", ("delete", "queue"), ("purge", "queue"), ("delete", "vhost"), ("delete", "exchange")
    ),
    "influx": _named("influx_delete", "bucket", ("delete",), ("bucket", "delete"), option="--bucket"),
    "netlify": _named("netlify_delete", "site", ("sites:delete",)),
    "airflow": _named("airflow_delete", "dag", ("dags", "delete")),
}
