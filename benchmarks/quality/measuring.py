"""What was executed of recorded sessions: counted by set, by source, and by what was right."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks.baselines.gemini import Gemini
from benchmarks.baselines.history import Detector, Verdict, entries
from benchmarks.baselines.openhands import OpenHandsV0, OpenHandsV1
from benchmarks.quality import parallel
from benchmarks.quality.playing import Played, play
from benchmarks.quality.sessions import Kind, Known
from haltline.schemas.decisions import Level
from haltline.schemas.events import Kind as EventKind
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.replay.backtest import together

OURS = "haltline"
BASELINES: Mapping[str, Callable[[], Detector]] = {
    "OpenHands V0": OpenHandsV0,
    "OpenHands V1": OpenHandsV1,
    "Gemini CLI": Gemini,
}
"""Published rules of peers: the first detection that stops counts as a stop for good."""
LATE_AFTER = 5
"""Calls later than so many after the signal should not be made; a hold earlier than so many before it is too early."""
_ENDS = frozenset({
    "task_done", "finish", "submit", "attempt_completion", "exit", "complete_task", "ask_user", "ask_followup_question",
})  # fmt: skip
"""Tools whose call ends the turn, reports or asks: a held agent may call them. The measure's own list, so that figures
of releases can be compared."""
_HELD_SHARE = 50
"""A session is held if at most one in so many of its late calls is made."""
_LAST = 3
"""A session is stopped for good if so many calls at its end are refused."""
_Z = 1.959964
"""The quantile of a 95 % interval."""


class Count(NamedTuple):
    """A number of sessions out of a total."""

    part: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return Wilson's 95 % interval of the share."""
        if not self.of:
            return 0.0, 1.0
        share, z2 = self.part / self.of, _Z * _Z / self.of
        middle = (share + z2 / 2) / (1 + z2)
        half = _Z * sqrt(share * (1 - share) / self.of + z2 / self.of / 4) / (1 + z2)
        low, high = max(0.0, middle - half), min(1.0, middle + half)
        return 0.0 if self.part == 0 else low, 1.0 if self.part == self.of else high

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.part} of {self.of} ({100 * low:.0f}-{100 * high:.0f} %)" if self.of else "-"


@dataclass(frozen=True)
class Outcome:
    """What one system made of one session. Calls that end a turn or report are not counted: they are never refused."""

    known: Known
    calls: int
    refused: int
    hinted: bool
    for_good: bool
    """The last calls were refused."""
    late: int = 0
    """Calls later than five after the signal."""
    late_made: int = 0
    early: bool = False
    """Stopped for good from more than five calls before the signal on."""
    rules: tuple[str, ...] = ()
    """The codes of the refusals, in order."""

    @property
    def held(self) -> bool:
        """Whether next to no late call was made; without any there is nothing to hold."""
        return bool(self.late) and self.late_made <= max(1, self.late // _HELD_SHARE)


def outcome_of(known: Known, played: Played) -> Outcome:
    """Return what counts of a session."""
    numbers = [number for number, action in played.calls.items() if action not in _ENDS]
    refused = [number for number in numbers if number in played.refused]
    for_good = len(numbers) > _LAST and refused[-_LAST:] == numbers[-_LAST:]
    rules = tuple(dict.fromkeys(played.refused[number] for number in refused))
    outcome = Outcome(known, len(numbers), len(refused), played.hints > 0, for_good, rules=rules)
    if known.signal is None:
        return outcome
    late = [number for number in numbers if number > known.signal + LATE_AFTER]
    made = [number for number in numbers if number not in played.refused]
    stopped_at = next((number for number in numbers if not made or number > made[-1]), 0)
    return replace(
        outcome,
        late=len(late),
        late_made=sum(number not in played.refused for number in late),
        early=for_good and stopped_at < known.signal - LATE_AFTER,
    )


@dataclass
class Row:
    """The sums over some sessions."""

    outcomes: list[Outcome] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Outcome]:
        """Return those of a kind."""
        return [one for one in self.outcomes if one.known.kind is kind]

    def count(self, kind: Kind, holds: Callable[[Outcome], object]) -> Count:
        """Return how many sessions of a kind something holds of."""
        those = self.of(kind)
        return Count(sum(bool(holds(one)) for one in those), len(those))

    @property
    def held(self) -> Count:
        """Runaways with late calls of which next to none was made."""
        those = [one for one in self.of(Kind.STOP) if one.late]
        return Count(sum(one.held for one in those), len(those))

    @property
    def late(self) -> tuple[int, int]:
        """Late calls of runaways that were made, and all."""
        those = self.of(Kind.STOP)
        return sum(one.late_made for one in those), sum(one.late for one in those)

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        figures: dict[str, Any] = {}
        for kind in (Kind.STOP, Kind.HINT, Kind.SOUND, Kind.SOLVED):
            those = self.of(kind)
            if those:
                figures[kind.value] = {
                    "sessions": len(those),
                    "refused_any": sum(one.refused > 0 for one in those),
                    "calls": sum(one.calls for one in those),
                    "calls_refused": sum(one.refused for one in those),
                    "stopped_for_good": sum(one.for_good for one in those),
                    "hinted": sum(one.hinted for one in those),
                }
        if runaways := figures.get(Kind.STOP.value):
            runaways["late_calls_made"], runaways["late_calls"] = self.late
            runaways["held"], runaways["can_be_held"] = self.held
            runaways["held_early"] = sum(one.early for one in self.of(Kind.STOP))
        return figures


