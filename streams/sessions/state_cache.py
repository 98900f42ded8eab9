"""The states that a worker holds as objects: by key, with the changes since the last checkpoint."""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice

from haltline.interventions.decide.cross_session import ScopeStatus
from haltline.interventions.state.session_control import SessionControl
from haltline.schemas import wire
from haltline.schemas.control import control_key
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.partitioner import partition_of
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.runtime.processor_api import Load, RawRecord
from haltline.streams.sessions import state_codec

State = SessionState | ScopeState

SCOPE_KEY = b"\xff"
"""The prefix of a key that is not a session's. It is invalid in UTF-8."""


Unreadable = Callable[[bytes, int, bytes, str], object]
"""Receives a state that cannot be read: its key, its partition, its bytes, and why."""


@dataclass(slots=True)
class CachedState:
    """A state with its partition."""

    partition: int
    state: State


class StateCache:
    """A cache of states as objects; others are loaded on request.

    A state that cannot be read is reported and reset: it must not stop the processing of a whole partition.
    """

    def __init__(self, load: Load, *, partitions: int, most: int, unreadable: Unreadable) -> None:
        self._load = load
        self._unreadable = unreadable
        self._partitions = partitions
        self._most = most
        self._held: OrderedDict[bytes, CachedState] = OrderedDict()  # least recently used first
        self.changed: dict[bytes, int] = {}
        """Changed states that have to be written: partition by key."""
        self.touched: bytes | None = None
        """The key last used by a record."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: bytes) -> bool:
        return key in self._held

    def __getitem__(self, key: bytes) -> CachedState:
        return self._held[key]

    def session(self, session_id: str, record: RawRecord) -> SessionState:
        """Return the session's state, which the record is about to change.

        Raises:
            InvalidRecord: the record is in another partition than its session.

        """
        key = session_id.encode()
        state = self._touched(key, session_id, record)
        if state is None:
            data = self._load(key)
            state = SessionState(session_id) if data is None else self._decoded(key, record.partition, data)
            self._held[key] = CachedState(record.partition, state)
        assert isinstance(state, SessionState)  # by its key
        return state

    def scope(self, scope: str, scope_id: str, record: RawRecord) -> ScopeState:
        """Return the state of an agent, target, tree, mission, tool or the fleet, which the record is about to change.

        Raises:
            InvalidRecord: as for `session`.

        """
        key = SCOPE_KEY + control_key(scope, scope_id).encode()
        state = self._touched(key, scope_id, record)
        if state is None:
            data = self._load(key)
            state = ScopeState(scope, scope_id) if data is None else self._decoded(key, record.partition, data)
            self._held[key] = CachedState(record.partition, state)
        assert isinstance(state, ScopeState)  # by its key
        return state

    def known(self, key: bytes) -> SessionState | None:
        """Return a session's state without a record of it; None if it is not known here."""
        held = self._held.get(key)
        if held is None and _is_session(key) and (data := self._load(key)) is not None:
            partition = partition_of(subject_of(key), self._partitions)
            held = self._held[key] = CachedState(partition, self._decoded(key, partition, data))
        return held.state if held is not None and isinstance(held.state, SessionState) else None

    def let_go(self, key: bytes, encoded: bytes) -> State:
        """Remove a key's object from the cache, and return it."""
        held = self._held.pop(key, None)
        if held is not None:
            return held.state
        state = self._decoded(key, partition_of(subject_of(key), self._partitions), encoded)
        self.changed.pop(key, None)
        return state

    def longest_untouched(self, beyond: int) -> list[bytes]:
        """Return the keys of the least recently used states beyond this number."""
        return list(islice(self._held, max(0, len(self._held) - beyond)))

    def take_changed(self) -> dict[bytes, int]:
        """Return the changes since the last call, partition by key, and evict unchanged states beyond the limit.

        The table has the evicted states' bytes since the last checkpoint.
        """
        for key in self.longest_untouched(self._most):
            if key not in self.changed:
                del self._held[key]
        changed, self.changed = self.changed, {}
        return changed

    def revoke(self, partitions: Collection[int]) -> None:
        """Forget the states of these partitions."""
        self._held = OrderedDict(item for item in self._held.items() if item[1].partition not in partitions)
        self.changed = {key: partition for key, partition in self.changed.items() if partition not in partitions}

    def _decoded(self, key: bytes, partition: int, data: bytes) -> State:
        """Return the state of a key as an object; a new one, which is to be written, if the bytes cannot be read."""
        try:
            return decoded(key, data)
        except state_codec.UnreadableState as why:
            self._unreadable(key, partition, data, str(why))
        self.changed[key] = partition
        if key.startswith(SCOPE_KEY):
            return ScopeState(key.removeprefix(SCOPE_KEY).decode(errors="replace").partition(":")[0], subject_of(key))
        return SessionState(subject_of(key))

    def _touched(self, key: bytes, record_key: str, record: RawRecord) -> State | None:
        """Return the object of a state, and mark it as changed; None if there is none yet."""
        held = self._held.get(key)
        partition = held.partition if held is not None else partition_of(record_key, self._partitions)
        if partition != record.partition:
            # In another partition than its commands and its control entry: a kill would not reach it.
            detail = f"{record_key!r}: expected partition {partition} (murmur2 of its id), got {record.partition}"
            raise wire.InvalidRecord(BadRecord.WRONG_KEY, detail)
        self.changed[key] = partition
        self.touched = key
        if held is None:
            return None
        self._held.move_to_end(key)  # most recently used
        return held.state


def decoded(key: bytes, data: bytes) -> State:
    """Return the state of a key as an object.

    Raises UnreadableState, also if it belongs to another key, and CorruptState.
    """
    if not key.startswith(SCOPE_KEY):
        session = state_codec.decode(data)
        if session.session_id.encode() != key:
            raise state_codec.UnreadableState(f"expected the state of {key!r}, got one of {session.session_id!r}")
        return session
    scope = state_codec.decode_scope(data)
    if SCOPE_KEY + control_key(scope.scope, scope.id).encode() != key:
        raise state_codec.UnreadableState(f"expected the state of {key!r}, got one of {scope.scope} {scope.id!r}")
    return scope


def in_force(state: State) -> State | None:
    """Return a state in which only what `control` has of it is in force; None if that is nothing."""
    if isinstance(state, ScopeState):
        stands = state.standing.stands
        return None if stands is None else ScopeState(state.scope, state.id, standing=ScopeStatus(stands))
    now = state.control
    if now.killed is None and now.held is None and now.probation is None:
        return None
    kept = SessionControl(killed=now.killed, held=now.held, probation=now.probation, trips=now.trips)
    return SessionState(state.session_id, state.agent_id, control=kept, due_ms=state.due_ms)


def subject_of(key: bytes) -> str:
    """Return the id of a state's session or scope, whose hash determines the state's partition."""
    name = key.removeprefix(SCOPE_KEY).decode(errors="replace")
    return name.partition(":")[2] if key.startswith(SCOPE_KEY) else name


def _is_session(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
