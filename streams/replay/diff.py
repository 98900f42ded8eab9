"""A source through the core, with what was decided then beside it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from haltline.schemas.topics import Topics
from haltline.streams.replay.choosing import Choice, chosen
from haltline.streams.replay.compare import Compared, Comparison, Json, chosen_of, plain
from haltline.streams.replay.records import LogRecord, Source, cause_of
from haltline.streams.replay.run import InForce, Replay


@dataclass(slots=True)
class Replayed:
    """What came of a replay."""

    compared: Compared
    records: Counter[str] = field(default_factory=Counter)
    """By topic."""
    decisions: list[Json] = field(default_factory=list)
    """As made now, without the worker's clock; only where there is nothing to compare them with."""
    levels: Counter[str] = field(default_factory=Counter)
    policies: dict[str, int] = field(default_factory=dict)
    """Policies that decided then, as name and version, with how many decisions each."""
    unreadable: int = 0
    failures: int = 0
    begun_before: list[str] = field(default_factory=list)
    """Of the sessions that diverge, those that began before the range: what they did then is not in it."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "records": dict(self.records),
            "levels": dict(self.levels),
            "policies_then": self.policies,
            "unreadable": self.unreadable,
            "detector_failures": self.failures,
            "begun_before": self.begun_before,
            **self.compared.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Whose decisions are compared; what is not said is all of them.

    Of `sessions` only the records are taken in, and no signals. Otherwise everything is taken in, and compared are the
    decisions on `agents` and by `detectors`, of them only those on calls of `tools` and records where `where` holds.
    """

    sessions: Collection[str] = ()
    agents: Collection[str] = ()
    detectors: Collection[str] = ()
    tools: Collection[str] = ()
    where: str | None = None

    def decisions(self) -> Callable[[Json], bool] | None:
        """Which decisions count; None: all."""
        return chosen_of(self.sessions, self.agents, self.detectors)

    def records(self, topics: Topics) -> Choice | None:
        """On which records; None: all. Raises ValueError: `where` is no condition."""
        return chosen(topics, tools=self.tools, where=self.where) if self.tools or self.where else None


@dataclass(slots=True)
class TakenIn:
    """What came of some records."""

    records: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    decisions: list[Json] = field(default_factory=list)
    """Those that are wanted."""
    heard: set[tuple[str, str]] = field(default_factory=set)
    """What decisions of then answer, with its topic."""
    begun_before: set[str] = field(default_factory=set)
    """Sessions of these decisions whose first event here is not their first one."""
    unreadable: int = 0
    failures: int = 0


def take_in(
    records: Iterable[LogRecord],
    replay: Replay,
    topics: Topics,
    *,
    wanted: Wanted,
    causes: Collection[str],
    step: Callable[[], object] = lambda: None,
) -> TakenIn:
    """Decides on records; `causes` is what decisions of then answer."""
    found = TakenIn()
    counts, choice = wanted.decisions(), wanted.records(topics)
    keys = {session.encode() for session in wanted.sessions}
    begins: dict[bytes, bool] = {}
    for record in records:
        step()
        if keys and (record.key not in keys or record.topic == topics.signals):
            replay.pass_time(record)
            continue
        found.records[record.topic] += 1
        said = replay.record(record)
        if choice is not None and not choice(record):
            continue
        if causes:
            cause = cause_of(record, topics)
            if cause.id is not None and cause.id in causes:
                found.heard.add((cause.id, record.topic))
            if record.topic == topics.actions and record.key is not None:
                begins.setdefault(record.key, cause.begins)
        for decision in said.decisions:
            if counts is None or counts(decision):
                found.levels[str(decision["level"])] += 1
                found.decisions.append(plain(decision))
    found.begun_before = {key.decode(errors="replace") for key, first in begins.items() if not first}
    found.unreadable, found.failures = replay.meter.unreadable, replay.meter.failures
    return found


def replay_and_compare(
    source: Source,
    in_force: Sequence[InForce],
    *,
    follow: bool = False,
    exact: bool = False,
    processes: int = 1,
    step: Callable[[], object] = lambda: None,
    **wanted: Any,
) -> Replayed:
    """Replays a source and compares; `wanted` is as `Wanted` has it.

    With `follow` (see `Replay`) there is nothing of then, and nothing is compared. With several `processes` the
    source's partitions are shared out among them, as among workers; what comes of it is the same. `step` is called for
    each record.
    """
    topics, asked = source.topics, Wanted(**wanted)
    comparison = Comparison(chosen=asked.decisions(), exact=exact, partial=bool(asked.sessions), within=source.within)
    result = Replayed(Compared())
    for record in source.decided():
        decision = _decision(record)
        if decision is not None:
            name = f"{decision.get('policy')} version {decision.get('policy_version')}"
            result.policies[name] = result.policies.get(name, 0) + 1
            comparison.then(decision, record.timestamp)
    if processes > 1 and source.reader is not None and not follow:
        from haltline.streams.replay.parallel import side_by_side  # noqa: PLC0415  # it imports this module

        parts = side_by_side(
            source,
            source.reader,
            in_force,
            wanted=asked,
            causes=comparison.causes,
            processes=processes,
            step=step,
        )
    else:
        replay = Replay(in_force, topics=topics, partitions=source.partitions, follow=follow)
        parts = [take_in(source.inputs(), replay, topics, wanted=asked, causes=comparison.causes, step=step)]
    for part in parts:
        result.records += part.records
        result.levels += part.levels
        for cause, topic in part.heard:
            comparison.heard(cause, topic)
        for said in part.decisions:
            if not follow:
                comparison.now(said)
        result.unreadable += part.unreadable
        result.failures += part.failures
    result.decisions = [said for part in parts for said in part.decisions] if follow else []
    result.compared = comparison.result(topics.signals)
    if any(span.start for span in source.spans):
        before = {name for part in parts for name in part.begun_before}
        result.begun_before = [name for name in result.compared.first_by_session if name in before]
    return result


def _decision(record: LogRecord) -> Json | None:
    try:
        found = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "decision_id" in found else None
