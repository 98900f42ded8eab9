"""A source through the core, with what was decided then beside it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from haltline.streams.replay.compare import Compared, Comparison, Json
from haltline.streams.replay.parallel import side_by_side
from haltline.streams.replay.records import LogRecord, Source
from haltline.streams.replay.replay_driver import ReplayFilter, process_records
from haltline.streams.replay.replay_worker import InForce, Replay


@dataclass(slots=True)
class Replayed:
    """The result of a replay."""

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


def replay_and_compare(
    source: Source,
    in_force: Sequence[InForce],
    *,
    follow: bool = False,
    exact: bool = False,
    processes: int = 1,
    step: Callable[[], object] = lambda: None,
    **filters: Any,
) -> Replayed:
    """Replays a source and compares; `filters` are the fields of a `ReplayFilter`.

    With `follow` (see `Replay`) there is nothing of then, and nothing is compared. With several `processes` the
    source's partitions are shared out among them, as among workers; what comes of it is the same. `step` is called for
    each record.
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
    if processes > 1 and source.reader is not None and not follow:
        parts = side_by_side(
            source,
            source.reader,
            in_force,
            record_filter=record_filter,
            causes=comparison.causes,
            processes=processes,
            step=step,
        )
    else:
        replay = Replay(in_force, topics=topics, partitions=source.partitions, follow=follow)
        parts = [
            process_records(
                source.inputs(), replay, topics, record_filter=record_filter, causes=comparison.causes, step=step
            )
        ]
    for part in parts:
        result.records += part.records
        result.levels += part.levels
        for cause, topic in part.causes_found:
            comparison.add_cause(cause, topic)
        for replayed in part.decisions:
            if not follow:
                comparison.now(replayed)
        result.unreadable += part.unreadable
        result.failures += part.failures
    result.decisions = [replayed for part in parts for replayed in part.decisions] if follow else []
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