@dataclass(frozen=True)
class Measured:
    """All outcomes, by system."""

    outcomes: Mapping[str, Sequence[Outcome]]

    def rows(self, system: str, key: Callable[[Known], str]) -> dict[str, Row]:
        """Return the sums by a name of each session."""
        rows: dict[str, Row] = {}
        for one in self.outcomes[system]:
            rows.setdefault(key(one.known), Row()).outcomes.append(one)
        return rows

    @property
    def targets(self) -> "list[tuple[Target, Count]]":
        """Return the targets of the sets that were measured, with what was reached."""
        groups = self.rows(OURS, lambda known: known.group)
        return [(t, t.reached(groups[t.group])) for t in TARGETS if t.group in groups]

    @property
    def passed(self) -> bool:
        """Whether every target is met."""
        return all(target.met(count) for target, count in self.targets)


def measure(sessions: Sequence[Known], policy: Policy | None = None, *, jobs: int, console: Console) -> Measured:
    """Play every session through the guard, and run the peers' rules over it."""
    done = parallel.run(_Every(sessions, policy), range(len(sessions)), jobs=jobs, what="Sessions", console=console)
    return Measured(
        {
            system: [outcome_of(known, one[system]) for known, one in zip(sessions, done, strict=True)]
            for system in (OURS, *BASELINES)
        }
    )


@dataclass
class _Every:
    sessions: Sequence[Known]
    policy: Policy | None

    def __call__(self, number: int) -> dict[str, Played]:
        known = self.sessions[number]
        ours = play(f"{number}-{known.session_id}", known.steps(), self.policy)
        return {OURS: ours, **{name: stopped_by(new(), known, ours.calls) for name, new in BASELINES.items()}}


def stopped_by(detector: Detector, known: Known, calls: dict[int, str]) -> Played:
    """Return a session as a peer's rule would have left it: nothing is made after its first stop."""
    for number, entry in entries(known.session):
        verdict = detector.add(entry)
        if verdict is not None and verdict[0] is Verdict.STOP:
            return Played(calls, {call: verdict[1] for call in calls if call > number})
    return Played(calls)


def backtested(core: Core, known: Known) -> Played:
    """Return a session as a backtest has it: for comparing policies, without the guard."""
    played = Played(calls_of(known))
    for result in together(core, known.sessions):
        played.refused |= dict.fromkeys(result.refused, "refused")
        played.hints += sum(Level.ALLOW < Level(one.level) < Level.PAUSE for one in result.decisions)
    return played


def calls_of(known: Known) -> dict[int, str]:
    """Return the tool of each call, by its number."""
    return {number: step.action for number, step in known.steps() if step.kind is EventKind.PROPOSED}


class Target(NamedTuple):
    """What is to be reached in one set."""

    group: str
    name: str
    reached: Callable[[Row], Count]
    at_most: int | None = None
    at_least: int | None = None

    def met(self, count: Count) -> bool:
        """Return whether it is met."""
        most, least = self.at_most, self.at_least
        return (most is None or count.part <= most) and (least is None or count.part >= least)


def _targets(group: str, *, late: int, held: int, early: int, refused: int, stopped: int) -> Iterable[Target]:
    yield Target(group, "late calls made", lambda row: Count(*row.late), at_most=late)
    yield Target(group, "runaways held", lambda row: row.held, at_least=held)
    yield Target(group, "held too early", lambda row: row.count(Kind.STOP, lambda one: one.early), at_most=early)
    yield Target(group, "sound with a refused call", lambda r: r.count(Kind.SOUND, lambda o: o.refused), refused)
    yield Target(group, "sound stopped for good", lambda r: r.count(Kind.SOUND, lambda o: o.for_good), stopped)


def _hinted(group: str, most: int) -> Target:
    return Target(group, "for a hint, stopped for good", lambda r: r.count(Kind.HINT, lambda o: o.for_good), most)


TARGETS: Sequence[Target] = (
    *_targets("judged", late=500, held=115, early=5, refused=6, stopped=2),
    _hinted("judged", 15),
    *_targets("modern", late=100, held=10, early=2, refused=6, stopped=1),
    *_targets("modern without task_done", late=100, held=10, early=2, refused=6, stopped=1),
    *_targets("terminal", late=120, held=14, early=1, refused=4, stopped=1),
    _hinted("terminal", 2),
    Target("solved", "solved with a refused call", lambda r: r.count(Kind.SOLVED, lambda o: o.refused), 2),
    Target("solved", "solved stopped for good", lambda r: r.count(Kind.SOLVED, lambda o: o.for_good), 0),
)
"""By set: the sessions beside the repository."""
