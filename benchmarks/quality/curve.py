"""`--sweep`: runaways stopped against false stops, for each value of a setting of a rule.

Under the whole policy, and with that rule alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from benchmarks.quality import parallel
from benchmarks.quality.ablation import only
from benchmarks.quality.judging import OURS, STOPPED, SYSTEMS, WITHIN_5, Seen, Sessions, judge, ours
from benchmarks.quality.sessions import Kind, Known
from benchmarks.quality.summary import Count
from benchmarks.reporting.table import table_of
from haltline.schemas.policy import Policy
from haltline.streams.replay.whatif import parse_sweep

_FALSE = (Kind.SOUND, Kind.SOLVED)


@dataclass(frozen=True)
class Point:
    """The result of one system or of one value of the setting."""

    name: str
    stopped: Count
    """Runaways to stop that are stopped."""
    within_5: Count
    """The number of the same runaways stopped soon enough."""
    false: Count
    """The number of sound and solved sessions that are stopped."""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "stopped": self.stopped.as_json(),
            "within_5": self.within_5.as_json(),
            "false_stops": self.false.as_json(),
        }


@dataclass(frozen=True)
class Swept:
    """The result of one sweep."""

    setting: str
    curves: Mapping[str, Sequence[Point]]
    """A point for each value, in order."""
    systems: Sequence[Point]
    """Points of haltline under the given policy, and of its peers."""

    def as_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "curves": {name: [point.as_json() for point in points] for name, points in self.curves.items()},
            "systems": [point.as_json() for point in self.systems],
        }


class _Swept(Sessions):
    def __call__(self, task: tuple[int, int]) -> Seen:
        policy, session = task
        return ours(self.backtest(session, policy))


def measure(sessions: Sequence[Known], policy: Policy, sweep: str, *, jobs: int, console: Console) -> Swept:
    """Run the sessions with a known right reaction. Raises BadPolicy before the first run."""
    sweep_of = parse_sweep(sweep)
    rule = sweep_of.place.split(".settings.")[0].removeprefix("rules.")
    whole = [sweep_of.policy(policy, value) for value in sweep_of.values]
    policies = [*whole, *(only(one, rule) for one in whole)]
    sessions = [known for known in sessions if known.kind in {Kind.STOP, *_FALSE}]
    judged = judge(sessions, policy, jobs=jobs, console=console)
    tasks = [(number, session) for number in range(len(policies)) for session in range(len(sessions))]
    seen = parallel.run(_Swept(sessions, policies), tasks, jobs=jobs, what=sweep, console=console)
    rows = [seen[start : start + len(sessions)] for start in range(0, len(seen), len(sessions) or 1)]
    names = [str(value) for value in sweep_of.values]
    points = [point_of(name, sessions, row) for name, row in zip([*names, *names], rows, strict=True)] if rows else []
    return Swept(
        sweep_of.place,
        {"whole policy": points[: len(names)], f"{rule} alone": points[len(names) :]},
        [
            point_of(f"{OURS} as set" if system == OURS else system, sessions, [j.seen[system] for j in judged])
            for system in SYSTEMS
        ],
    )


def added(parts: Sequence[Swept]) -> Swept:
    """Combine sweeps of the same setting and values over different sessions."""
    first = parts[0]
    return Swept(
        first.setting,
        {
            name: [_sum(points) for points in zip(*(p.curves[name] for p in parts), strict=True)]
            for name in first.curves
        },
        [_sum(points) for points in zip(*(part.systems for part in parts), strict=True)],
    )


def _sum(points: Sequence[Point]) -> Point:
    def count(counts: Sequence[Count]) -> Count:
        return Count(sum(c.part for c in counts), sum(c.of for c in counts))

    return Point(
        points[0].name,
        count([p.stopped for p in points]),
        count([p.within_5 for p in points]),
        count([p.false for p in points]),
    )


def point_of(name: str, sessions: Sequence[Known], seen: Sequence[Seen]) -> Point:
    """Return the counts over these sessions."""

    def count(measure: str, kinds: Sequence[Kind]) -> Count:
        those = [s.measures(known) for known, s in zip(sessions, seen, strict=True) if known.kind in kinds]
        return Count(sum(measure in measures for measures in those), len(those))

    return Point(name, count(STOPPED, [Kind.STOP]), count(WITHIN_5, [Kind.STOP]), count(STOPPED, _FALSE))


def show(swept: Swept, console: Console) -> None:
    """Print a table of all points."""
    title = "Runaways to stop, against sound and solved sessions (95 % intervals in brackets)"
    table = table_of(title, ["", swept.setting.rpartition(".")[2], "stopped", "within 5", "false stops"])
    for name, points in (*swept.curves.items(), ("systems", swept.systems)):
        table.add_section()
        for number, point in enumerate(points):
            counts = (_told(count) for count in (point.stopped, point.within_5, point.false))
            table.add_row(name if number == 0 else "", point.name, *counts)
    console.print(table)


def _told(count: Count) -> str:
    low, high = count.interval
    return f"{count.part}/{count.of} {count.share:.1%} ({100 * low:.1f}-{100 * high:.1f})"
