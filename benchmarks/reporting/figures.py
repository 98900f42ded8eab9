"""Every figure of a document by name, with its base in the same run: a peer's figure or the calibration."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from benchmarks import latency, overhead, sink, throughput
from benchmarks.reporting.report import Document

CALIBRATION: Final = "calibration: CPU us a step"
_REPEATED: Final = 0.05
_ONCE: Final = 0.15
_TAIL: Final = 0.5
_IN_TURNS: Final = 0.2
_CORE_IN_TURNS: Final = (
    0.5  # it uses more of the CPU caches than its base: under different load, it varied by two fifths
)
_OURS: Final = "haltline"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a run."""

    values: tuple[float, ...]
    """One value per round."""
    higher_is_better: bool = False
    base: str | None = None
    """The figure of the same run that it is compared to; None: absolute."""
    least: float = _ONCE
    """The smallest change that counts, as a share, even if the rounds are closer."""
    part: str = ""
    """The part of the run whose other load distorts it; empty: processor time in turns, which it does not."""
    judged: bool = True
    """True for a figure of haltline, False for one of a peer or the calibration."""

    @property
    def value(self) -> float:
        """Return the median of the rounds."""
        return median(self.values)


def figures(document: Document) -> dict[str, Figure]:
    """Return all figures by name."""
    return dict(_all(document))


def relative(figure: Figure, base: Figure | None) -> tuple[float, ...]:
    """Return the values of a figure as multiples of its base: by round if both have the same number of rounds.

    Without a base, return the values unchanged.
    """
    if base is None:
        return figure.values
    if len(base.values) == len(figure.values):
        return tuple(own / other for own, other in zip(figure.values, base.values, strict=True))
    return tuple(own / base.value for own in figure.values)


def _all(document: Document) -> Iterator[tuple[str, Figure]]:
    yield CALIBRATION, Figure(values=tuple(document["calibration_us"]), judged=False)
    for pair in document.get("pairs", ()):
        name, beside = f"{pair['name']}: CPU us", f"{pair['beside']}, in turns with {pair['name']}: CPU us"
        least = _CORE_IN_TURNS if pair["name"].startswith("core") else _IN_TURNS
        yield beside, Figure(values=tuple(pair["peer_us"]), judged=False)
        yield name, Figure(values=tuple(pair["ours_us"]), base=beside, least=least)
    parts = {
        "throughput": _throughput,
        "latency": _latency,
        "sink": _sink,
        "guard": _guard,
        "core": _core,
    }
    for part, figures_of in parts.items():
        yield from ((name, replace(figure, part=part)) for name, figure in figures_of(document))


def _guard(document: Document) -> Iterator[tuple[str, Figure]]:
    for cost in (document["guard"] or {}).get("costs", ()):
        ours, name = cost["name"].startswith(_OURS), f"guarded call, {cost['name']}: us"
        base = f"guarded call, {overhead.PEER}: us" if ours else None
        yield name, Figure(values=(cost["best_us"],), base=base, judged=ours)


def _core(document: Document) -> Iterator[tuple[str, Figure]]:
    for cost in (document["core"] or {}).get("costs", ()):
        ours = cost["times_calibration"] != 1  # the first one is the calibration, of which the others are multiples
        yield (
            f"core, {cost['name']}: times its calibration",
            Figure(values=(cost["times_calibration"],), judged=ours, least=_REPEATED),
        )


def _throughput(document: Document) -> Iterator[tuple[str, Figure]]:
    rounds: dict[tuple[str, int], list[Document]] = defaultdict(list)
    for result in document["throughput"]:
        rounds[result["engine"], result["sessions"]].append(result)
    for (engine, sessions), results in rounds.items():
        ours = engine.startswith(_OURS)
        least = _REPEATED if len(results) > 1 and not document["settings"].get("short") else _ONCE
        at = f"{sessions:,} sessions"
        rates = tuple(result["events_per_s"] for result in results if result["events_per_s"])
        base = f"{throughput.BARE_DETECT}, {at}: events/s" if ours else None
        if rates:
            yield (
                f"{engine}, {at}: events/s",
                Figure(values=rates, higher_is_better=True, base=base, judged=ours, least=least),
            )
        costs = tuple(result["cpu_us_per_event"] for result in results if result["cpu_us_per_event"])
        if costs:
            yield f"{engine}, {at}: CPU us/event", Figure(values=costs, base=CALIBRATION, judged=ours, least=least)


def _latency(document: Document) -> Iterator[tuple[str, Figure]]:
    for result in document["latency"]:
        ours = result["engine"] == latency.WORKER
        for which, least in (("p50", _ONCE), ("p99", _TAIL)):
            base = f"{latency.ECHO} at {result['rate']:,} events/s: {which} ms" if ours else None
            name = f"{result['engine']} at {result['rate']:,} events/s: {which} ms"
            values = tuple(result[f"{which}_ms_by_round"])
            yield name, Figure(values=values, base=base, judged=ours, least=least)


def _sink(document: Document) -> Iterator[tuple[str, Figure]]:
    for result in document["sink"]:
        engine = result["engine"]
        ours = engine.startswith(_OURS)
        for what, key, higher in (("rows/s", "rows_per_s", True), ("CPU us/row", "cpu_us_per_row", False)):
            if result[key]:
                base = f"{sink.PEER}: {what}" if ours else None
                yield (
                    f"{engine}: {what}",
                    Figure(values=(result[key],), higher_is_better=higher, base=base, judged=ours),
                )
