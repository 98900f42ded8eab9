"""`--synthetic`: every family of generated runaways and healthy sessions, undisturbed and disturbed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.baselines.history import Verdict, entries
from benchmarks.quality.measuring import BASELINES
from benchmarks.reporting.table import table_of
from benchmarks.runaways import FAMILIES, Case, Family
from benchmarks.runaways.disturbances import DISTURBANCES, disturbed
from benchmarks.runaways.watching import Seen, watch
from haltline.schemas.decisions import Level
from haltline.streams.engine.core import Core
from haltline.streams.replay.backtest import Recorded

CAUGHT_AT_LEAST = 0.90
STOPPED_BELOW = 0.01


@dataclass(frozen=True, kw_only=True)
class FamilyRow:
    """The results of the cases of one family: how many got a hint or a stop, and how many were stopped.

    `caught`: runaways stopped after they began and within the allowed steps. Steps are counted from the start of the
    runaway to the stop, inclusive. `baselines`: by peer, the cases that it would have stopped at any time.
    """

    family: str
    what: str
    runaway: bool
    cases: int
    hinted: int
    stopped: int
    caught: int
    within: int | None
    median_steps: float | None
    most_steps: int | None
    detectors: dict[str, int]
    baselines: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Share:
    """Caught runaways and stopped healthy sessions of a set of cases."""

    name: str
    caught: int
    runaways: int
    stopped: int
    healthy: int

    @property
    def passed(self) -> bool:
        return self.caught >= CAUGHT_AT_LEAST * self.runaways and self.stopped < STOPPED_BELOW * self.healthy


@dataclass(frozen=True)
class Synthetic:
    """The result of one run."""

    families: list[FamilyRow]
    shares: list[Share]
    """Shares of all cases undisturbed, then under each disturbance."""

    @property
    def passed(self) -> bool:
        return self.shares[0].passed

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "families": [asdict(row) for row in self.families],
            "shares": [asdict(share) | {"passed": share.passed} for share in self.shares],
        }


def measure(core: Core, seeds: int, progress: Console) -> Synthetic:
    """Run `seeds` cases of every family, undisturbed and under each disturbance."""
    rows: list[FamilyRow] = []
    outcomes: dict[str, list[tuple[Case, Seen]]] = {name: [] for name in ("undisturbed", *DISTURBANCES)}
    for family in track(FAMILIES, "Families", console=progress, disable=not progress.is_terminal):
        cases = [family.case(seed) for seed in range(seeds)]
        seen = [watch(core, case) for case in cases]
        rows.append(_row(family, cases, seen))
        outcomes["undisturbed"] += zip(cases, seen, strict=True)
        for name in DISTURBANCES:
            outcomes[name] += [(case, watch(core, disturbed(case, name))) for case in cases]
    return Synthetic(rows, [_share(name, outcome) for name, outcome in outcomes.items()])


def _row(family: Family, cases: Sequence[Case], seen: Sequence[Seen]) -> FamilyRow:
    steps = [s.steps for s in seen if s.steps is not None]
    return FamilyRow(
        family=family.name,
        what=family.what,
        runaway=family.runaway,
        cases=len(cases),
        hinted=sum(s.level > Level.ALLOW for s in seen),
        stopped=sum(s.stopped is not None for s in seen),
        caught=sum(s.caught(family.within or 0) for s in seen),
        within=family.within,
        median_steps=median(steps) if steps else None,
        most_steps=max(steps, default=None),
        detectors=dict(Counter(s.detector for s in seen if s.stopped).most_common()),
        baselines={name: sum(_stopped_by(name, case) for case in cases) for name in BASELINES},
    )


def _stopped_by(baseline: str, case: Case) -> bool:
    """Return whether the peer would have stopped a session of the case; it sees one session at a time."""
    for session_id in dict.fromkeys(event.session_id for event in case.events):
        detector = BASELINES[baseline]()
        events = tuple(enumerate(event for event in case.events if event.session_id == session_id))
        for _, entry in entries(Recorded(session_id, events)):
            verdict = detector.add(entry)
            if verdict is not None and verdict[0] is Verdict.STOP:
                return True
    return False


def _share(name: str, outcomes: Sequence[tuple[Case, Seen]]) -> Share:
    runaways = [(case, seen) for case, seen in outcomes if case.family.runaway]
    healthy = [seen for case, seen in outcomes if not case.family.runaway]
    return Share(
        name=name,
        caught=sum(seen.caught(case.family.within or 0) for case, seen in runaways),
        runaways=len(runaways),
        stopped=sum(seen.stopped is not None for seen in healthy),
        healthy=len(healthy),
    )


def show(synthetic: Synthetic, console: Console) -> None:
    """Print the families, the disturbances, and whether the run passed."""
    console.print(_runaways([row for row in synthetic.families if row.runaway]))
    console.print(_healthy([row for row in synthetic.families if not row.runaway]))
    table = table_of("Delivery to the core", ["events", "runaways caught", "healthy sessions stopped"])
    for share in synthetic.shares:
        table.add_row(share.name, _of(share.caught, share.runaways), _of(share.stopped, share.healthy))
    console.print(table)
    total = synthetic.shares[0]
    text = (
        f"{_of(total.caught, total.runaways)} runaways caught, expected {CAUGHT_AT_LEAST:.0%}; "
        f"{_of(total.stopped, total.healthy)} healthy sessions stopped, expected fewer than {STOPPED_BELOW:.0%}"
    )
    console.print(f"{'PASS' if synthetic.passed else 'FAIL'}  {text}", highlight=False)


def _runaways(rows: Sequence[FamilyRow]) -> Table:
    table = table_of(
        "Runaways: caught (PAUSE or above, in time), steps to the stop, and cases that the peers' rules stop",
        ["family", "caught", "stopped", "hinted", "steps, median", "most", "allowed", *BASELINES, "by"],
    )
    for row in rows:
        table.add_row(
            row.family,
            _of(row.caught, row.cases),
            str(row.stopped),
            str(row.hinted),
            "-" if row.median_steps is None else f"{row.median_steps:g}",
            "-" if row.most_steps is None else str(row.most_steps),
            str(row.within),
            *(str(row.baselines[name]) for name in BASELINES),
            ", ".join(row.detectors),
        )
    return table


def _healthy(rows: Sequence[FamilyRow]) -> Table:
    table = table_of("Healthy sessions", ["family", "stopped", "hinted", *BASELINES, "by"])
    for row in rows:
        peers = (str(row.baselines[name]) for name in BASELINES)
        table.add_row(row.family, _of(row.stopped, row.cases), str(row.hinted), *peers, ", ".join(row.detectors))
    return table


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole >= 100 else f"{part} of {whole}"
