"""The analysis of changelog records that readers drop because eras went down, and of states that can be restored.

Releases before claims ordered the owners of a partition by their epochs (`haltline.streams.runtime.changelog`). Such an
owner could start with an era below one that it had not read. Every reader drops all its later records, although it was
the owner, and has committed offsets after them. The records stay in the log until compaction.

A dropped state is restored if it includes everything in the state that counts. Offsets alone do not show that: an owner
that had not read everything began with older states, and a later one continues from the committed offsets, after the
dropped events. So the ids of the last events, which states contain, are compared too. Two states with events that the
other lacks cannot be merged: the one that counts stays.
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
    """The outcome for a dropped state with events that the one that counts lacks.

    The other one went on without them if it has events of its own. States of other topics cannot be compared: a topic
    of their offsets was recreated.
    """

    BRING_BACK = "can be brought back"
    WENT_ON = "went on without"
    OTHER_TOPICS = "of other topics"
    UNREADABLE = "not readable"


class Encoded(NamedTuple):
    """An encoded state from the log."""

    value: bytes
    logs: bytes
    """The mark of the logs of its offsets; empty if unknown."""
    offset: int = -1


@dataclass(frozen=True)
class DroppedState:
    """A state of one key that readers drop."""

    key: bytes
    outcome: Outcome
    dropped: Encoded
    dropped_offsets: Mapping[str, int]
    """The last offset that it includes, by source topic."""
    counted_offsets: Mapping[str, int]
    """The same for the state that counts; empty if there is none."""

    @property
    def name(self) -> str:
        """The session's id, or scope and id of another state."""
        return self.key.removeprefix(SCOPE_KEY).decode(errors="replace")


@dataclass
class DroppedRecords:
    """The records that one owner wrote after an owner with a greater epoch."""

    above: Epoch
    """The greater epoch."""
    epoch: Epoch
    late: bool
    """Whether the owner had been replaced, as it precedes the other in the log; otherwise it was the owner, and eras
    went down."""
    first: int
    """The offset of its first record."""
    first_ms: int
    last: int
    last_ms: int
    records: int = 0
    keys: set[bytes] = field(default_factory=set)


@dataclass(frozen=True)
class PartitionReport:
    """The findings in one partition."""

    records: int
    dropped: Sequence[DroppedRecords]
    """The records of releases before claims that readers drop, by owner, in log order."""
    states: Sequence[DroppedState]
    behind_claim: Sequence[int]
    """Offsets of records that an older release wrote after a claim, and no release marker accepts."""
    fenced_keys: int
    """The number of keys whose last record is late, or from an older release before a claim: the next owner rewrites
    them."""

    def having(self, outcome: Outcome) -> Sequence[DroppedState]:
        """Return the states with this outcome."""
        return [state for state in self.states if state.outcome is outcome]


class PartitionReading:
    """One partition of a changelog, read record by record."""

    def __init__(self, partition: int) -> None:
        self.states = PartitionState(partition)
        """The records that count."""
        self._records = 0
        self._behind_claim: list[int] = []
        self._highest = _NOBODY
        self._counted = {_NOBODY}
        self._dropped: dict[tuple[Epoch, Epoch], DroppedRecords] = {}
        self._candidates: dict[bytes, dict[Epoch, Encoded]] = {}
        self._removed: dict[bytes, Encoded] = {}

    def report(self) -> PartitionReport:
        """Return the findings so far."""
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
            self._removed[key] = self._counts(key)  # in case the record removes it
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
            return  # its events were processed again
        candidates = self._candidates.setdefault(key, {})
        candidates.pop(epoch, None)  # the newest is last
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
    # The newest first, unless it began with a state that another one includes.
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
    # Missing ids may have been dropped: then it is the state with many more events.
    includes = includes_offsets(dropped, counts) and remembers_ids(dropped, counts, most) is not False
    return Outcome.BRING_BACK if includes else Outcome.WENT_ON
