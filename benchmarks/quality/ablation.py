"""`--ablation`: what each rule finds alone, what is lost without it, and its cost.

A rule without findings in a session has no effect there: rules affect each other only by findings, and by a kill,
after which a session is not evaluated. So a session is run again without a rule only if that rule had a finding, and
with a rule alone only then and if the session was killed. The result is exact, at a fraction of the runs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from rich.console import Console
from rich.progress import track

from benchmarks.detector_timer import DetectorTimer
from benchmarks.quality import parallel
from benchmarks.quality.judging import STOPPED, TOLD, ours
from benchmarks.quality.sessions import Known
from benchmarks.quality.summary import MEASURES
from benchmarks.reporting.table import table_of
from benchmarks.runaways import FAMILIES
from benchmarks.runaways.watching import watch
from haltline.detectors import ALL, PATTERNS
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.engine.effective_rules import rule_of
from haltline.streams.replay.backtest import backtest

CAUGHT = "synthetic: caught"
GOOD = ("stop: stopped", "stop: within 5", "hint: told", CAUGHT)
FALSE_STOPS = ("sound: stopped", "solved: stopped", "healthy: stopped")
FALSE_HINTS = ("sound: told", "solved: told", "healthy: told")
COLUMNS = (*GOOD, *FALSE_STOPS, *FALSE_HINTS)
"""The columns by kind of session: judged and solved ones, generated runaways and generated healthy ones."""

ALONE, WITHOUT = "alone", "without"
Variant = tuple[str, str]
"""`ALONE` or `WITHOUT`, and the rule; or `WHOLE`."""
WHOLE: Variant = ("all", "")
Task: TypeAlias = int | tuple[int, int]
"""The number of a recorded session, or the number of a generated family and a seed."""
_Run: TypeAlias = Callable[[Core], tuple[frozenset[str], Collection[str], bool]]
"""Returns the true columns, the rules that found something, and whether part of the session was not evaluated."""
_ROUNDS = 3
_PIECE = 20
"""The number of sessions timed together."""


class Effect(NamedTuple):
    """The effect of one rule on one column, in sessions."""

    alone: int
    """With this rule only."""
    own: int
    """Those of `alone` that no other single rule has."""
    lost: int
    """True with all rules, but not without this one."""
    gained: int
    """True only without this rule, which pre-empts another."""


@dataclass(frozen=True)
class Row:
    """The contribution of one rule."""

    rule: str
    effects: Mapping[str, Effect]
    """By column."""
    families: Mapping[str, int]
    """By family of generated runaways: the cases that are not caught without it."""
    mode: Mode = Mode.ENFORCE
    """In shadow the rule has no effect."""

    @property
    def nothing_of_its_own(self) -> bool:
        """Return whether the other rules find everything that should be found."""
        return not any(self.effects[column].lost for column in GOOD)


def only(policy: Policy, rule: str) -> Policy:
    """Return the policy with this rule only, also in its overrides."""
    off = {name: Rule(enabled=False) for name in PATTERNS if name != rule}
    return policy.model_copy(update={"rules": policy.rules | off, "overrides": (), "correlations": ()})


def without(policy: Policy, rule: str) -> Policy:
    """Return the policy without this rule."""
    return policy.model_copy(update={"rules": policy.rules | {rule: Rule(enabled=False)}})


@dataclass
class _Variants:
    """Runs one session or generated case under every variant whose result may differ."""

    policy: Policy
    sessions: Sequence[Known]
    _cores: dict[Variant, Core] = field(default_factory=dict)

    def __call__(self, task: Task) -> dict[Variant, frozenset[str]]:
        """The true columns by variant. Without an entry: none is true with the rule alone; no change without it."""
        run = self._case(task) if isinstance(task, tuple) else self._session(self.sessions[task])
        columns, found, unseen = run(self._core(WHOLE))
        facts = {WHOLE: columns}
        for rule in PATTERNS:
            if rule in found:
                facts[WITHOUT, rule] = run(self._core((WITHOUT, rule)))[0]
            if rule in found or unseen:
                facts[ALONE, rule] = run(self._core((ALONE, rule)))[0]
        return facts

    @staticmethod
    def _session(known: Known) -> _Run:
        def run(core: Core) -> tuple[frozenset[str], Collection[str], bool]:
            result = backtest(core, known.session)
            columns = frozenset(f"{known.kind.value}: {measure}" for measure in ours(result).measures(known))
            return columns, {f.detector for f in result.findings}, result.level == Level.KILL.value

        return run

    @staticmethod
    def _case(task: tuple[int, int]) -> _Run:
        family, seed = task
        case, within = FAMILIES[family].case(seed), FAMILIES[family].within

        def run(core: Core) -> tuple[frozenset[str], Collection[str], bool]:
            seen = watch(core, case)
            true = {
                CAUGHT: within is not None and seen.caught(within),
                f"healthy: {STOPPED}": within is None and seen.stopped is not None,
                f"healthy: {TOLD}": within is None and seen.level > Level.ALLOW,
            }
            columns = frozenset(column for column, holds in true.items() if holds)
            return columns, seen.rules, seen.stopped is not None

        return run

    def _core(self, variant: Variant) -> Core:
        core = self._cores.get(variant)
        if core is None:
            which, rule = variant
            policy = only(self.policy, rule) if which == ALONE else without(self.policy, rule)
            core = self._cores[variant] = Core(self.policy if variant == WHOLE else policy)
        return core


def measure(sessions: Sequence[Known], policy: Policy, *, seeds: int, jobs: int, console: Console) -> list[Row]:
    """Measure every rule over recorded sessions and `seeds` cases of each generated family."""
    recorded = [number for number, known in enumerate(sessions) if known.kind in MEASURES]
    tasks: list[Task] = [*recorded, *((family, seed) for family in range(len(FAMILIES)) for seed in range(seeds))]
    done = parallel.run(_Variants(policy, sessions), tasks, jobs=jobs, what="Variants", console=console)
    rows = rows_of({str(task): facts for task, facts in zip(tasks, done, strict=True)}, _family_of(tasks))
    return [replace(row, mode=rule_of(policy, PATTERNS[row.rule], ()).mode) for row in rows]


def _family_of(tasks: Sequence[Task]) -> dict[str, str]:
    return {str(task): FAMILIES[task[0]].name for task in tasks if isinstance(task, tuple)}


def rows_of(facts: Mapping[str, Mapping[Variant, frozenset[str]]], family_of: Mapping[str, str]) -> list[Row]:
    """Return a row per rule; `facts` has the results of `_Variants` by session or case."""
    effects = {(rule, column): [0, 0, 0, 0] for rule in PATTERNS for column in COLUMNS}
    families: dict[str, Counter[str]] = {rule: Counter() for rule in PATTERNS}
    for name, variants in facts.items():
        whole = variants[WHOLE]
        alone = Counter(column for (which, _), columns in variants.items() if which == ALONE for column in columns)
        for (which, rule), columns in variants.items():
            changes = {
                ALONE: [columns, {column for column in columns if alone[column] == 1}, (), ()],
                WITHOUT: [(), (), whole - columns, columns - whole],
            }.get(which, ())
            for place, changed in enumerate(changes):
                for column in changed:
                    if column in COLUMNS:
                        effects[rule, column][place] += 1
            if which == WITHOUT and CAUGHT in whole - columns:
                families[rule][family_of[name]] += 1
    return [
        Row(rule, {column: Effect(*effects[rule, column]) for column in COLUMNS}, dict(families[rule].most_common()))
        for rule in PATTERNS
    ]


def costs(sessions: Sequence[Known], policy: Policy, console: Console) -> dict[str, float]:
    """By rule: nanoseconds per event inside its calls, from the best of some rounds of each piece.

    All rules run: values that several share are computed once, in the calls of the first. Rules across sessions are
    left out.
    """
    timer = DetectorTimer(policy)
    pieces = [sessions[first : first + _PIECE] for first in range(0, len(sessions), _PIECE)]
    for number, piece in enumerate(track(pieces, "Costs", console=console, disable=not console.is_terminal)):
        for _ in range(_ROUNDS):
            timer.begin()
            for known in piece:
                backtest(timer.core, known.session)
            timer.end(number)
    took = timer.costs(sum(len(known.session.events) for known in sessions) or 1)
    return {detector.id: took[detector.id][0] if detector.id in took else 0.0 for detector in ALL}


def as_json(rows: Sequence[Row], costs: Mapping[str, float]) -> dict[str, Any]:
    return {
        "rules": [
            {
                "rule": row.rule,
                "mode": row.mode.value,
                "nothing_of_its_own": row.nothing_of_its_own,
                "effects": {column: effect._asdict() for column, effect in row.effects.items()},
                "families_lost": dict(row.families),
                "cost_ns": costs.get(row.rule),
            }
            for row in rows
        ]
    }


def show(rows: Sequence[Row], costs: Mapping[str, float], console: Console) -> None:
    """Print the table and its conclusion."""
    table = table_of(
        "Each rule, in sessions: with it alone / with it and with no other alone / lost without it (+: gained)",
        ["rule", *(column.replace(": ", ":\n") for column in COLUMNS), "us/event"],
    )
    for row in rows:
        cost = f"{costs[row.rule] / 1000:.2f}" if row.rule in costs else "-"
        name = row.rule if row.mode is Mode.ENFORCE else f"{row.rule} ({row.mode.value})"
        table.add_row(name, *(_effect(row.effects[column]) for column in COLUMNS), cost)
    console.print(table)
    for row in rows:
        if row.families:
            lost = ", ".join(f"{family} {count}" for family, count in row.families.items())
            console.print(f"  without {row.rule} are not caught: {lost}", highlight=False)
    idle = [row.rule for row in rows if row.nothing_of_its_own]
    console.print(f"Find nothing of their own: {', '.join(idle) or 'none'}", highlight=False)


def _effect(effect: Effect) -> str:
    if not any(effect):
        return "."
    return f"{effect.alone}/{effect.own}/{effect.lost}" + (f" +{effect.gained}" if effect.gained else "")
