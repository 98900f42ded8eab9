"""Stores with their own client (distributed files, secrets, keys, queues, time series, sites).

Misses: commands for their interactive shells (`hbase shell`, `zkCli.sh` line by line).
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.shell.invocation import Invocation

Reader = Callable[[Invocation], Iterator[Destruction]]


def _hdfs(invocation: Invocation) -> Iterator[Destruction]:
    """`hdfs dfs -rm -r /data`, `hadoop fs -rm`: a top-level or production directory is SEVERE."""
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


def _etcd(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--endpoints --cacert --cert --key --user")
    if options.operands[:1] == ("del",):
        for name in options.operands[1:2]:
            everything = options.has("--prefix", "--from-key") and name in ("", "/", "\\0")
            bad = Badness.SEVERE if everything or is_production(name) else Badness.PLAIN
            yield Destruction("etcd_del", f"key={name or '*'}", bad)


TOOLS: Mapping[str, Reader] = {
    "hdfs": _hdfs,
    "hadoop": _hdfs,
    "etcdctl": _etcd,
}
