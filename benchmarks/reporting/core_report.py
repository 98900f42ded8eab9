"""The results of `benchmarks.core` as data, JSON and tables."""

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console

from benchmarks.reporting.machine import machine
from benchmarks.reporting.table import table_of

_AIM_PER_S = 100_000
CALIBRATION, DECODE, CORE, BOTH = (
    "orjson reads the bytes",
    "decode only",
    "core with every detector",
    "decode, then core",
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one way to process the events: the best round of each piece, since other load only adds time."""

    name: str
    wall_ns: float
    """Nanoseconds per event."""
    cpu_ns: float

    @property
    def per_s(self) -> float:
        return 1e9 / self.wall_ns

    @property
    def per_cpu_s(self) -> float:
        return 1e9 / self.cpu_ns


@dataclass(frozen=True, kw_only=True)
class States:
    """The final states of sessions, as written to the changelog."""

    sessions: int
    bytes_median: int
    bytes_max: int
    largest: str
    """The session with the largest state."""
    encode_us: float
    """Microseconds per state."""
    decode_us: float


@dataclass(kw_only=True)
class Measured:
    """One run."""

    events: int
    event_bytes: float
    sessions: int
    rounds: int
    states: States
    costs: dict[str, Cost] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        base = self.costs[CALIBRATION].cpu_ns
        return {
            "settings": {k: getattr(self, k) for k in ("events", "event_bytes", "sessions", "rounds")},
            "costs": [
                asdict(cost)
                | {"per_s": cost.per_s, "per_cpu_s": cost.per_cpu_s, "times_calibration": cost.cpu_ns / base}
                for cost in self.costs.values()
            ],
            "states": asdict(self.states),
            "machine": machine(),
        }


def show(measured: Measured, console: Console) -> None:
    base = measured.costs[CALIBRATION]
    console.print(
        f"{measured.events:,} events of {measured.event_bytes:.0f} bytes, {measured.sessions:,} sessions, "
        f"best of {measured.rounds} rounds"
    )
    table = table_of("The core alone", ["", "events/s", "events per CPU second", "CPU us/event", "calibration, times"])
    for cost in measured.costs.values():
        times = f"{cost.cpu_ns / base.cpu_ns:.1f}"
        table.add_row(cost.name, f"{cost.per_s:,.0f}", f"{cost.per_cpu_s:,.0f}", f"{cost.cpu_ns / 1000:.2f}", times)
    console.print(table)
    s = measured.states
    console.print(
        f"State of a session: {s.bytes_median:,} bytes in the median, {s.bytes_max:,} at most "
        f"({s.largest}); {s.encode_us:.1f} us to encode, {s.decode_us:.1f} us to decode",
        highlight=False,
    )
    reached = measured.costs[CORE].per_cpu_s / _AIM_PER_S
    console.print(f"Aim: {_AIM_PER_S:,} events/s on one quiet core; here {reached:.0%} of it, by processor time")
