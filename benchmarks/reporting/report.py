"""One run as a document: every figure, the machine, and its other load."""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.latency import Latency
from benchmarks.pairs import Pair
from benchmarks.reporting.machine import machine
from benchmarks.reporting.quiet import Watch
from benchmarks.sink import Sunk
from benchmarks.throughput import Throughput

__all__ = ["FORMAT", "Document", "NotResults", "Results", "load", "machine"]

FORMAT: Final = 1

Document = dict[str, Any]
"""The content of a file of results: JSON values by name."""


@dataclass
class Results:
    """One run."""

    settings: dict[str, Any] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    calibration_us: list[float] = field(default_factory=list)
    """The calibration before each part: microseconds of processor time per step."""
    throughput: list[Throughput] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    sink: list[Sunk] = field(default_factory=list)
    guard: Document | None = None
    """The results of benchmarks.overhead."""
    core: Document | None = None
    """The results of benchmarks.core; the first cost is its calibration."""
    pairs: list[Pair] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Parts that were not measured, with the reason."""

    def as_json(self) -> Document:
        """JSON values. Two runs can be compared if they have the same `format`."""
        return {
            "format": FORMAT,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": machine(),
            "load": self.watch.as_json(),
            "settings": self.settings,
            "skipped": self.skipped,
            "calibration_us": self.calibration_us,
            "throughput": [asdict(result) for result in self.throughput],
            "latency": [asdict(result) for result in self.latency],
            "guard": self.guard,
            "core": self.core,
            "sink": [asdict(result) for result in self.sink],
            "pairs": [asdict(pair) for pair in self.pairs],
        }


class NotResults(ValueError):
    """A file that this release cannot read as results; the message names it, and what was expected and received."""


def load(file: Path) -> Document:
    """Return the document in a file. Raises NotResults."""
    try:
        document = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise NotResults(f"{file}: expected results of `python -m benchmarks --json`, got {error}") from error
    given = document.get("format") if isinstance(document, dict) else None
    if given != FORMAT:
        raise NotResults(f"{file}: expected results of format {FORMAT}, got {given!r}")
    return dict(document)
