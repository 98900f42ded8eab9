"""What haltline and the peers' detectors would have done in each session, in one pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.baselines.gemini import Gemini
from benchmarks.baselines.history import Detector, Verdict, entries
from benchmarks.baselines.openhands import OpenHandsV0, OpenHandsV1
from benchmarks.quality.sessions import Known
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity
from haltline.streams.backtest import Recorded, Result, backtest
from haltline.streams.core import Core

OURS = "haltline"
BASELINES: Mapping[str, Callable[[], Detector]] = {
    "OpenHands V0": OpenHandsV0,
    "OpenHands V1": OpenHandsV1,
    "Gemini CLI": Gemini,
}
STOPPED = Level.PAUSE


@dataclass(frozen=True)
class Seen:
    """What one system said of one session, at the events' numbers in the source."""

    found: int | None = None
    """The first word of any kind to the agent: a hint or a stop."""
    stopped: int | None = None
    rule: str = ""
    """That stopped, or else that was the first to say something."""
    reason: str = ""


@dataclass(frozen=True)
class Fired:
    """What one detector of ours said of one session."""

    severity: Severity
    """The highest."""
    level: Level
    """The highest level of a decision that it led to; ALLOW: none."""
    seq: int
    """Of the first finding of that severity."""
    reason: str


@dataclass(frozen=True)
class Judged:
    """One session under every system."""

    known: Known
    result: Result
    fired: Mapping[str, Fired]
    """By detector of ours."""
    seen: Mapping[str, Seen] = field(default_factory=dict)
    """By system: ours and the baselines."""


def judge(core: Core, known: Known) -> Judged:
    """Runs one session through the core and through every baseline."""
    result = backtest(core, known.session)
    seen = {OURS: _ours(result)} | {name: _theirs(new(), known.session) for name, new in BASELINES.items()}
    return Judged(known, result, _fired(result), seen)


def _ours(result: Result) -> Seen:
    said = [decision for decision in result.decisions if Level(decision.level) > Level.ALLOW]
    if not said:
        return Seen()
    if result.first is None:
        return Seen(said[0].seq, None, said[0].detector, said[0].reason)
    stop = next(decision for decision in said if Level(decision.level) >= STOPPED)
    return Seen(said[0].seq, stop.seq, stop.detector, stop.reason)


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
