"""The verdicts of haltline and the peers' detectors on each session, in one pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from benchmarks.baselines.gemini import Gemini
from benchmarks.baselines.history import Detector, Verdict, entries
from benchmarks.baselines.openhands import OpenHandsV0, OpenHandsV1
from benchmarks.quality import parallel
from benchmarks.quality.sessions import Known
from haltline.interventions.levels.default_levels import is_ask
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.replay.backtest import Recorded, Result, backtest

OURS = "haltline"
BASELINES: Mapping[str, Callable[[], Detector]] = {
    "OpenHands V0": OpenHandsV0,
    "OpenHands V1": OpenHandsV1,
    "Gemini CLI": Gemini,
}
SYSTEMS = (OURS, *BASELINES)
STOPPED_FROM = Level.PAUSE

TOLD, STOPPED, BEFORE, WITHIN_5, WITHIN_3 = "told", "stopped", "before it began", "within 5", "within 3"
"""Measures of a system's reaction to a session: a hint or a stop; a stop; a stop before the runaway began; a stop from
there to 5, or to 3, events after the signal."""
ASKED = "asked"
"""A request for approval of an act, which stops this call only."""


@dataclass(frozen=True)
class Seen:
    """One system's verdict on one session, by event numbers in the source."""

    found: int | None = None
    """The first hint or stop."""
    stopped: int | None = None
    rule: str = ""
    """The rule that stopped, or else that gave the first hint."""
    asked: int | None = None
    """The first request for approval."""

    def measures(self, known: Known) -> frozenset[str]:
        """Return the measures that hold, `TOLD` and those after it."""
        true = {TOLD: self.found is not None, STOPPED: self.stopped is not None, ASKED: self.asked is not None}
        judged = known.judgement
        if self.stopped is not None and judged is not None and judged.signal is not None:
            true[BEFORE] = self.stopped < judged.begins
            true[WITHIN_5] = judged.begins <= self.stopped <= judged.signal + 5
            true[WITHIN_3] = judged.begins <= self.stopped <= judged.signal + 3
        return frozenset(name for name, holds in true.items() if holds)


@dataclass(frozen=True)
class Fired:
    """One detector's findings in one session."""

    severity: Severity
    """The highest severity."""
    level: Level
    """The highest level of its decisions; ALLOW: none."""
    seq: int
    """The event number of the first finding of that severity."""
    reason: str


@dataclass(frozen=True)
class Judged:
    """One session under every system."""

    known: Known
    result: Result
    fired: Mapping[str, Fired]
    """By haltline's detector."""
    seen: Mapping[str, Seen]
    """By system: haltline and the baselines."""


def judge(sessions: Sequence[Known], policy: Policy, *, jobs: int = 1, console: Console) -> list[Judged]:
    """Run every session through the core and every baseline."""
    done = parallel.run(_Every(sessions, [policy]), range(len(sessions)), jobs=jobs, what="Sessions", console=console)
    return [
        Judged(known, result, _fired(result), {OURS: ours(result), **theirs})
        for known, (result, theirs) in zip(sessions, done, strict=True)
    ]


@dataclass
class Sessions:
    """Recorded sessions, and the policies under which they can be run."""

    sessions: Sequence[Known]
    policies: Sequence[Policy]
    _cores: dict[int, Core] = field(default_factory=dict)

    def backtest(self, session: int, policy: int = 0) -> Result:
        """Run a session under a policy, both by their numbers."""
        core = self._cores.get(policy)
        if core is None:
            core = self._cores[policy] = Core(self.policies[policy])
        return backtest(core, self.sessions[session].session)


class _Every(Sessions):
    def __call__(self, session: int) -> tuple[Result, dict[str, Seen]]:
        recorded = self.sessions[session].session
        return self.backtest(session), {name: _theirs(new(), recorded) for name, new in BASELINES.items()}


def ours(result: Result) -> Seen:
    """Return haltline's verdict on a session."""
    output = [decision for decision in result.decisions if Level(decision.level) > Level.ALLOW]
    asks = [decision.seq for decision in output if is_ask(decision.detector, Level(decision.level))]
    asked = asks[0] if asks else None
    said = next((decision for decision in output if not is_ask(decision.detector, Level(decision.level))), None)
    if said is None:
        return Seen(asked=asked)
    if result.first is None:
        return Seen(said.seq, None, said.detector, asked)
    return Seen(said.seq, result.first.seq, result.first.detector, asked)


def _theirs(detector: Detector, session: Recorded) -> Seen:
    hint: tuple[int, str] | None = None
    for seq, entry in entries(session):
        verdict = detector.add(entry)
        if verdict is None:
            continue
        kind, rule = verdict
        if kind is Verdict.STOP:
            return Seen(hint[0] if hint else seq, seq, rule)
        hint = hint or (seq, rule)
    return Seen(hint[0], None, hint[1]) if hint else Seen()


def _fired(result: Result) -> dict[str, Fired]:
    fired: dict[str, Fired] = {}
    for found in result.findings:
        severity = Severity(found.severity)
        if found.detector in fired and severity <= fired[found.detector].severity:
            continue
        levels = [Level(decision.level) for decision in result.decisions if decision.detector == found.detector]
        fired[found.detector] = Fired(severity, max(levels, default=Level.ALLOW), found.seq, found.reason)
    return fired
