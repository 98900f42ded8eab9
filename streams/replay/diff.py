"""A source through the core, with what was decided then beside it."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from haltline.streams.replay.choosing import Choice
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
    """As made now, without the worker's clock; only where they are asked for."""
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


def replay_and_compare(
    source: Source,
    in_force: Sequence[InForce],
    *,
    follow: bool = False,
    sessions: Collection[str] = (),
    agents: Collection[str] = (),
    detectors: Collection[str] = (),
    choice: Choice | None = None,
    exact: bool = False,
    keep: bool = False,
    step: Callable[[], object] = lambda: None,
) -> Replayed:
    """Replays a source and compares.

    With a choice of sessions only their records are taken in, and no signals. With one of agents or detectors all are,
    and only the decisions on those agents and by those rules are compared; with a `choice` of records, only those on
    these records. With `follow` (see `Replay`) there is nothing of then, and nothing is compared. `step` is called for
    each record.
    """
    topics = source.topics
    counts = chosen_of(sessions, agents, detectors)
    comparison = Comparison(chosen=counts, exact=exact, partial=bool(sessions), within=source.within)
    result = Replayed(Compared())
    for record in source.decided():
        decision = _decision(record)
        if decision is not None:
            name = f"{decision.get('policy')} version {decision.get('policy_version')}"
            result.policies[name] = result.policies.get(name, 0) + 1
            comparison.then(decision, record.timestamp)
    keys = {session.encode() for session in sessions}
    replay = Replay(in_force, topics=topics, partitions=source.partitions, follow=follow)
    asks = comparison.asks
    whole = all(span.start == 0 for span in source.spans)
    known: dict[bytes, bool] = {}  # whether the session began within the range
    for record in source.inputs():
        step()
        if keys and (record.key not in keys or record.topic == topics.signals):
            replay.pass_time(record)
            continue
        result.records[record.topic] += 1
        said = replay.record(record)
        if choice is not None and not choice(record):
            continue
        if asks:
            cause = cause_of(record, topics)
            comparison.heard(cause.id, record.topic)
            if not whole and record.topic == topics.actions and record.key is not None:
                known.setdefault(record.key, cause.begins)
        for decision in said.decisions:
            if counts is not None and not counts(decision):
                continue
            result.levels[str(decision["level"])] += 1
            if not follow:
                comparison.now(decision)
            if keep:
                result.decisions.append(plain(decision))
    result.compared = comparison.result(topics.signals)
    result.begun_before = [name for name in result.compared.first_by_session if not known.get(name.encode(), True)]
    result.unreadable, result.failures = replay.meter.unreadable, replay.meter.failures
    return result


def _decision(record: LogRecord) -> Json | None:
    try:
        found = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "decision_id" in found else None
