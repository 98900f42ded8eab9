"""Comparison of two runs: the figures of the newer one that are better or worse beyond noise.

Each figure is compared as a multiple of the peer or of the calibration of its own run, so that a slower machine does
not look like slower code. Noise is half the spread of the rounds of both runs, and at least the variation of a single
figure. A change is not judged if other processes used the machine during that part of either run, or, for figures
measured in turns, if the runs had different processors or versions of Python.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from benchmarks.reporting.figures import figures, relative
from benchmarks.reporting.quiet import LOUD_FROM
from benchmarks.reporting.report import Document


class Verdict(StrEnum):
    """The verdict on a change."""

    BETTER = "better"
    SAME = "within noise"
    WORSE = "worse"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One figure in both runs: its values, and the new over the old one as multiples of the figure `base`.

    `base` is None for a figure without one, or if a run lacks it. A change of the ratio up to the share `noise` is not
    significant.
    """

    name: str
    old: float
    new: float
    base: str | None
    ratio: float
    noise: float
    verdict: Verdict


def compare(old: Document, new: Document) -> list[Change]:
    """Return the changes of haltline's figures that are in both, in the order of the newer document."""
    return list(_changes(old, new))


def only_in_one(old: Document, new: Document) -> tuple[list[str], list[str]]:
    """Return the names of figures that only the older one has, and that only the newer one has."""
    before, after = figures(old), figures(new)
    return [name for name in before if name not in after], [name for name in after if name not in before]


def remarks(old: Document, new: Document) -> list[str]:
    """Return remarks on the two runs for readers of the changes."""
    loud = [f"{which}: {run['load']['note']}" for which, run in (("old", old), ("new", new)) if run["load"]["note"]]
    differing = sorted(
        name
        for name in old["settings"].keys() | new["settings"].keys()
        if old["settings"].get(name) != new["settings"].get(name)
    )
    other = [f"Settings differ: {', '.join(differing)}."] if differing else []
    made_on = _made_on(old), _made_on(new)
    return (
        loud + other + ([f"Different machines: {made_on[0]}, then {made_on[1]}."] if made_on[0] != made_on[1] else [])
    )


def _made_on(document: Document) -> str:
    """The processor and version of Python, on which ratios of processor times depend."""
    machine = document["machine"]
    return f"{machine['cpu']} with Python {machine['python'].rpartition('.')[0]}"


def _is_judged(part: str, old: Document, new: Document) -> bool:
    if not part:
        return _made_on(old) == _made_on(new)
    return all(run["load"]["others_share_by_part"].get(part, 0.0) < LOUD_FROM for run in (old, new))


def _changes(old: Document, new: Document) -> Iterator[Change]:
    before, after = figures(old), figures(new)
    for name, figure in after.items():
        if not figure.judged or name not in before:
            continue
        base = figure.base if figure.base in before and figure.base in after else None
        was, now = (relative(run[name], run[base] if base else None) for run in (before, after))
        ratio = median(now) / median(was)
        noise = max(figure.least, (_spread(was) + _spread(now)) / 2)
        verdict = _verdict(ratio if figure.higher_is_better else 1 / ratio, noise)
        if verdict is not Verdict.SAME and not _is_judged(figure.part, old, new):
            verdict = Verdict.NOT_JUDGED
        yield Change(
            name=name,
            old=before[name].value,
            new=figure.value,
            base=base,
            ratio=ratio,
            noise=noise,
            verdict=verdict,
        )


def _spread(values: tuple[float, ...]) -> float:
    return (max(values) - min(values)) / median(values)


def _verdict(gain: float, noise: float) -> Verdict:
    """Return the verdict; `gain`: the factor by which it is better."""
    if gain > 1 + noise:
        return Verdict.BETTER
    return Verdict.WORSE if 1 / gain > 1 + noise else Verdict.SAME
