"""Whether agents are protected at present, judged by consumer groups, the broker and canaries.

Pure functions of observations and times; `protection_watch` makes the observations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from haltline.console.protection_steps import STEPS, Step
from haltline.streams.runtime.health import Partition, Progress, Sample, follow

_CANARY_ONCE_S: Final = 900.0
"""How long, in seconds, the result of a single canary counts; a periodic one is replaced by the next."""
_LOOK_TAKES_S: Final = 30.0
"""The longest a check takes, in seconds, if the broker does not answer at once."""
_CANARY_SLACK_S: Final = 60.0
_MAX_NAMED: Final = 12
"""The most partitions named in a sentence."""
_MAX_TEXTS: Final = 3


class Part(StrEnum):
    """The part of the system with a problem."""

    WORKERS = "workers"
    BROKER = "broker"
    CANARY = "canary"
    SINK = "sink"
    SHADOW = "shadow"
    CONSOLE = "console"


class Urgency(StrEnum):
    """The urgency of a problem."""

    CRITICAL = "critical"
    """Runaways may not be stopped."""
    WARNING = "warning"
    """Enforcement works; something else is late."""


@dataclass(frozen=True, kw_only=True)
class ProtectionLimits:
    """The seconds after which something is a problem, and the interval of checks."""

    workers_s: float = 25.0
    """Records wait in a partition of `actions`, and the workers' committed offset does not advance. A worker commits
    every ten seconds at the latest."""
    shadow_s: float = 60.0
    """The same for the workers that run rules in shadow."""
    sink_s: float = 60.0
    """The same for the audit sink, on every topic."""
    broker_s: float = 25.0
    """The broker does not answer the console."""
    console_s: float = 25.0
    """The read model lags behind the topics."""
    canary_s: float = 30.0
    """A canary's session is not killed."""
    look_every_s: float = 2.0
    """The interval between checks."""


@dataclass(frozen=True, kw_only=True)
class Flight:
    """The last canary in the read model."""

    session_id: str
    began_s: float
    """Epoch seconds."""
    killed: bool
    every_s: float | None
    """The interval between canaries; None: not periodic."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A partition whose offsets do not match. `topic` is without prefix."""

    topic: str
    partition: int
    reached: int
    """The next offset to read."""
    begins: int = 0
    ends: int = 0
    """The partition's first offset, and its end (exclusive)."""

    @property
    def is_gap(self) -> bool:
        """Return whether records were deleted before they were read; else the partition ends before what was read."""
        return self.begins > self.reached

    def text(self, prefix: str = "") -> str:
        """A human-readable description; `prefix` makes the topic's name whole."""
        name = f"{prefix}{self.topic}[{self.partition}]"
        if self.is_gap:
            return (
                f"{name}: expected the records from offset {self.reached} on, got a partition that begins at offset "
                f"{self.begins}: those before it were deleted before they were read"
            )
        return (
            f"{name}: expected a partition that goes on at offset {self.reached}, got one that ends at {self.ends}: "
            "the topic was recreated or cut off. What was read before is still shown"
        )


@dataclass(frozen=True, kw_only=True)
class Known:
    """The results of the checks so far. Times are epoch seconds."""

    looked_s: float
    """The last check that the broker answered; at first, the start of the checks."""
    groups: Mapping[Part, Mapping[Partition, Progress]] = field(default_factory=dict)
    away_since_s: float | None = None
    """Since when the broker does not answer; None: it answers."""
    away_why: str = ""
    feeder_failure: str = ""
    """Why the read model is no longer updated; empty: it is."""
    failed_since_s: float | None = None
    missing: str = ""
    """The topic that the read model waits for, with the reason; empty: none."""
    mismatches: Mapping[Mismatch, float] = field(default_factory=dict)
    """The partitions that do not match what was read, by whole topic names; each with the time of its detection."""
    flight: Flight | None = None


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A present problem."""

    part: Part
    urgency: Urgency
    since_s: float
    """Epoch seconds."""
    title: str
    what: str
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By topic, if the problem concerns single partitions."""
    steps: tuple[Step, ...]
    runbook: str
    """The page in deploy/runbooks, without its extension."""


def samples(
    committed: Mapping[Partition, int | None],
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    last_ms: Mapping[Partition, int | None] | None = None,
) -> dict[Partition, Sample]:
    """A group's progress. Records deleted by retention do not wait; without a commit, all existing records do."""
    return {
        at: Sample(
            next_offset=max(offset or 0, begins.get(at, 0)),
            end_offset=ends[at],
            last_record_ms=(last_ms or {}).get(at),
        )
        for at, offset in committed.items()
        if at in ends
    }


