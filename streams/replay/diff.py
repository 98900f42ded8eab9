"""A source through the core, with what was decided then beside it."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

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

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "records": dict(self.records),
            "levels": dict(self.levels),
            "policies_then": self.policies,
            "unreadable": self.unreadable,
            "detector_failures": self.failures,
            **self.compared.to_dict(),
        }


def replay_and_compare(
    source: Source,
    in_force: Sequence[InForce],
    *,
    follow: bool = False,
    sessions: Collection[str] = (),
    agents: Collection[str] = (),
    exact: bool = False,
    keep: bool = False,
    step: Callable[[], object] = lambda: None,
) -> Replayed:
    """Replays a source and compares.

    With a choice of sessions only their records are taken in; with one of agents all are, and only the decisions on
    those agents are compared. Signals are taken in without a choice of sessions only. With `follow` (see `Replay`)
    there is nothing of then, and nothing is compared. `step` is called for each record.
    """
    topics = source.topics
    comparison = Comparison(chosen=chosen_of(sessions, agents), exact=exact, within=source.within)
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
    for record in source.inputs():
        step()
        if keys and (record.key not in keys or record.topic == topics.signals):
            replay.pass_time(record)
            continue
        result.records[record.topic] += 1
        if asks:
            comparison.heard(cause_of(record, topics), record.topic)
        for decision in replay.record(record).decisions:
            result.levels[str(decision["level"])] += 1
            if not follow:
                comparison.now(decision)
            if keep:
                result.decisions.append(plain(decision))
    result.compared = comparison.result(topics.signals)
    result.unreadable, result.failures = replay.meter.unreadable, replay.meter.failures
    return result


def _decision(record: LogRecord) -> Json | None:
    try:
        found = orjson.loads(record.value or b"null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "decision_id" in found else None
