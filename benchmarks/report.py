"""What was measured, as people read it and as programs read it."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.latency import ECHO, WORKER, Latency
from benchmarks.recovery import Recovery
from benchmarks.sink import OURS as SINK
from benchmarks.sink import Sunk
from benchmarks.throughput import OURS, Throughput

_MIB = 1024 * 1024


@dataclass
class Results:
    """One run."""

    throughput: list[Throughput] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    recovery: list[Recovery] = field(default_factory=list)
    sink: list[Sunk] = field(default_factory=list)
    load_average: list[float] = field(default_factory=list)
    """Of the last minute, before and after: above zero before, others were at work."""
    settings: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Ratios first, then everything that was measured."""
        return {
            "ratios": {
                "throughput": [asdict(ratio) for ratio in self.throughput_ratios()],
                "latency": [asdict(ratio) for ratio in self.latency_ratios()],
                "sink": [asdict(ratio) for ratio in self.sink_ratios()],
            },
            "throughput": [asdict(result) for result in self.throughput],
            "latency": [asdict(result) for result in self.latency],
            "recovery": [asdict(result) | {"recovery_s": result.recovery_s} for result in self.recovery],
            "sink": [asdict(result) for result in self.sink],
            "settings": self.settings,
            "machine": machine() | {"load_average": self.load_average},
        }

    def throughput_ratios(self) -> list["ThroughputRatio"]:
        """The worker to each peer, over the same topic."""
        ours = {result.sessions: result for result in self.throughput if result.engine == OURS.name}
        return [
            ThroughputRatio(
                peer=peer.engine,
                sessions=peer.sessions,
                events_per_s=_ratio(ours[peer.sessions].events_per_s, peer.events_per_s),
                events_per_cpu_s=_ratio(peer.cpu_us_per_event, ours[peer.sessions].cpu_us_per_event),
            )
            for peer in self.throughput
            if peer.engine != OURS.name and peer.sessions in ours
        ]

    def sink_ratios(self) -> list["SinkRatio"]:
        """The audit sink to each peer, over the same topic."""
        return [
            SinkRatio(
                peer=peer.engine,
                rows_per_s=_ratio(ours.rows_per_s, peer.rows_per_s),
                rows_per_cpu_s=_ratio(peer.cpu_us_per_row, ours.cpu_us_per_row),
                bytes_written=_ratio(ours.bytes_written, peer.bytes_written),
            )
            for ours in self.sink
            if ours.engine == SINK
            for peer in self.sink
            if peer is not ours
        ]

    def latency_ratios(self) -> list["LatencyRatio"]:
        """The worker to the echo, at the same rate."""
        of = {(result.engine, result.rate): result for result in self.latency}
        rates = sorted({result.rate for result in self.latency})
        return [
            LatencyRatio(
                rate=rate,
                p50=of[WORKER, rate].p50_ms / of[ECHO, rate].p50_ms,
                p99=of[WORKER, rate].p99_ms / of[ECHO, rate].p99_ms,
            )
            for rate in rates
        ]


@dataclass(frozen=True, kw_only=True)
class ThroughputRatio:
    """How many times as fast the worker is as a peer; None where one of them could not be measured."""

    peer: str
    sessions: int
    events_per_s: float | None
    events_per_cpu_s: float | None


@dataclass(frozen=True, kw_only=True)
class LatencyRatio:
    """How many times as long a decision takes as an echo."""

    rate: int
    p50: float
    p99: float


@dataclass(frozen=True, kw_only=True)
class SinkRatio:
    """How many times as fast the audit sink is as a peer, and how many times as much it writes."""

    peer: str
    rows_per_s: float | None
    rows_per_cpu_s: float | None
    bytes_written: float | None


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("faust-streaming", "confluent-kafka", "pydantic", "orjson")},
    }


def show(results: Results, console: Console) -> None:
    """Prints the tables, ratios first."""
    _table(
        console,
        "Throughput: the worker to its peers, on the same topic in the same run",
        ["peer", "sessions", "events/s, times", "events per CPU second, times"],
        (
            [ratio.peer, _count(ratio.sessions), _times(ratio.events_per_s), _times(ratio.events_per_cpu_s)]
            for ratio in results.throughput_ratios()
        ),
    )
    _table(
        console,
        "Decision latency: the worker to a bare echo",
        ["events/s", "p50, times", "p99, times"],
        ([_count(ratio.rate), _times(ratio.p50), _times(ratio.p99)] for ratio in results.latency_ratios()),
    )
    _table(
        console,
        "Throughput, from the first to the last commit that was seen (*: of a longer input, the time was up)",
        ["engine", "sessions", "events", "events/s", "CPU us/event", "peak MiB", "changelog MiB"],
        (
            [
                result.engine,
                _count(result.sessions),
                _count(result.events) + ("" if result.complete else " *"),
                "too short" if result.events_per_s is None else _count(round(result.events_per_s)),
                _number(result.cpu_us_per_event),
                _mib(result.peak_rss_bytes),
                _mib(result.changelog_bytes),
            ]
            for result in results.throughput
        ),
    )
    for engine, what in {result.engine: result.what for result in results.throughput}.items():
        console.print(f"  {engine}: {what}", highlight=False)
    _table(
        console,
        "Decision latency, produce to received",
        ["engine", "events/s", "answers", "p50 ms", "p99 ms", "max ms", "missing"],
        (
            [
                result.engine,
                _count(result.rate),
                _count(result.answers),
                f"{result.p50_ms:.2f}",
                f"{result.p99_ms:.2f}",
                f"{result.max_ms:.1f}",
                str(result.missing),
            ]
            for result in results.latency
        ),
    )
    _table(
        console,
        "Recovery of a worker from its changelog",
        ["sessions", "records", "changelog MiB", "recovery s", "whole start s", "recovered MiB", "peak MiB"],
        (
            [
                _count(result.sessions),
                _count(result.changelog_records),
                _mib(result.changelog_bytes),
                f"{result.recovery_s:.1f}",
                f"{result.start_s:.1f}",
                _mib(result.rss_bytes),
                _mib(result.peak_rss_bytes),
            ]
            for result in results.recovery
        ),
    )
    _show_sinks(results, console)


def _show_sinks(results: Results, console: Console) -> None:
    _table(
        console,
        "The audit sink to a consumer that writes Parquet, on the same topic in the same run",
        ["peer", "rows/s, times", "rows per CPU second, times", "bytes, times"],
        (
            [ratio.peer, _times(ratio.rows_per_s), _times(ratio.rows_per_cpu_s), _times(ratio.bytes_written)]
            for ratio in results.sink_ratios()
        ),
    )
    _table(
        console,
        f"Sinks, {results.sink[0].rows if results.sink else 0:,} rows",
        ["engine", "what", "rows/s", "CPU us/row", "CPU s", "peak MiB", "MiB written", "commits"],
        (
            [
                result.engine,
                result.what,
                "too short" if result.rows_per_s is None else _count(round(result.rows_per_s)),
                _number(result.cpu_us_per_row),
                _number(result.cpu_s),
                _mib(result.peak_rss_bytes),
                _mib(result.bytes_written),
                _count(result.commits),
            ]
            for result in results.sink
        ),
    )


def _table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        console.print(table)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _count(value: int) -> str:
    return f"{value:,}"


def _mib(value: int | None) -> str:
    return "-" if value is None else f"{value / _MIB:,.0f}"
