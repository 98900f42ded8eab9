"""`python -m benchmarks.sessions`: a worker with many live sessions, whose states are those of recorded sessions.

The changelog is filled with the states of recorded sessions, under new names. Measured are their size there, the time
until a worker decides, its memory, and the duration of its checkpoints then.
"""

import argparse
import random
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, cast

import orjson
from msgspec.structs import replace

from benchmarks import command, processes, verdicts
from benchmarks.cluster import PARTITIONS, Cluster, Group, Sender, started
from benchmarks.quality.sessions import default_files, read
from benchmarks.reporting.report import machine
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core, Position, SessionState
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.kafka import free_port
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.runtime.changelog import CLAIM_KEY, OWNER_HEADER, TOPIC_IDS_HEADER, Owner
from haltline.streams.sessions import state_codec

_EVENTS = 20_000
_WITHIN_S = 900.0
PREFIX = "live"
_CHECKPOINTS = "haltline_checkpoint_duration_seconds"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0."""
    args = _options().parse_args(arguments)
    states = recorded(args.files or default_files())
    with started("sessions") as (cluster, children, _):
        measured = _measure(
            cluster, children, states, args.sessions, compression=args.compression, version=args.state_version
        )
    print(orjson.dumps(measured | {"machine": machine()}, option=orjson.OPT_INDENT_2).decode())
    return 0


def recorded(files: Sequence[Path]) -> list[SessionState]:
    """The final states of recorded sessions."""
    core, states = Core(), []
    for known in read(files):
        state: SessionState | None = None
        for offset, (_, event) in enumerate(known.session.events):
            state = core.on_event(state, event, Position("actions", 0, offset)).state
        if state is not None and state.standing.killed is None:  # a killed session is not live
            states.append(replace(state, offsets={}))
    return states


def _measure(
    cluster: Cluster,
    children: Children,
    states: Sequence[SessionState],
    sessions: int,
    *,
    compression: str,
    version: int,
) -> dict[str, Any]:
    group, topics = "sessions", Topics("sessions.")
    changelog = f"{group}-sessions-changelog"
    cluster.make_topics(topics, changelog)
    empty_start_s, worker = _start(cluster, children, topics, group, "empty")
    processes.stop(worker)
    sizes = fill(cluster, changelog, states, sessions, compression=compression, version=version)
    port = free_port()
    options = ["--metrics-port", str(port), "--state-version", str(version)]
    start_s, worker = _start(cluster, children, topics, group, "again", options)
    cpu_s, ready_rss = processes.cpu_s(worker.pid), processes.rss_bytes(worker.pid)
    touched = min(sessions, _EVENTS)
    before = _checkpoints(port)
    watched = Group(cluster.bootstrap, group, [topics.actions])
    _touch(cluster, topics, touched)
    end = watched.end()
    processes.wait_until(worker, lambda: watched.committed() == end, "lag zero", within_s=_WITHIN_S)
    count, seconds = (now - then for now, then in zip(_checkpoints(port), before, strict=True))
    rss = processes.rss_bytes(worker.pid)
    watched.close()
    processes.stop(worker)
    return {
        "sessions": sessions,
        "state_version": version,
        "state_bytes_median": round(median(sizes)),
        "changelog_bytes": cluster.log_bytes(changelog),  # on the broker's disk
        "compression": compression,  # of the producer that filled the changelog
        "empty_start_s": empty_start_s,  # until a verdict from every partition, with nothing to recover
        "start_s": start_s,  # the same with these sessions
        "start_cpu_s": cpu_s,
        "rss_bytes": ready_rss,  # after recovery: sessions are kept as bytes until their next event
        "touched": touched,  # sessions that then got an event each, at once
        "checkpoint_s": seconds / max(1, count),  # the mean duration of the checkpoints after these events
        "touched_rss_bytes": rss,
    }


def _start(  # noqa: PLR0917 - the parameters that all benchmarks share
    cluster: Cluster, children: Children, topics: Topics, group: str, label: str, more: Sequence[str] = ()
) -> tuple[float, Child]:
    """Start a worker; return the seconds until each partition gave a verdict, and the running worker."""
    probe = verdicts.Probe(cluster.bootstrap, topics, label)
    began = time.perf_counter()
    worker = processes.start_worker(children, f"{group}-{label}", cluster.bootstrap, topics.prefix, group, *more)
    probe.wait([worker])
    return time.perf_counter() - began, worker


def fill(
    cluster: Cluster,
    changelog: str,
    states: Sequence[SessionState],
    sessions: int,
    *,
    compression: str = "none",
    version: int = state_codec.VERSION,
) -> list[int]:
    """Write states under new names, like a worker; return their sizes in bytes."""
    headers = _headers(cluster, changelog)
    sender = Sender(cluster.bootstrap, changelog, {"linger.ms": 20, "compression.type": compression})
    sizes: list[int] = []
    shuffled = random.Random(1).sample(states, len(states))
    for number in range(sessions):
        state = replace(shuffled[number % len(states)], session_id=name_of(number))
        value = state_codec.encode(state, version)
        sizes.append(len(value))
        partition = partition_of(name_of(number), PARTITIONS)
        sender.send(name_of(number), value, partition=partition, headers=headers[partition])
    sender.finish()
    return sizes


def name_of(number: int) -> str:
    """Return the name that `benchmarks.load` gives the session with this number, with this prefix and seed 1."""
    return f"{PREFIX}-1-{number:07d}"


def _headers(cluster: Cluster, changelog: str) -> Mapping[int, list[tuple[str, str | bytes | None]]]:
    """By partition: the headers of states that its owner writes. The probes' worker has claimed each partition."""
    logs: list[tuple[str, str | bytes | None]] = []
    owners: dict[int, Owner] = {}
    with LogReader(cluster.bootstrap, [changelog]) as reader:
        for message in reader.to_end():
            key, partition = message.key() or b"", int(message.partition() or 0)
            headers = cast("list[tuple[str, bytes]]", message.headers() or [])
            if key.startswith(CLAIM_KEY):
                owners[partition] = Owner(int(message.offset() or 0), headers[0][1])
            else:
                logs = [(name, value) for name, value in headers if name == TOPIC_IDS_HEADER]
    if len(owners) != PARTITIONS or not logs:
        raise RuntimeError(f"{changelog}: expected claims of {PARTITIONS} partitions and a state, got {len(owners)}")
    return {number: [(OWNER_HEADER, owner.encode()), *logs] for number, owner in owners.items()}