def answered(
    before: Known, groups: Mapping[Part, Mapping[Partition, Sample]], now_s: float, limits: ProtectionLimits
) -> Known:
    """Update after a check that the broker answered.

    If the last check is long ago, the time in between does not count: broker, console or machine were stopped, and
    workers get the full time again.
    """
    known = {} if now_s - before.looked_s >= limits.workers_s else before.groups
    followed = {
        part: {at: follow(known.get(part, {}).get(at), sample, now_s) for at, sample in seen.items()}
        for part, seen in groups.items()
    }
    return replace(before, looked_s=now_s, groups=followed, away_since_s=None, away_why="")


def unanswered(before: Known, why: str, now_s: float) -> Known:
    """Update after a check that the broker did not answer."""
    since_s = now_s if before.away_since_s is None else before.away_since_s
    return replace(before, away_since_s=since_s, away_why=why)


def fed(before: Known, failure: str, now_s: float, missing: str = "") -> Known:
    """Update the state of the read model; `failure` is why it is not updated, `missing` a topic that it waits for."""
    is_fed = not failure and not missing
    since_s = None if is_fed else now_s if before.failed_since_s is None else before.failed_since_s
    return replace(before, feeder_failure=failure, missing=missing, failed_since_s=since_s)


def compared(before: Known, mismatches: Iterable[Mismatch], now_s: float) -> Known:
    """Update the partitions whose offsets do not match the topics."""
    return replace(before, mismatches={one: before.mismatches.get(one, now_s) for one in mismatches})


def problems_of(known: Known, now_s: float, limits: ProtectionLimits) -> list[Problem]:
    """The present problems, the worst first."""
    console = _console(known, limits)
    found = [
        _still(known, Part.WORKERS, limits.workers_s),
        _broker(known, now_s, limits),
        # While the read model lags, a missing kill proves nothing about a canary.
        None if console is not None else _canary(known.flight, now_s, limits),
        _still(known, Part.SINK, limits.sink_s),
        _still(known, Part.SHADOW, limits.shadow_s),
        console,
        # After a broker's restart a partition may seem too short for a moment.
        _mismatch(known, now_s, is_gap=False, after_s=limits.console_s),
        _mismatch(known, now_s, is_gap=True),
    ]
    return [problem for problem in found if problem is not None]


def _still(known: Known, part: Part, after_s: float) -> Problem | None:
    """The problem that the group's offsets do not advance while records wait, by the last answered check; or None."""
    since = {
        at: seen.waiting_since_s
        for at, seen in known.groups.get(part, {}).items()
        if seen.waiting_since_s is not None and known.looked_s - seen.waiting_since_s >= after_s
    }
    if not since:
        return None
    where = _by_topic(since)
    return _problem(part, min(since.values()), _STILL[part].format(named=_named(where)), where)


def _broker(known: Known, now_s: float, limits: ProtectionLimits) -> Problem | None:
    # Without a detected outage, a check that never ends, for example waiting for the database, counts as one too.
    since_s = known.looked_s if known.away_since_s is None else known.away_since_s
    if now_s - since_s < limits.broker_s + (0 if known.away_since_s is not None else _LOOK_TAKES_S):
        return None
    return _problem(
        Part.BROKER,
        since_s,
        "Without it nothing is decided, killed or approved, and whether workers run is not known. "
        f"The last attempt: {known.away_why or 'it has not ended'}",
    )


def _canary(flight: Flight | None, now_s: float, limits: ProtectionLimits) -> Problem | None:
    if flight is None:
        return None
    ago_s = now_s - flight.began_s
    counts = flight.every_s is not None or ago_s < _CANARY_ONCE_S
    if not flight.killed and counts and ago_s >= limits.canary_s:
        return _problem(
            Part.CANARY,
            flight.began_s,
            f"Session {flight.session_id} should have been killed and was not. Runaway agents may not be stopped.",
        )
    if flight.every_s is not None and ago_s >= 2 * flight.every_s + _CANARY_SLACK_S:
        silent = _problem(
            Part.CANARY,
            flight.began_s,
            f"One is expected every {flight.every_s:g} s. Until it runs again, nothing proves that a runaway is "
            "stopped.",
            title="The canary is silent",
            steps="canary_silent",
        )
        return replace(silent, urgency=Urgency.WARNING, runbook="HaltlineCanarySilent")
    return None


