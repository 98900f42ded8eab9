"""What readers of a changelog partition drop because its eras went down, and what of it can be brought back.

Releases before claims ordered the owners of a partition by their epochs (`haltline.streams.runtime.changelog`). Such an
owner could begin with an era below one that it had not read: all that it wrote from then on is dropped by every reader,
although it was the owner, and has committed offsets over it. The records are in the log until they are compacted.

A dropped state comes back where it includes all that the state that counts does. Offsets alone do not tell: an owner
that had not read all began with older states, and one that came later goes on from the committed offsets, past the
dropped events. So the ids of the last events, which states remember, are compared too. Two states of which each has
events that the other has not cannot be merged: what counts stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from haltline.streams.engine import cross_session
from haltline.streams.engine.log_position import includes_offsets, remembers_ids
from haltline.streams.engine.session_state import MAX_SEEN, SessionState
from haltline.streams.runtime.changelog import (
    TOPIC_IDS_HEADER,
    Claim,
    Epoch,
    Owner,
    PartitionState,
    RawRecord,
)
from haltline.streams.sessions.state_cache import SCOPE_KEY, State, decoded
from haltline.streams.sessions.state_codec import CorruptState

_NOBODY: Final = Epoch(0, 0)


class Outcome(StrEnum):
    """What becomes of a dropped state that includes events which the one that counts does not."""

    BRING_BACK = "can be brought back"
    WENT_ON = "went on without"
    """Both have events that the other has not."""
    OTHER_TOPICS = "of other topics"
    """One of the topics that its offsets count in was recreated: the two cannot be compared."""
    UNREADABLE = "not readable"


class Encoded(NamedTuple):
    """A state as it is in the log."""

    value: bytes
    logs: bytes
    """The mark of the logs that its offsets count in; empty: not known."""
    offset: int = -1


@dataclass(frozen=True)
class DroppedState:
    """The state of one key that readers drop."""

    key: bytes
    outcome: Outcome
    dropped: Encoded
    dropped_offsets: Mapping[str, int]
    """By source topic: the last offset that it includes."""
    counted_offsets: Mapping[str, int]
    """The same of the state that counts; empty where none does."""

    @property
    def name(self) -> str:
        """The session's id, or scope and id of what is no session."""
        return self.key.removeprefix(SCOPE_KEY).decode(errors="replace")


@dataclass
class DroppedRecords:
    """Those that one owner wrote behind an owner with a greater epoch."""

    above: Epoch
    """The greater one."""
    epoch: Epoch
    late: bool
    """Whether the owner had been replaced, as it stands before the other; else it was the owner, and eras went down."""
    first: int
    """Its first record, by offset."""
    first_ms: int
    last: int
    last_ms: int
    records: int = 0
    keys: set[bytes] = field(default_factory=set)


@dataclass(frozen=True)
class PartitionReport:
    """What was found in one partition."""

    records: int
    dropped: Sequence[DroppedRecords]
    """What readers drop of releases before claims, by owner, in the order of the log."""
    states: Sequence[DroppedState]
    behind_claim: Sequence[int]
    """Offsets of what an older release wrote behind a claim, and nothing has let count."""
    fenced_keys: int
    """Keys whose last record is late, or of an older release before a claim: the next owner writes them anew."""

    def having(self, outcome: Outcome) -> Sequence[DroppedState]:
        """The states of which that becomes."""
        return [state for state in self.states if state.outcome is outcome]


class PartitionReading:
    """One partition of a changelog, read record by record."""

    def __init__(self, partition: int) -> None:
        self.states = PartitionState(partition)
        """What counts."""
        self._records = 0
        self._behind_claim: list[int] = []
        self._highest = _NOBODY
        self._counted = {_NOBODY}
        self._dropped: dict[tuple[Epoch, Epoch], DroppedRecords] = {}
        self._candidates: dict[bytes, dict[Epoch, Encoded]] = {}
        self._removed: dict[bytes, Encoded] = {}

    def report(self) -> PartitionReport:
        """What was found so far."""
        return PartitionReport(
            self._records,
            list(self._dropped.values()),
            list(self._states()),
            list(self._behind_claim),
            len(self.states.fenced_keys),
        )

    def take(self, record: RawRecord) -> None:
        """Read the next record."""
        states, key = self.states, record.key
        self._records += 1
        epoch = None if key is None or Claim.of(record) or Owner.of(record) else Epoch.of(record)
        if key is not None and epoch is not None:
            if states.owner is not None:
                self._behind_claim.append(record.offset)
            if epoch < self._highest:
                self._drop(key, epoch, record)
            else:
                self._highest = epoch
                self._counted.add(epoch)
        if key in self._candidates and key in states.values:
            self._removed[key] = self._counts(key)  # should the record remove it
        states.apply((record,), begins=states.position, following=record.offset + 1)
        if states.older_release is None:
            self._behind_claim.clear()

    def _drop(self, key: bytes, epoch: Epoch, record: RawRecord) -> None:
        late = epoch in self._counted
        offset, ms = record.offset, record.timestamp
        at = (self._highest, epoch)
        if (found := self._dropped.get(at)) is None:
            found = self._dropped[at] = DroppedRecords(self._highest, epoch, late, offset, ms, offset, ms)
        found.last, found.last_ms = offset, ms
        found.records += 1
        found.keys.add(key)
        if late:
            return  # what it had processed was processed again
        candidates = self._candidates.setdefault(key, {})
        candidates.pop(epoch, None)  # the newest stands last
        if record.value is not None:
            logs = next((value for name, value in record.headers if name == TOPIC_IDS_HEADER), None)
            candidates[epoch] = Encoded(record.value, logs or b"", offset)

    def _counts(self, key: bytes) -> Encoded:
        return Encoded(self.states.values[key], self.states.other_logs.get(key, b""))

    def _states(self) -> Iterator[DroppedState]:
        for key, candidates in self._candidates.items():
            counted = self._counts(key) if key in self.states.values else self._removed.get(key)
            if candidates and (found := _compared(key, list(candidates.values()), counted)) is not None:
                yield found


def _compared(key: bytes, candidates: list[Encoded], counted: Encoded | None) -> DroppedState | None:
    try:
        states = [(encoded, decoded(key, encoded.value)) for encoded in candidates]
        counts = None if counted is None else decoded(key, counted.value)
    except CorruptState:
        return DroppedState(key, Outcome.UNREADABLE, candidates[-1], {}, {})
    # The newest first, unless it began with a state that another one goes beyond.
    states.reverse()
    states.sort(key=lambda one: sum(not includes_offsets(one[1], other) for _, other in states))
    for encoded, state in states:
        if counted is None or counts is None:
            return DroppedState(key, Outcome.BRING_BACK, encoded, state.offsets, {})
        outcome = Outcome.OTHER_TOPICS if encoded.logs != counted.logs else _outcome(state, counts)
        if outcome is not None:
            return DroppedState(key, outcome, encoded, state.offsets, counts.offsets)
    return None


def _outcome(dropped: State, counts: State) -> Outcome | None:
    if dropped.offsets == counts.offsets and dropped.seen == counts.seen:
        return None
    most = MAX_SEEN if isinstance(dropped, SessionState) else cross_session.MAX_SEEN
    if includes_offsets(counts, dropped) and remembers_ids(counts, dropped, most):
        return None
    # Ids that are not remembered any more may have been forgotten: then it is the state with many more events.
    includes = includes_offsets(dropped, counts) and remembers_ids(dropped, counts, most) is not False
    return Outcome.BRING_BACK if includes else Outcome.WENT_ON
