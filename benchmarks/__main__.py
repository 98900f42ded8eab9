"""`python -m benchmarks`: this worker beside its peers, on one real Kafka, in one run.

Absolute numbers are the machine's; compare the ratios of one run, and run it alone.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks import latency, profiling, recovery, sink, throughput
from benchmarks.cluster import Cluster
from benchmarks.load import Load, generate
from benchmarks.report import Results, show
from benchmarks.rules import CORE
from haltline.schemas.topics import Topics
from haltline.streams.children import Children, interruptible
from haltline.streams.kafka_jars import LocalKafkaError, fetch, missing_tools
from haltline.streams.local_kafka import LocalKafka

_PARTS = ("throughput", "latency", "recovery", "sink", "profile")
_OURS_AT_MOST_S = 900.0
_WIDTH = 120  # also where there is no terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when everything was measured."""
    asked = _options().parse_args(arguments)
    console = Console(stderr=True)
    if missing := missing_tools():
        console.print(f"benchmarks: expected {' and '.join(missing)}; got no such command on PATH")
        return 1
    with interruptible(), tempfile.TemporaryDirectory(prefix="haltline-bench-") as scratch:
        results = Results(load_average=[os.getloadavg()[0]], settings={"events": asked.events, "seed": asked.seed})
        logs = Path(asked.logs or scratch, "logs")
        console.print(f"Starting Kafka. Logs of everything that runs: {logs}")
        try:
            with LocalKafka(Path(scratch, "kafka"), jars=fetch()) as kafka, Children(logs) as children:
                _Run(asked, Cluster(kafka), children, results, console, Path(scratch)).all_parts()
        finally:  # what was measured before a failure is worth having
            results.load_average.append(os.getloadavg()[0])
            show(results, Console(width=_WIDTH))
            if asked.json is not None:
                asked.json.write_bytes(orjson.dumps(results.as_json(), option=orjson.OPT_INDENT_2))
                console.print(f"Written: {asked.json}")
    return 0


@dataclass(frozen=True)
class _Run:
    """What every part needs."""

    asked: argparse.Namespace
    cluster: Cluster
    children: Children
    results: Results
    console: Console
    scratch: Path

    def all_parts(self) -> None:
        asked, console = self.asked, self.console
        topics_of = {sessions: Topics(f"bench{sessions}.") for sessions in asked.sessions}
        if {"throughput", "profile"} & set(asked.only):
            for sessions, topics in topics_of.items():
                self.fill(topics, sessions)
        if "throughput" in asked.only:
            for sessions, topics in topics_of.items():
                self.throughput(topics, sessions)
        if "latency" in asked.only:
            for rate in asked.rates:
                console.print(f"Decision latency at {rate} events/s, echo and worker in turns ...")
                self.results.latency += latency.measure(self.cluster, self.children, rate, asked.latency_seconds)
        if "recovery" in asked.only:
            for sessions in asked.recovery:
                console.print(f"Recovery of {sessions:,} sessions ...")
                self.results.recovery.append(recovery.measure(self.cluster, self.children, sessions))
        if "sink" in asked.only:
            self.sink()
        if "profile" in asked.only:
            sessions, topics = next(iter(topics_of.items()))
            asked.profile.parent.mkdir(parents=True, exist_ok=True)
            for name, rules in (("first", CORE), ("every", ())):
                report = asked.profile.with_stem(f"{asked.profile.stem}-{name}")
                console.print(f"Profile of a worker with {name} rules and {sessions:,} sessions ...")
                said = profiling.measure(self.cluster, self.children, topics, report, rules)
                console.print(said, markup=False, highlight=False)
                console.print(f"All of it: {report}")

    def fill(self, topics: Topics, sessions: int) -> None:
        events = self.asked.events
        self.console.print(f"Producing {events:,} events of {sessions:,} sessions ...")
        self.cluster.make_topics(topics, f"{topics.prefix}changelog")
        size = self.cluster.fill(topics.actions, generate(self.load(events, sessions)))
        self.console.print(f"  {size / events:.0f} bytes each")

    def sink(self) -> None:
        topics = Topics("benchsink.")
        self.console.print(f"Producing {self.asked.sink_events:,} events of {sink.EVENT_BYTES} bytes for the sinks ...")
        sink.fill(self.cluster, topics, self.asked.sink_events, self.asked.seed)
        for result in sink.measure(self.cluster, self.children, topics, self.scratch):
            self.results.sink.append(result)
            self.console.print(f"  {result.engine}: {result.rows_per_s or 0:,.0f} rows/s")

    def throughput(self, topics: Topics, sessions: int) -> None:
        asked, console = self.asked, self.console
        for engine in (throughput.OURS, *throughput.PEERS):
            console.print(f"{engine.name} over {sessions:,} sessions ...")
            ours = engine is throughput.OURS
            result = throughput.measure(
                engine,
                self.cluster,
                self.children,
                topics,
                sessions=sessions,
                at_most_s=_OURS_AT_MOST_S if ours else asked.peer_seconds,
            )
            if ours and not result.complete:
                raise RuntimeError(f"{engine.name}: expected {asked.events} events done, got {result.events}")
            self.results.throughput.append(result)
            if result.events_per_s is not None:
                took = "" if result.complete else f"; all would take {asked.events / result.events_per_s:,.0f} s"
                console.print(f"  {result.events_per_s:,.0f} events/s{took}")
        alone = self.load(asked.core_events, min(sessions, asked.core_events))
        self.results.throughput.append(throughput.core_alone(alone))

    def load(self, events: int, sessions: int) -> Load:
        twelve_hours_ago_ms = time.time_ns() // 1_000_000 - 12 * 3_600_000
        return Load(events=events, sessions=sessions, start_ms=twelve_hours_ago_ms, seed=self.asked.seed)


def _numbers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


def _parts(text: str) -> list[str]:
    if unknown := set(text.split(",")) - set(_PARTS):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(_PARTS)}, got {', '.join(sorted(unknown))}")
    return text.split(",")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks --events 200000 --sessions 1000 --only throughput,profile",
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="events of each throughput run (%(default)s)")
    parser.add_argument("--sessions", type=_numbers, default=[1000, 100_000], help="throughput runs (1000,100000)")
    parser.add_argument("--rates", type=_numbers, default=[200, 1000], help="events/s of latency runs (200,1000)")
    parser.add_argument("--recovery", type=_numbers, default=[10_000, 100_000], help="sessions (10000,100000)")
    parser.add_argument("--only", type=_parts, default=list(_PARTS), help=f"some of {','.join(_PARTS)}")
    parser.add_argument("--peer-seconds", type=float, default=60.0, help="the most for one peer (%(default)s)")
    parser.add_argument("--latency-seconds", type=float, default=30.0, help="for each engine and rate (%(default)s)")
    parser.add_argument("--core-events", type=int, default=200_000, help="events for the core alone (%(default)s)")
    parser.add_argument("--sink-events", type=int, default=1_000_000, help="for each sink (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument(
        "--profile", type=Path, default=Path("build/profile.txt"), metavar="FILE", help="where it goes (%(default)s)"
    )
    parser.add_argument("--logs", metavar="DIR", help="keep the logs of the processes there")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