def _console(known: Known, limits: ProtectionLimits) -> Problem | None:
    title, steps = "", ""
    where: dict[str, tuple[int, ...]] = {}
    if known.missing and known.failed_since_s is not None:
        since_s = known.failed_since_s
        title, steps = "The console waits for its topics", "console_waits"
        what = (
            f"{known.missing}. These pages are filled as soon as every topic is there; until then no decision is made."
        )
    elif known.feeder_failure and known.failed_since_s is not None:
        since_s = known.failed_since_s
        what = f"These pages show nothing new: the read model is no longer fed. The reason: {known.feeder_failure}"
    else:
        behind = {
            at: known.looked_s - seen.lag_seconds(known.looked_s)
            for at, seen in known.groups.get(Part.CONSOLE, {}).items()
            if seen.lag_seconds(known.looked_s) >= limits.console_s
        }
        if not behind:
            return None
        since_s, where = min(behind.values()), _by_topic(behind)
        what = f"New records of {_named(where)} are not on these pages yet. Agents are stopped as before."
    return _problem(Part.CONSOLE, since_s, what, where, title=title, steps=steps)


def _mismatch(known: Known, now_s: float, *, is_gap: bool, after_s: float = 0.0) -> Problem | None:
    found = {one: at_s for one, at_s in known.mismatches.items() if one.is_gap == is_gap and now_s - at_s >= after_s}
    if not found:
        return None
    texts = [one.text() for one in found]
    more = [f"{len(texts) - _MAX_TEXTS} more are alike"] if len(texts) > _MAX_TEXTS else []
    return _problem(
        Part.CONSOLE,
        min(found.values()),
        ". ".join([*texts[:_MAX_TEXTS], *more]) + ". Agents are stopped as before.",
        _by_topic({(one.topic, one.partition) for one in found}),
        title="The console misses records" if is_gap else "The console has read more than the topics hold",
        steps="console_gap" if is_gap else "console_ahead",
    )


def _problem(
    part: Part,
    since_s: float,
    what: str,
    partitions: Mapping[str, tuple[int, ...]] | None = None,
    *,
    title: str = "",
    steps: str = "",
) -> Problem:
    """A problem of a part; without a title and steps of its own, with those of the part."""
    return Problem(
        part=part,
        urgency=Urgency.CRITICAL if part in _CRITICAL else Urgency.WARNING,
        since_s=since_s,
        title=title or _TITLES[part],
        what=what,
        partitions=partitions or {},
        steps=STEPS[steps or part.value],
        runbook=_RUNBOOKS[part],
    )


_CRITICAL: Final = frozenset({Part.WORKERS, Part.BROKER, Part.CANARY})
_TITLES: Final = {
    Part.WORKERS: "Protection is down",
    Part.BROKER: "The broker does not answer",
    Part.CANARY: "The canary was not stopped",
    Part.SINK: "The audit is not written",
    Part.SHADOW: "Rules in shadow are not run",
    Part.CONSOLE: "The console is behind",
}
_STILL: Final = {
    Part.WORKERS: "Records wait in {named}, and no worker processes them: nothing is decided there. Kills stay "
    "in force; calls that wait for a verdict get none.",
    Part.SINK: "Records wait in {named}, and no sink writes them to the audit table. Nothing is lost while the broker "
    "keeps them.",
    Part.SHADOW: "Records wait in {named}, and no worker of rules in shadow processes them. What is enforced does not "
    "wait for them.",
}
_RUNBOOKS: Final = {
    Part.WORKERS: "HaltlineNoProgress",
    Part.BROKER: "HaltlineNoProgress",
    Part.CANARY: "HaltlineCanaryNotStopped",
    Part.SINK: "HaltlineSinkBehind",
    Part.SHADOW: "HaltlineShadowBehind",
    Part.CONSOLE: "HaltlineConsoleBehind",
}


def _by_topic(places: Iterable[Partition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def _named(where: Mapping[str, tuple[int, ...]]) -> str:
    """Such as "partitions 0, 3 of haltline.actions"; for many topics only their number."""
    if len(where) > 2:
        return f"{sum(map(len, where.values()))} partitions of {len(where)} topics"
    return " and ".join(_of_topic(topic, numbers) for topic, numbers in where.items())


def _of_topic(topic: str, numbers: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, numbers[:_MAX_NAMED]))
    more = f" and {len(numbers) - _MAX_NAMED} more" if len(numbers) > _MAX_NAMED else ""
    return f"partition{'' if len(numbers) == 1 else 's'} {listed}{more} of {topic}"
