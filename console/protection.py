"""Whether agents are protected now, judged by what was seen of consumer groups, the broker and canaries.

Pure functions of observations and a clock: `protection_watch` makes the observations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from haltline.console.protection_steps import STEPS, Step
from haltline.streams.runtime.health import Partition, Progress, Sample, follow

_CANARY_ONCE_S: Final = 900.0
"""So long the result of a canary counts that was run once; one that is run again and again is followed by the next."""
_LOOK_TAKES_S: Final = 30.0
"""At the most, a look that the broker does not answer at once."""
_CANARY_SLACK_S: Final = 60.0
_MAX_NAMED: Final = 12
"""Partitions that a sentence names."""
_MAX_TEXTS: Final = 3


class Part(StrEnum):
    """What has a problem."""

    WORKERS = "workers"
    BROKER = "broker"
    CANARY = "canary"
    SINK = "sink"
    SHADOW = "shadow"
    CONSOLE = "console"


class Urgency(StrEnum):
    """How bad it is."""

    CRITICAL = "critical"
    """Runaways may go on."""
    WARNING = "warning"
    """What is enforced is as it was; something else is late."""


@dataclass(frozen=True, kw_only=True)
class ProtectionLimits:
    """After how many seconds something is a problem, and how often is looked."""

    workers_s: float = 25.0
    """Records wait in a partition of `actions`, and the workers' committed offset does not move. A worker commits every
    ten seconds at the latest."""
    shadow_s: float = 60.0
    """The same of the workers that run rules in shadow."""
    sink_s: float = 60.0
    """The same of the audit sink, of every topic."""
    broker_s: float = 25.0
    """The broker does not answer the console."""
    console_s: float = 25.0
    """The read model is behind the topics by so much."""
    canary_s: float = 30.0
    """A canary's session is not killed."""
    look_every_s: float = 2.0
    """From one look to the next."""


@dataclass(frozen=True, kw_only=True)
class Flight:
    """The last canary, as the read model knows it."""

    session_id: str
    began_s: float
    """Epoch seconds."""
    killed: bool
    every_s: float | None
    """From one to the next; None: it is not run again by itself."""


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A partition of which the read model has read something else than the topic holds."""

    topic: str
    partition: int
    text: str
    """For people."""
    is_gap: bool
    """Records were deleted before they were read; otherwise, the topic ends before what was read."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known after some looks. Times are epoch seconds."""

    looked_s: float
    """The last look that the broker answered; at first, when looking began."""
    groups: Mapping[Part, Mapping[Partition, Progress]] = field(default_factory=dict)
    away_since_s: float | None = None
    """Since when the broker does not answer; None: it does."""
    away_why: str = ""
    feeder_failure: str = ""
    """Why the read model is no longer fed; empty: it is."""
    failed_since_s: float | None = None
    missing: str = ""
    """The topic that the read model waits for, with why; empty: none."""
    misfits: Mapping[Misfit, float] = field(default_factory=dict)
    """With since when it is known."""
    flight: Flight | None = None


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that is wrong now."""

    part: Part
    urgency: Urgency
    since_s: float
    """Epoch seconds."""
    title: str
    what: str
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By topic, where single partitions have the problem."""
    steps: tuple[Step, ...]
    runbook: str
    """The page of deploy/runbooks, without its ending."""


def samples(
    committed: Mapping[Partition, int | None],
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    last_ms: Mapping[Partition, int | None] | None = None,
) -> dict[Partition, Sample]:
    """How far a group is. What retention took away waits for nobody; without a commit, all that is there waits."""
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
    """After a look that the broker answered.

    When the last one is long ago, the time without one does not count: broker, console or machine stood still
    themselves, and workers have the whole time again to go on.
    """
    known = {} if now_s - before.looked_s >= limits.workers_s else before.groups
    followed = {
        part: {at: follow(known.get(part, {}).get(at), sample, now_s) for at, sample in seen.items()}
        for part, seen in groups.items()
    }
    return replace(before, looked_s=now_s, groups=followed, away_since_s=None, away_why="")


