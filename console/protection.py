"""Whether agents are protected at present, judged by consumer groups, the broker and canaries.

Pure functions of observations and times; `protection_watch` makes the observations.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from haltline.console import problem_kinds as kinds
from haltline.console.problem_kinds import Part, Partitions, Problem, ProblemKind
from haltline.console.read_model.topic_bounds import Mismatch
from haltline.console.settings import ProtectionLimits
from haltline.schemas.record import rfc3339
from haltline.streams.runtime.health import Partition, Progress, Sample, follow

_CANARY_ONCE_S: Final = 900.0
"""How long, in seconds, the result of a single canary counts; a periodic one is replaced by the next."""
_LOOK_TAKES_S: Final = 30.0
"""The longest a check takes, in seconds, if the broker does not answer at once."""
_CANARY_SLACK_S: Final = 60.0
_MAX_NAMED: Final = 12
"""The most partitions named in a sentence."""
_MAX_TEXTS: Final = 3


class Flight(NamedTuple):
    """The last canary in the read model."""

    session_id: str
    began_s: float
    """Epoch seconds."""
    killed: bool
    every_s: float | None
    """The interval between canaries; None: not periodic."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """The results of the checks so far. Times are epoch seconds."""

    looked_s: float
    """The last check that the broker answered; at first, the start of the checks."""
    groups: Mapping[Part, Mapping[Partition, Progress]] = field(default_factory=dict)
    away_since_s: float | None = None
    """Since when the broker does not answer; None: it answers."""
    away_why: str = ""
    missing: str = ""
    """The topic that the read model waits for, with the reason; empty: none."""
    missing_since_s: float = 0.0
    mismatches: Mapping[Mismatch, float] = field(default_factory=dict)
    """The partitions that do not match what was read, by whole topic names; each with the time of its detection."""
    flight: Flight | None = None


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


def waiting(before: Known, missing: str, now_s: float) -> Known:
    """Update the topic that the read model waits for, with the reason; empty: none."""
    return replace(before, missing=missing, missing_since_s=before.missing_since_s if before.missing else now_s)


def compared(before: Known, mismatches: Iterable[Mismatch], now_s: float) -> Known:
    """Update the partitions whose offsets do not match the topics."""
    return replace(before, mismatches={one: before.mismatches.get(one, now_s) for one in mismatches})


def problems_of(known: Known, now_s: float, limits: ProtectionLimits) -> list[Problem]:
    """The present problems, the worst first."""
    console = _console(known, limits)
    found = [
        _still(known, kinds.WORKERS, limits.workers_s),
        _broker(known, now_s, limits),
        # While the read model lags, a missing kill proves nothing about a canary.
        None if console is not None else _canary(known.flight, now_s, limits),
        _still(known, kinds.SINK, limits.sink_s),
        _still(known, kinds.SHADOW, limits.shadow_s),
        console,
        # After a broker's restart a partition may seem too short for a moment.
        _mismatch(known, kinds.CONSOLE_AHEAD, now_s, limits.console_s),
        _mismatch(known, kinds.CONSOLE_GAP, now_s),
    ]
    return [problem for problem in found if problem is not None]


def _still(known: Known, kind: ProblemKind, after_s: float) -> Problem | None:
    """The problem that the group's offsets do not advance while records wait, by the last answered check; or None."""
    since = {
        at: seen.waiting_since_s
        for at, seen in known.groups.get(kind.part, {}).items()
        if seen.waiting_since_s is not None and known.looked_s - seen.waiting_since_s >= after_s
    }
    return _problem(kind, min(since.values()), places=since) if since else None


def _broker(known: Known, now_s: float, limits: ProtectionLimits) -> Problem | None:
    # Without a detected outage, a check that never ends, for example waiting for the database, counts as one too.
    since_s = known.looked_s if known.away_since_s is None else known.away_since_s
    if now_s - since_s < limits.broker_s + (0 if known.away_since_s is not None else _LOOK_TAKES_S):
        return None
    return _problem(kinds.BROKER, since_s, known.away_why or "it has not ended")


def _canary(flight: Flight | None, now_s: float, limits: ProtectionLimits) -> Problem | None:
    if flight is None:
        return None
    ago_s = now_s - flight.began_s
    counts = flight.every_s is not None or ago_s < _CANARY_ONCE_S
    if not flight.killed and counts and ago_s >= limits.canary_s:
        return _problem(kinds.CANARY, flight.began_s, flight.session_id)
    if flight.every_s is not None and ago_s >= 2 * flight.every_s + _CANARY_SLACK_S:
        return _problem(kinds.CANARY_SILENT, flight.began_s, f"{flight.every_s:g}")
    return None


def _console(known: Known, limits: ProtectionLimits) -> Problem | None:
    if known.missing:
        return _problem(kinds.CONSOLE_WAITS, known.missing_since_s, known.missing)
    behind = {
        at: known.looked_s - seen.lag_seconds(known.looked_s)
        for at, seen in known.groups.get(Part.CONSOLE, {}).items()
        if seen.lag_seconds(known.looked_s) >= limits.console_s
    }
    return _problem(kinds.CONSOLE, min(behind.values()), places=behind) if behind else None


def _mismatch(known: Known, kind: ProblemKind, now_s: float, after_s: float = 0.0) -> Problem | None:
    is_gap = kind is kinds.CONSOLE_GAP
    found = {one: at_s for one, at_s in known.mismatches.items() if one.is_gap == is_gap and now_s - at_s >= after_s}
    if not found:
        return None
    texts = [one.text() for one in found]
    more = [f"{len(texts) - _MAX_TEXTS} more are alike"] if len(texts) > _MAX_TEXTS else []
    places = {(one.topic, one.partition) for one in found}
    return _problem(kind, min(found.values()), ". ".join([*texts[:_MAX_TEXTS], *more]), places)


def _problem(kind: ProblemKind, since_s: float, why: str = "", places: Iterable[Partition] = ()) -> Problem:
    """A problem of a kind; `why` or the named partitions complete its text."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        by_topic.setdefault(topic, []).append(number)
    return Problem(
        **vars(kind) | {"what": kind.what.format(why or _named(by_topic))},
        since=rfc3339(round(since_s * 1000)),
        partitions=[Partitions(topic, numbers) for topic, numbers in by_topic.items()],
    )


def _named(where: Mapping[str, Sequence[int]]) -> str:
    """Such as "partitions 0, 3 of haltline.actions"; for many topics only their number."""
    if len(where) > 2:
        return f"{sum(map(len, where.values()))} partitions of {len(where)} topics"
    return " and ".join(_of_topic(topic, numbers) for topic, numbers in where.items())


def _of_topic(topic: str, numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:_MAX_NAMED]))
    more = f" and {len(numbers) - _MAX_NAMED} more" if len(numbers) > _MAX_NAMED else ""
    return f"partition{'' if len(numbers) == 1 else 's'} {listed}{more} of {topic}"
