"""The audit sink compared with a plain consumer that writes Parquet, on the same preloaded topic."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.cluster import Cluster, Group
from benchmarks.load import Load, Sent, generate
from benchmarks.throughput import Seen, cpu_us, events_per_s, watch
from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Children

EVENT_BYTES: Final = 500
OURS: Final = "haltline audit"
PEER: Final = "consumer to Parquet"
_PEER_MODULE: Final = "benchmarks.engines.parquet_sink"
_WITHIN_S: Final = 600.0
_PADDING: Final = "The rows of this part are sound; columns id, amount and day are there. "


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A sink and its options."""

    name: str
    what: str
    module: str
    options: tuple[str, ...] = ()


def engines(key: Path) -> tuple[Engine, ...]:
    """Our sink as in production, with parts switched off, and the peer."""
    signed = ("--signing-key", str(key))
    return (
        Engine(name=OURS, what="and redacted", module=processes.WORKER, options=signed),
        Engine(
            name=f"{OURS} --redact none", what="exactly once, chained, signed", module=processes.WORKER,
            options=(*signed, "--redact", "none"),
        ),
        Engine(name=PEER, what="the same columns, no promise", module=_PEER_MODULE),
        Engine(
            name="consumer to Parquet, raw", what="place, time, key, value", module=_PEER_MODULE,
            options=("--variant", "raw"),
        ),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sunk:
    """The result of one sink, from its first observed commit."""

    engine: str
    what: str
    rows: int
    rows_per_s: float | None
    """Up to its second to last commit, as it waits for more records before the last. None: the input is too short."""
    cpu_us_per_row: float | None
    """Of all its threads, up to its last commit; compare this instead of the rate on a shared machine."""
    cpu_s: float | None
    """Processor time from its start to its last commit."""
    peak_rss_bytes: int | None
    bytes_written: int
    """All files, including the table's log."""
    commits: int
    """Commits of the table; for the peer, files."""


def padded(load: Load, size: int = EVENT_BYTES) -> Iterator[Sent]:
    """The events of a load, each padded to `size` bytes with the head of an output."""
    start, end = b',"output_head":"', b'"}'
    for sent in generate(load):
        missing = size - (len(sent.value) - 1) - len(start) - len(end)
        text = (_PADDING * (missing // len(_PADDING) + 1))[: max(0, missing)]
        yield sent._replace(value=sent.value[:-1] + start + text.encode() + end)


def fill(cluster: Cluster, topics: Topics, events: int, seed: int) -> None:
    """Create the topics, and produce the events."""
    cluster.make_topics(topics, f"{topics.prefix}changelog")
    now_ms = time.time_ns() // 1_000_000
    cluster.fill(topics.actions, padded(Load(events=events, sessions=1000, start_ms=now_ms - 3_600_000, seed=seed)))


def measure(
    cluster: Cluster, children: Children, topics: Topics, scratch: Path, *, few: bool = False
) -> Iterator[Sunk]:
    """Run one sink after the other until it has committed everything; `few`: only ours as in production, and the peer.

    Raises RuntimeError at a timeout.
    """
    make_keys(scratch / "key.pem")
    for engine in engines(scratch / "key.pem"):
        if few and engine.name not in (OURS, PEER):
            continue
        folder = scratch / re.sub(r"\W+", "-", engine.name)
        group = f"{topics.prefix}{folder.name}"
        if engine.module == _PEER_MODULE:
            where = ["--topic", topics.actions, "--folder", str(folder)]
        else:
            where = ["--prefix", topics.prefix, "--table", str(folder), "--metrics-port", "0"]
        watched = Group(cluster.bootstrap, group, [topics.actions])
        arguments = ["--bootstrap", cluster.bootstrap, "--group", group, *where, *engine.options]
        if engine.module == processes.WORKER:
            arguments = ["audit", *arguments]
        child = processes.start(children, group, engine.module, arguments)
        end = watched.end()
        seen = watch(watched, child, end, _WITHIN_S)
        if seen[-1].events < end:
            raise RuntimeError(f"{group}: expected {end} rows within {_WITHIN_S:.0f} s, got {seen[-1].events}")
        peak_rss_bytes = processes.peak_rss_bytes(child.pid)
        watched.close()
        processes.stop(child)
        yield _result(engine, seen, folder, peak_rss_bytes)


def _result(engine: Engine, seen: Sequence[Seen], folder: Path, peak_rss_bytes: int | None) -> Sunk:
    first, last = seen[0], seen[-1]
    logs = list(folder.glob("_delta_log/*.json"))
    files = list(folder.rglob("*.parquet"))
    return Sunk(
        engine=engine.name,
        what=engine.what,
        rows=last.events,
        rows_per_s=events_per_s(seen) if len(seen) > 2 else None,
        cpu_us_per_row=cpu_us(first, last),
        cpu_s=last.cpu_s,
        peak_rss_bytes=peak_rss_bytes,
        bytes_written=sum(file.stat().st_size for file in [*files, *logs]),
        commits=len(logs) - 1 if logs else len(files),  # the first one creates the table
    )