def unanswered(before: Known, why: str, now_s: float) -> Known:
    """After a look that the broker did not answer."""
    since_s = now_s if before.away_since_s is None else before.away_since_s
    return replace(before, away_since_s=since_s, away_why=why)


def fed(before: Known, failure: str, now_s: float, missing: str = "") -> Known:
    """Whether the read model is fed; `failure` is why not, `missing` a topic that it waits for."""
    is_fed = not failure and not missing
    since_s = None if is_fed else now_s if before.failed_since_s is None else before.failed_since_s
    return replace(before, feeder_failure=failure, missing=missing, failed_since_s=since_s)


def compared(before: Known, misfits: Iterable[Misfit], now_s: float) -> Known:
    """Where the offsets of the read model do not fit the topics."""
    return replace(before, misfits={one: before.misfits.get(one, now_s) for one in misfits})


def problems_of(known: Known, now_s: float, limits: ProtectionLimits) -> list[Problem]:
    """What is wrong, the worst first."""
    console = _console(known, limits)
    found = [
        _still(known, Part.WORKERS, limits.workers_s),
        _broker(known, now_s, limits),
        # What the read model does not have yet says nothing of a canary.
        None if console is not None else _canary(known.flight, now_s, limits),
        _still(known, Part.SINK, limits.sink_s),
        _still(known, Part.SHADOW, limits.shadow_s),
        console,
        # After a broker's restart a partition may seem to end too early for a moment.
        _misfit(known, now_s, is_gap=False, after_s=limits.console_s),
        _misfit(known, now_s, is_gap=True),
    ]
    return [problem for problem in found if problem is not None]


def _still(known: Known, part: Part, after_s: float) -> Problem | None:
    """The group's offsets stand still while records wait; by the last look that was answered."""
    since = {
        at: seen.waiting_since_s
        for at, seen in known.groups.get(part, {}).items()
        if seen.waiting_since_s is not None and known.looked_s - seen.waiting_since_s >= after_s
    }
    if not since:
        return None
    where = _by_topic(since)
    return Problem(
        part=part,
        urgency=Urgency.CRITICAL if part is Part.WORKERS else Urgency.WARNING,
        since_s=min(since.values()),
        title=_TITLES[part],
        what=_STILL[part].format(named=_named(where)),
        partitions=where,
        steps=STEPS[part.value],
        runbook=_RUNBOOKS[part],
    )


def _broker(known: Known, now_s: float, limits: ProtectionLimits) -> Problem | None:
    # Without an outage that was noticed, a look that never ends, such as one that waits for the database, is one too.
    since_s = known.looked_s if known.away_since_s is None else known.away_since_s
    if now_s - since_s < limits.broker_s + (0 if known.away_since_s is not None else _LOOK_TAKES_S):
        return None
    return Problem(
        part=Part.BROKER,
        urgency=Urgency.CRITICAL,
        since_s=since_s,
        title=_TITLES[Part.BROKER],
        what="Without it nothing is decided, killed or approved, and whether workers run is not known. "
        f"The last attempt: {known.away_why or 'it has not ended'}",
        steps=STEPS[Part.BROKER.value],
        runbook=_RUNBOOKS[Part.BROKER],
    )


def _canary(flight: Flight | None, now_s: float, limits: ProtectionLimits) -> Problem | None:
    if flight is None:
        return None
    ago_s = now_s - flight.began_s
    counts = flight.every_s is not None or ago_s < _CANARY_ONCE_S
    if not flight.killed and counts and ago_s >= limits.canary_s:
        return Problem(
            part=Part.CANARY,
            urgency=Urgency.CRITICAL,
            since_s=flight.began_s,
            title=_TITLES[Part.CANARY],
            what=f"Session {flight.session_id} should have been killed and was not. Runaway agents may not be stopped.",
            steps=STEPS["canary_not_stopped"],
            runbook="HaltlineCanaryNotStopped",
        )
    if flight.every_s is not None and ago_s >= 2 * flight.every_s + _CANARY_SLACK_S:
        return Problem(
            part=Part.CANARY,
            urgency=Urgency.WARNING,
            since_s=flight.began_s,
            title="The canary is silent",
            what=f"One is expected every {flight.every_s:g} s. Until it runs again, nothing proves that a runaway is "
            "stopped.",
            steps=STEPS["canary_silent"],
            runbook="HaltlineCanarySilent",
        )
    return None


