"""Documents of results with figures that a test chooses."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import throughput
from benchmarks.reporting.quiet import Watch
from benchmarks.reporting.report import Document, Results
from benchmarks.throughput import Throughput

MIB = 2**20


def rate(engine: str, events_per_s: float, cpu_us: float = 40.0, number: int = 1) -> Throughput:
    return Throughput(
        engine=engine, what="work", sessions=1000, round=number, events=400_000, events_per_s=events_per_s,
        cpu_us_per_event=cpu_us, peak_rss_bytes=200 * MIB, changelog_bytes=MIB, complete=True,
    )  # fmt: skip


def document(
    *,
    rates: Sequence[Throughput] = (),
    calibration_us: Sequence[float] = (1.0, 1.0),
    settings: Mapping[str, Any] | None = None,
) -> Document:
    """A run of the part that is compared with that of a peer."""
    results = Results(
        settings=dict(settings or {"events": 400_000}),
        watch=Watch(average_before=[0.1, 0.1, 0.1], others_by_part={"throughput": 0.01}),
        calibration_us=list(calibration_us),
        throughput=list(rates or [rate(throughput.OURS.name, 30_000), rate("bare loop, detect", 33_000, 30)]),
    )
    return results.as_json()
