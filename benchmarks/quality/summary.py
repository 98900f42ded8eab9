"""Counts over all judged sessions, and whether the targets are met."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.quality.judging import BASELINES, OURS, STOPPED, Judged, Seen
from benchmarks.quality.sessions import Fate, Known
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity

STOPPED_BELOW = 0.01
"""Of the sound sessions."""
NUDGED_BELOW = 0.10
"""Of the sound sessions; those that were stopped count here too."""

GROUPS: Mapping[str, Callable[[Known], bool]] = {
    "sound": lambda known: known.fate is Fate.SOUND,
    "failed": lambda known: known.fate is Fate.FAILED,
    "unknown": lambda known: known.fate is Fate.UNKNOWN,
    "looping": lambda known: known.loops > 0,
    "not looping": lambda known: bool(known.loop_checks) and not known.loops,
}
"""The last two: by the agents' own ledger, which was asked in some of the sessions."""


@dataclass(frozen=True, kw_only=True)
class DetectorRow:
    """How often one detector of ours fired, in sessions."""

    detector: str
    fired: int
    by_severity: dict[str, int]
    """By the highest severity in a session."""
    sound_fired: int
    stopped: int
    """By this detector: a decision of its own at PAUSE or above."""
    sound_stopped: int


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Sessions of one group, and in how many of them a system spoke up (a hint or a stop) or stopped."""

    sessions: int
    found: int
    stopped: int


@dataclass(frozen=True, kw_only=True)
class SystemRow:
    """What one system would have done."""

    system: str
    groups: dict[str, Counts]
    """By name of the group: see `GROUPS`."""
    rules: dict[str, int]
    """By rule: the sessions in which it stopped, or else was the first to say something."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Sessions that ours found, and that a baseline found, of one fate."""

    baseline: str
    fate: str
    what: str
    """`found` or `stopped`."""
    both: list[str]
    ours_only: list[str]
    baseline_only: list[str]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One thing that is asked for: `count` sessions in less than the share `below` of all."""

    name: str
    count: int
    of: int
    below: float

    @property
    def met(self) -> bool:
        return self.count < self.below * self.of


@dataclass(frozen=True)
class Summary:
    """Everything that is printed."""

    detectors: list[DetectorRow]
    systems: list[SystemRow]
    by_source: list[tuple[str, SystemRow]]
    """By source of the sessions: ours alone."""
    overlaps: list[Overlap] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(target.met for target in self.targets)

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "targets": [asdict(target) | {"met": target.met} for target in self.targets],
            "detectors": [asdict(row) for row in self.detectors],
            "systems": [asdict(row) for row in self.systems],
            "by_source": {source: asdict(row) for source, row in self.by_source},
            "overlaps": [asdict(overlap) for overlap in self.overlaps],
        }


def summarize(judged: Sequence[Judged], detectors: Iterable[str]) -> Summary:
    """`detectors`: the ids of ours, in the order in which they are told."""
    systems = (OURS, *BASELINES)
    sources = sorted({j.known.source for j in judged})
    return Summary(
        detectors=[_detector(judged, detector) for detector in detectors],
        systems=[_system(judged, system) for system in systems],
        by_source=[(source, _system([j for j in judged if j.known.source == source], OURS)) for source in sources],
        overlaps=[
            _overlap(judged, baseline, fate, what)
            for what in ("found", "stopped")
            for baseline in BASELINES
            for fate in Fate
        ],
        targets=_targets([j for j in judged if j.known.fate is Fate.SOUND]),
    )


def _detector(judged: Sequence[Judged], detector: str) -> DetectorRow:
    fired = [(j.known.fate, j.fired[detector], _stopped_by(j, detector)) for j in judged if detector in j.fired]
    return DetectorRow(
        detector=detector,
        fired=len(fired),
        by_severity={s.value: sum(f.severity is s for _, f, _ in fired) for s in Severity},
        sound_fired=sum(fate is Fate.SOUND for fate, _, _ in fired),
        stopped=sum(stopped for _, _, stopped in fired),
        sound_stopped=sum(stopped and fate is Fate.SOUND for fate, _, stopped in fired),
    )


def _stopped_by(judged: Judged, detector: str) -> bool:
    return any(d.detector == detector and Level(d.level) >= STOPPED for d in judged.result.decisions)


def _system(judged: Sequence[Judged], system: str) -> SystemRow:
    rules = Counter(j.seen[system].rule for j in judged if j.seen[system].rule)
    return SystemRow(
        system=system,
        groups={
            name: _counts([j.seen[system] for j in judged if belongs(j.known)]) for name, belongs in GROUPS.items()
        },
        rules=dict(rules.most_common()),
    )


def _counts(seen: Sequence[Seen]) -> Counts:
    return Counts(
        sessions=len(seen),
        found=sum(s.found is not None for s in seen),
        stopped=sum(s.stopped is not None for s in seen),
    )


def _overlap(judged: Sequence[Judged], baseline: str, fate: Fate, what: str) -> Overlap:
    of_fate = [j for j in judged if j.known.fate is fate]
    ours, theirs = (
        {j.known.session_id for j in of_fate if getattr(j.seen[system], what) is not None}
        for system in (OURS, baseline)
    )
    return Overlap(
        baseline=baseline,
        fate=fate.value,
        what=what,
        both=sorted(ours & theirs),
        ours_only=sorted(ours - theirs),
        baseline_only=sorted(theirs - ours),
    )


def _targets(sound: Sequence[Judged]) -> list[Target]:
    if not sound:
        return []
    counts = _counts([j.seen[OURS] for j in sound])
    return [
        Target(name="sound sessions stopped", count=counts.stopped, of=counts.sessions, below=STOPPED_BELOW),
        Target(name="sound sessions nudged or more", count=counts.found, of=counts.sessions, below=NUDGED_BELOW),
    ]
