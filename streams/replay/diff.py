"""The replay of a source through the core, compared with the recorded decisions."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.topics import Topics
from haltline.schemas.wire import InvalidRecord, decode
from haltline.streams.replay.compare import Compared, Comparison, Json, chosen_of, plain
from haltline.streams.replay.compare_incidents import IncidentComparison
from haltline.streams.replay.record_filter import Choice, chosen
from haltline.streams.replay.records import LogRecord, Source, cause_of
from haltline.streams.replay.replay_worker import InForce, Replay


@dataclass(slots=True)
class Replayed:
    """The result of a replay."""

    compared: Compared
    records: Counter[str] = field(default_factory=Counter)
    """The number of records by topic."""
    decisions: list[Json] = field(default_factory=list)
    """The replayed decisions, without the worker's clock; only if there is nothing to compare them with."""
    levels: Counter[str] = field(default_factory=Counter)
    policies: dict[str, int] = field(default_factory=dict)
    """The recorded policies, as name and version, with the number of decisions of each."""
    unreadable: int = 0
    failures: int = 0
    begun_before: list[str] = field(default_factory=list)
    """Differing sessions that began before the range, which lacks their earlier events."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
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
class ReplayFilter:
    """A filter for the compared decisions; by default all of them.

    With `sessions`, only their records are applied, and no signals. Otherwise all records are applied, and the
    decisions on `agents` and by `detectors` are compared, limited to calls of `tools` and records for which `where`
    holds.
    """

    sessions: Collection[str] = ()
    agents: Collection[str] = ()
    detectors: Collection[str] = ()
    tools: Collection[str] = ()
    where: str | None = None

    def decisions(self) -> Callable[[Json], bool] | None:
        """Return the filter of decisions; None: all."""
        return chosen_of(self.sessions, self.agents, self.detectors)

    @property
    def narrows(self) -> bool:
        """Return whether the chosen decisions can be only a part of an incident."""
        return bool(self.detectors or self.tools or self.where)

    def records(self, topics: Topics) -> Choice | None:
        """Return the filter of records; None: all. Raises ValueError if `where` is not a valid condition."""
        return chosen(topics, tools=self.tools, where=self.where) if self.tools or self.where else None


def replay_and_compare(
    source: Source,
    in_force: Sequence[InForce],
    *,
    follow: bool = False,
    exact: bool = False,
    step: Callable[[], object] = lambda: None,
    **filters: Any,
) -> Replayed:
    """Replay a source and compare; `filters` are the fields of a `ReplayFilter`.

    With `follow` (see `Replay`) there are no recorded decisions, and nothing is compared. `step` is called for each
    record.
    """
    topics, record_filter = source.topics, ReplayFilter(**filters)
    comparison = Comparison(
        chosen=record_filter.decisions(), exact=exact, partial=bool(record_filter.sessions), within=source.within
    )
    result = Replayed(Compared())
    for record in source.decided():
        decision = _decision(record)
        if decision is not None:
            name = f"{decision.get('policy')} version {decision.get('policy_version')}"
            result.policies[name] = result.policies.get(name, 0) + 1
            comparison.then(decision, record.timestamp)
    incidents = IncidentComparison(chosen=record_filter.decisions(), exact=exact, partial=bool(record_filter.sessions))
    compares_incidents = not follow and not record_filter.narrows
    for record in source.incidents() if compares_incidents else ():
        with suppress(InvalidRecord):
            incidents.then(decode(IncidentRecord, record.value), within=source.within(record.timestamp))
    replay = Replay(in_force, topics=topics, partitions=source.partitions, follow=follow)
    note_incident = incidents.now if compares_incidents else (lambda _: None)
    for made in _decided_again(
        source, replay, record_filter, comparison, result, note_incident=note_incident, step=step
    ):
        result.levels[str(made["level"])] += 1
        if follow:
            result.decisions.append(made)
        else:
            comparison.now(made)
    result.unreadable, result.failures = replay.meter.unreadable, replay.meter.failures
    result.compared = comparison.result(topics.signals)
    result.compared.incidents = incidents.result()
    before = set(result.begun_before) if any(span.start for span in source.spans) else ()
    result.begun_before = [name for name in result.compared.first_by_session if name in before]
    return result


def _decided_again(
    source: Source,
    replay: Replay,
    record_filter: ReplayFilter,
    comparison: Comparison,
    result: Replayed,
    *,
    note_incident: Callable[[IncidentRecord], None],
    step: Callable[[], object],
) -> Iterator[Json]:
    """Yield the decisions that count.

    `result` counts the records, and gets all sessions whose first event here is not their first one.
    """
    topics = source.topics
    counts, choice = record_filter.decisions(), record_filter.records(topics)
    keys = {session.encode() for session in record_filter.sessions}
    seen: set[bytes] = set()
    for record in source.inputs():
        step()
        if keys and (record.key not in keys or record.topic == topics.signals):
            replay.pass_time(record)
            continue
        result.records[record.topic] += 1
        output = replay.record(record)
        for incident in output.incidents:
            note_incident(IncidentRecord.model_validate_json(incident))
        if choice is not None and not choice(record):
            continue
        if comparison.causes:
            cause = cause_of(record, topics)
            comparison.add_cause(cause.id, record.topic)
            if record.topic == topics.actions and record.key is not None and record.key not in seen:
                seen.add(record.key)
                if not cause.begins:
                    result.begun_before.append(record.key.decode(errors="replace"))
        yield from (plain(one) for one in output.decisions if counts is None or counts(one))


def _decision(record: LogRecord) -> Json | None:
    try:
        found = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "decision_id" in found else None
