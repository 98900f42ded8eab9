"""Stores with their own client (distributed files, secrets, keys, queues, time series, sites), and other agents.

Misses: commands for their interactive shells (`hbase shell`, `zkCli.sh` line by line).
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.effects.delegation import delegated_in
from haltline.detectors.commands.model import ActEffect, Badness, Destruction, listed
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


def _agent(invocation: Invocation) -> Iterator[Destruction]:
    """Yield the destructive order to another agent, in an argument, a pipe or on stdin."""
    piped = invocation.upstream.argv[1:] if invocation.upstream else ()
    for text in (*invocation.argv[1:], invocation.stdin or "", *piped):
        order = delegated_in(text) if " " in text else ""
        if order:
            told = f"order={order}"
            yield Destruction(f"{invocation.name}_order", told, Badness.PLAIN, ActEffect.HANDS_OVER)
            return


TOOLS: Mapping[str, Reader] = {
    "hdfs": _hdfs,
    "hadoop": _hdfs,
    "etcdctl": _etcd,
    **dict.fromkeys(
        listed("claude codex gemini aider llm opencode goose amp cursor-agent copilot qwen crush droid auggie"), _agent
    ),
}