def _touch(cluster: Cluster, topics: Topics, sessions: int) -> None:
    """Send one event of each of this many sessions."""
    sender = Sender(cluster.bootstrap, topics.actions)
    for number in range(sessions):
        event = ActionEvent(
            event_id=f"touch-{number}",
            kind=Kind.PROPOSED,
            session_id=name_of(number),
            time=time.time_ns() // 1_000_000,
            action="read_file",
            call_id=f"touch-{number}",
            args={"path": f"f{number}"},
        )
        sender.send(event.session_id, event.to_json())
    sender.finish()


def _checkpoints(port: int) -> tuple[float, float]:
    """The number of checkpoints so far, and their total seconds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        reported = answer.read().decode().splitlines()
    count, seconds = (
        next((float(line.split()[1]) for line in reported if line.startswith(f"{_CHECKPOINTS}_{what} ")), 0.0)
        for what in ("count", "sum")
    )
    return count, seconds


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.sessions", __doc__, "--sessions 100000")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="recorded traces (../shared/traces)")
    parser.add_argument("--sessions", type=int, default=100_000, help="live sessions (%(default)s)")
    parser.add_argument(
        "--compression", default="none", choices=("none", "lz4", "zstd"), help="compression of the changelog"
    )
    parser.add_argument("--state-version", type=int, default=2, choices=(2, 3), help="format of states (%(default)s)")
    return parser


if __name__ == "__main__":
    command.run(main)
