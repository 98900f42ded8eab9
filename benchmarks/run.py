"""One run: every part, one after another, on one real Kafka."""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from benchmarks import core, latency, overhead, pairs, sink, throughput
from benchmarks.cluster import Cluster
from benchmarks.engines import kafka_streams
from benchmarks.load import Load, generate
from benchmarks.quality.sessions import default_files
from benchmarks.reporting.machine import calibration
from benchmarks.reporting.report import Document, Results
from benchmarks.reporting.tables import show
from benchmarks.throughput import Engine
from haltline.schemas.topics import Topics
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import LocalKafkaError, fetch
from haltline.streams.local.subprocesses import Children

PARTS = ("pairs", "throughput", "latency", "guard", "core", "sink")
WITHOUT_KAFKA = frozenset({"pairs", "guard", "core"})
_OURS_AT_MOST_S = 900.0
_WIDTH = 160  # without a terminal, too


def run(args: argparse.Namespace, console: Console) -> Document:
    """Measure the selected parts; print the results and write them as JSON, even if a part fails."""
    results = Results(settings=settings_of(args))
    with tempfile.TemporaryDirectory(prefix="haltline-bench-") as scratch:
        os.environ["TMPDIR"] = scratch  # temporary files of the engines are deleted with it
        logs = Path(args.logs or scratch, "logs")
        console.print(f"Logs of everything that runs: {logs}")
        try:
            with ExitStack() as stack:
                cluster = None
                if not WITHOUT_KAFKA.issuperset(args.only):
                    console.print("Starting Kafka ...")
                    cluster = Cluster(stack.enter_context(LocalKafka(Path(scratch, "kafka"), jars=fetch())))
                children = stack.enter_context(Children(logs))
                _Run(args, cluster, children, results, console, Path(scratch)).all_parts()
        finally:  # after a failure, keep the earlier results
            document = results.as_json()
            show(document, Console(width=_WIDTH))
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
            console.print(f"Written: {args.json}")
    return document


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings on which the figures depend, without paths of this machine."""
    return {name: value for name, value in vars(args).items() if isinstance(value, int | float | list)}


@dataclass(frozen=True)
class _Run:
    """The state that all parts share."""

    args: argparse.Namespace
    started: Cluster | None
    children: Children
    results: Results
    console: Console
    scratch: Path

    @property
    def cluster(self) -> Cluster:
        if self.started is None:
            raise RuntimeError(f"expected only {', '.join(sorted(WITHOUT_KAFKA))} without a Kafka, got another part")
        return self.started

    def all_parts(self) -> None:
        parts: dict[str, Callable[[], None]] = {
            "pairs": self.pairs,
            "throughput": self.throughput,
            "latency": self.latency,
            "guard": self.guard,
            "core": self.core,
            "sink": self.sink,
        }
        for name in self.args.only:
            self.results.calibration_us.append(calibration())
            with self.results.watch.part(name):
                parts[name]()
        self.results.calibration_us.append(calibration())

    def pairs(self) -> None:
        self.console.print("Parts beside their peers, in turns ...")
        self.results.pairs += pairs.measure(self.scratch)

    def throughput(self) -> None:
        args = self.args
        engines = [throughput.OURS, *throughput.PEERS]
        if args.short:
            engines = [engine for engine in engines if engine.name in throughput.OF_SHORT_RUNS]
        elif why := self._missing_streams():
            engines = [engine for engine in engines if engine.module != throughput.STREAMS]
            self.results.skipped["Kafka Streams"] = why
        for sessions in args.sessions:
            topics = self.fill(sessions)
            for number in range(1, args.rounds + 1):
                for engine in engines:
                    self.one_engine(engine, topics, sessions, number)

    def _missing_streams(self) -> str:
        if why := kafka_streams.missing():
            return why
        try:
            kafka_streams.jars()  # not while it is measured
        except LocalKafkaError as error:
            return str(error).splitlines()[0]
        return ""

    def one_engine(self, engine: Engine, topics: Topics, sessions: int, number: int) -> None:
        args = self.args
        self.console.print(f"{engine.name} over {sessions:,} sessions, round {number} ...")
        ours = engine is throughput.OURS
        result = throughput.measure(
            engine,
            self.cluster,
            self.children,
            topics,
            sessions=sessions,
            round_number=number,
            # With every rule all events are processed, too: findings change with the age of the sessions.
            at_most_s=_OURS_AT_MOST_S if ours or engine.name == throughput.EVERY_RULE else args.peer_seconds,
        )
        if ours and not result.complete:
            raise RuntimeError(f"{engine.name}: expected {args.events} events done, got {result.events}")
        self.results.throughput.append(result)
        if result.events_per_s is not None:
            took = "" if result.complete else f"; all would take {args.events / result.events_per_s:,.0f} s"
            self.console.print(f"  {result.events_per_s:,.0f} events/s{took}")

    def latency(self) -> None:
        args = self.args
        for rate in args.rates:
            self.console.print(f"Decision latency at {rate} events/s, echo and worker in turns ...")
            self.results.latency += latency.measure(
                self.cluster,
                self.children,
                rate,
                args.latency_seconds,
                rounds=max(2, args.rounds),
                workers=args.latency_workers,
            )

    def guard(self) -> None:
        self.console.print("Guarded calls ...")
        measured = overhead.measure(self.args.pieces).as_json()
        del measured["machine"]  # it is the run's
        self.results.guard = measured

    def core(self) -> None:
        files = [file for file in (self.args.traces / file.name for file in default_files()) if file.is_file()]
        if not files:
            self.results.skipped["the core on recorded sessions"] = "no recorded sessions on this machine"
            return
        self.console.print("The core on recorded sessions ...")
        args = self.args
        measured = core.measure(files, copies=1, rounds=args.core_rounds, seed=args.seed, console=self.console)
        found = measured.as_json()
        self.results.core = {name: found[name] for name in ("settings", "costs", "states")}

    def sink(self) -> None:
        topics = Topics("benchsink.")
        self.console.print(f"Producing {self.args.sink_events:,} events of {sink.EVENT_BYTES} bytes for the sinks ...")
        sink.fill(self.cluster, topics, self.args.sink_events, self.args.seed)
        for result in sink.measure(self.cluster, self.children, topics, self.scratch, few=self.args.short):
            self.results.sink.append(result)
            self.console.print(f"  {result.engine}: {result.rows_per_s or 0:,.0f} rows/s")

    def fill(self, sessions: int) -> Topics:
        """Fill a topic with the events of a throughput run."""
        topics, events = Topics(f"bench{sessions}."), self.args.events
        self.console.print(f"Producing {events:,} events of {sessions:,} sessions ...")
        self.cluster.make_topics(topics, f"{topics.prefix}changelog")
        size = self.cluster.fill(topics.actions, generate(self.load(events, sessions)))
        self.console.print(f"  {size / events:.0f} bytes each")
        return topics

    def load(self, events: int, sessions: int) -> Load:
        twelve_hours_ago_ms = time.time_ns() // 1_000_000 - 12 * 3_600_000
        return Load(events=events, sessions=sessions, start_ms=twelve_hours_ago_ms, seed=self.args.seed)
