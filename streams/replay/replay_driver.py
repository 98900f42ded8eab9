"""Records of a source through the core: what comes of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from haltline.schemas.topics import Topics
from haltline.streams.replay.compare import Json, chosen_of, plain
from haltline.streams.replay.record_filter import Choice, chosen
from haltline.streams.replay.records import LogRecord, cause_of
from haltline.streams.replay.replay_worker import Replay


@dataclass(frozen=True, kw_only=True)
class ReplayFilter:
    """Whose decisions are compared; all of them by default.

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
class ProcessedRecords:
    """The result of some records."""

    records: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    decisions: list[Json] = field(default_factory=list)
    """Those that pass the filter."""
    causes_found: set[tuple[str, str]] = field(default_factory=set)
    """What decisions of then answer, with its topic."""
    begun_before: set[str] = field(default_factory=set)
    """Sessions of these decisions whose first event here is not their first one."""
    unreadable: int = 0
    failures: int = 0


def process_records(
    records: Iterable[LogRecord],
    replay: Replay,
    topics: Topics,
    *,
    record_filter: ReplayFilter,
    causes: Collection[str],
    step: Callable[[], object] = lambda: None,
) -> ProcessedRecords:
    """Decides on records; `causes` is what decisions of then answer."""
    found = ProcessedRecords()
    counts, choice = record_filter.decisions(), record_filter.records(topics)
    keys = {session.encode() for session in record_filter.sessions}
    begins: dict[bytes, bool] = {}
    for record in records:
        step()
        if keys and (record.key not in keys or record.topic == topics.signals):
            replay.pass_time(record)
            continue
        found.records[record.topic] += 1
        output = replay.record(record)
        if choice is not None and not choice(record):
            continue
        if causes:
            cause = cause_of(record, topics)
            if cause.id is not None and cause.id in causes:
                found.causes_found.add((cause.id, record.topic))
            if record.topic == topics.actions and record.key is not None:
                begins.setdefault(record.key, cause.begins)
        for decision in output.decisions:
            if counts is None or counts(decision):
                found.levels[str(decision["level"])] += 1
                found.decisions.append(plain(decision))
    found.begun_before = {key.decode(errors="replace") for key, first in begins.items() if not first}
    found.unreadable, found.failures = replay.meter.unreadable, replay.meter.failures
    return found
