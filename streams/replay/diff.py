"""The replay of a source through the core, compared with the recorded decisions."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from haltline.streams.replay.choice import ALL, Choice
from haltline.streams.replay.compare import Compared, Comparison, Json, plain
from haltline.streams.replay.records import Cause, LogRecord, Source, cause_of
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


def replay_and_compare(
    source: Source,
    in_force: Sequence[InForce],
    choice: Choice = ALL,
    step: Callable[[], object] = lambda: None,
    *,
    follow: bool = False,
) -> Replayed:
    """Replay a source and compare its decisions; `step` is called for each record.

    With `follow` (see `Replay`) there are no recorded decisions, and nothing is compared. Raises ValueError if the
    choice's condition is invalid.
    """
    topics = source.topics
    comparison = Comparison(choice, source.within)
    result = Replayed(Compared())
    result.policies = _add_recorded(source, comparison)
    replay = Replay(in_force, topics=topics, partitions=source.partitions, follow=follow)
    passes = choice.records(topics)
    firsts: dict[bytes | None, Cause] = {}
    for record in source.inputs():
        step()
        if not choice.applies(record, topics):
            replay.pass_time(record)
            continue
        result.records[record.topic] += 1
        decisions = replay.record(record)
        if passes is not None and not passes(record):
            continue
        if comparison.causes:
            cause = cause_of(record, topics)
            comparison.add_cause(cause.id, record.topic)
            if record.topic == topics.actions:
                firsts.setdefault(record.key, cause)
        for decision in filter(choice.takes, decisions):
            result.levels[str(decision["level"])] += 1
            if follow:
                result.decisions.append(plain(decision))
            else:
                comparison.now(decision)
    result.unreadable, result.failures = replay.meter.unreadable, replay.meter.failures
    result.compared = comparison.result(topics.signals)
    if any(span.start for span in source.spans):
        whole = Cause(None)
        result.begun_before = [
            name for name in result.compared.first_by_session if not firsts.get(name.encode(), whole).begins
        ]
    return result


def _add_recorded(source: Source, comparison: Comparison) -> dict[str, int]:
    """Add the recorded decisions. Returns the policies with the number of decisions of each."""
    policies: Counter[str] = Counter()
    for record in source.decided():
        decision = _decision(record)
        if decision is not None:
            policies[f"{decision.get('policy')} version {decision.get('policy_version')}"] += 1
            comparison.then(decision, record.timestamp)
    return dict(policies)


def _decision(record: LogRecord) -> Json | None:
    try:
        found = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "decision_id" in found else None
