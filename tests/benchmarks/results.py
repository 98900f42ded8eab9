"""Documents of results with figures that a test chooses."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import latency, overhead, sink, throughput
from benchmarks.latency import Latency
from benchmarks.pairs import Pair
from benchmarks.reporting.quiet import Watch
from benchmarks.reporting.report import Document, Results
from benchmarks.sink import Sunk
from benchmarks.throughput import Throughput

MIB = 2**20


def rate(engine: str, events_per_s: float, cpu_us: float = 40.0, number: int = 1) -> Throughput:
    return Throughput(
        engine=engine, what="work", sessions=1000, round=number, events=400_000, events_per_s=events_per_s,
        cpu_us_per_event=cpu_us, peak_rss_bytes=200 * MIB, changelog_bytes=MIB, complete=True,
    )  # fmt: skip


def answers(engine: str, p50_ms: float, p99_ms: float) -> Latency:
    return Latency(
        engine=engine, rate=200, answers=1000, p50_ms=p50_ms, p99_ms=p99_ms, max_ms=2 * p99_ms, missing=0,
        p50_ms_by_round=[p50_ms, p50_ms], p99_ms_by_round=[p99_ms, p99_ms], cpu_us=[100.0, 150.0, 200.0],
    )  # fmt: skip


def sunk(engine: str, rows_per_s: float, cpu_us: float) -> Sunk:
    return Sunk(
        engine=engine, what="rows", rows=200_000, rows_per_s=rows_per_s, cpu_us_per_row=cpu_us, cpu_s=8.0,
        peak_rss_bytes=400 * MIB, bytes_written=200_000 * 170, commits=5,
    )  # fmt: skip


def document(
    *,
    rates: Sequence[Throughput] = (),
    calibration_us: Sequence[float] = (1.0, 1.0),
    settings: Mapping[str, Any] | None = None,
) -> Document:
    """A run with every part; each figure of a peer is as far from ours as in a real one."""
    results = Results(
        settings=dict(settings or {"events": 400_000}),
        watch=Watch(average_before=[0.1, 0.1, 0.1], others_by_part={"throughput": 0.01}),
        calibration_us=list(calibration_us),
        throughput=list(
            rates
            or [
                rate(throughput.OURS.name, 30_000),
                rate("stock Faust, detect", 3_000, 360),
                rate("bare loop, detect", 33_000, 30),
                rate(throughput.BARE_COUNT, 120_000, 3),
                rate("Kafka Streams, count", 100_000, 12),
                rate(throughput.EVERY_RULE, 9_000, 110),
            ]
        ),
        latency=[answers(latency.ECHO, 1.0, 4.0), answers(latency.WORKER, 1.5, 6.0)],
        pairs=[Pair(name="sink", beside="a peer", ours_us=[40.0, 41.0], peer_us=[20.0, 20.0])],
        sink=[sunk(sink.OURS, 20_000, 30.0), sunk(sink.PEER, 60_000, 15.0)],
        guard={
            "pieces": 10,
            "costs": [
                {"name": name, "best_us": best, "median_us": best * 1.5, "cpu_us": best}
                for name, best in ((overhead.PEER, 90.0), (overhead.ASYNC, 30.0), (overhead.LOCAL, 100.0))
            ],
        },
    )
    results.core = {
        "costs": [
            {"name": name, "cpu_ns": cpu_ns, "per_cpu_s": 1e9 / cpu_ns, "times_calibration": cpu_ns / 1000}
            for name, cpu_ns in (("orjson reads the bytes", 1000.0), ("core with every detector", 70_000.0))
        ]
    }
    return results.as_json()