def _console(known: Known, limits: ProtectionLimits) -> Problem | None:
    title, steps = _TITLES[Part.CONSOLE], STEPS[Part.CONSOLE.value]
    where: dict[str, tuple[int, ...]] = {}
    if known.missing and known.failed_since_s is not None:
        since_s = known.failed_since_s
        title, steps = "The console waits for its topics", STEPS["console_waits"]
        what = (
            f"{known.missing}. These pages are filled as soon as every topic is there; until then nothing is decided."
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
        what = f"What is new in {_named(where)} is not on these pages yet. Agents are stopped as before."
    return Problem(
        part=Part.CONSOLE,
        urgency=Urgency.WARNING,
        since_s=since_s,
        title=title,
        what=what,
        partitions=where,
        steps=steps,
        runbook=_RUNBOOKS[Part.CONSOLE],
    )


def _misfit(known: Known, now_s: float, *, is_gap: bool, after_s: float = 0.0) -> Problem | None:
    found = {one: at_s for one, at_s in known.misfits.items() if one.is_gap == is_gap and now_s - at_s >= after_s}
    if not found:
        return None
    texts = [one.text for one in found]
    more = [f"{len(texts) - _MAX_TEXTS} more are alike"] if len(texts) > _MAX_TEXTS else []
    return Problem(
        part=Part.CONSOLE,
        urgency=Urgency.WARNING,
        since_s=min(found.values()),
        title="The console misses records" if is_gap else "The console has read more than the topics hold",
        what=". ".join([*texts[:_MAX_TEXTS], *more]) + ". Agents are stopped as before.",
        partitions=_by_topic({(one.topic, one.partition) for one in found}),
        steps=STEPS["console_gap" if is_gap else "console_ahead"],
        runbook=_RUNBOOKS[Part.CONSOLE],
    )


_TITLES: Final = {
    Part.WORKERS: "Protection is down",
    Part.BROKER: "The broker does not answer",
    Part.CANARY: "The canary was not stopped",
    Part.SINK: "The audit is not written",
    Part.SHADOW: "Rules in shadow are not run",
    Part.CONSOLE: "The console is behind",
}
_STILL: Final = {
    Part.WORKERS: "Records wait in {named}, and no worker processes them: nothing is decided there. Kills that stand "
    "hold on; calls that wait for a verdict get none.",
    Part.SINK: "Records wait in {named}, and no sink writes them to the audit table. Nothing is lost while the broker "
    "keeps them.",
    Part.SHADOW: "Records wait in {named}, and no worker of rules in shadow processes them. What is enforced does not "
    "wait for them.",
}
_RUNBOOKS: Final = {
    Part.WORKERS: "HaltlineNoProgress",
    Part.BROKER: "HaltlineNoProgress",
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
    """Such as "partitions 0, 3 of haltline.actions"; of many topics how many there are."""
    if len(where) > 2:
        return f"{sum(map(len, where.values()))} partitions of {len(where)} topics"
    return " and ".join(_of_topic(topic, numbers) for topic, numbers in where.items())


def _of_topic(topic: str, numbers: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, numbers[:_MAX_NAMED]))
    more = f" and {len(numbers) - _MAX_NAMED} more" if len(numbers) > _MAX_NAMED else ""
    return f"partition{'' if len(numbers) == 1 else 's'} {listed}{more} of {topic}"
