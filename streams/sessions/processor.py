"""The main path of the worker: records in, decisions out, states kept. `_event` shows it on one screen."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import MsgspecError

from haltline.detectors.features.observation import CallTracker
from haltline.interventions.control.incidents import ACTS
from haltline.interventions.control.kills import ARM
from haltline.interventions.state.records import control_record
from haltline.schemas import wire
from haltline.schemas.control import Command, Feedback
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.events import Kind
from haltline.schemas.signals import Signal, SignalScope
from haltline.schemas.topics import Topics
from haltline.streams.engine import event_time
from haltline.streams.engine.core import Core, Effects, SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.kafka.topics import DEFAULT_CHANGELOG
from haltline.streams.policy.source import News
from haltline.streams.runtime.ports import Meter, Sender
from haltline.streams.runtime.processor_api import Change, Load, RawRecord
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.outputs import Outputs
from haltline.streams.sessions.state_cache import SCOPE_KEY, State, StateCache, decoded, in_force
from haltline.streams.sessions.timers import TimerQueue

MAX_STATE_BYTES = 4 * 1024 * 1024
"""The largest encoded state of one session, in bytes; typical ones take a thousandth. The changelog accepts twice as
much."""
MAX_LIVE_SESSIONS = 200_000
"""The most sessions kept as objects. Beyond it, the least recently used ones are kept as bytes only."""

_UNKNOWN_OFFSET = -1
_MAX_DUE = 100
"""The most due actions of one session at once; more than it can have."""

log = logging.getLogger(__name__)

# One unforeseen record must not end the processing of every session, again at each start.
_UNEXPECTED: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MsgspecError,
    RecursionError,
    TypeError,
    ValueError,
)

_MODEL_TURN = Kind.MODEL_TURN
_TIMESTAMP = attrgetter("timestamp")
_SCOPE_KEYS = [SCOPE_KEY + f"{scope}:".encode() for scope in {*map(str, ScopeKind), *map(str, SignalScope)}]
CLOCKS_DIFFER_MS = 3_600_000
"""The most by which a producer's clock may be ahead of ours. A later record does not advance the time."""


class SessionProcessor:
    """Processes the records of the sources, in order; keeps the states of sessions in its partitions."""

    def __init__(
        self,
        core: Core,
        *,
        topics: Topics,
        partitions: int,
        load: Load,
        outbox: Sender,
        metrics: Meter,
        policies: Callable[[], Sequence[News]] = list,
        max_live_sessions: int = MAX_LIVE_SESSIONS,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        changelog: str = DEFAULT_CHANGELOG,
    ) -> None:
        self._policies = policies
        self._changelog = changelog
        self._topics = topics
        self._load = load
        self._outputs = Outputs(outbox, metrics, topics=topics, runs=core.runs, now_ms=now_ms)
        self._metrics = self._outputs.meter
        self._states = StateCache(load, partitions=partitions, most=max_live_sessions, unreadable=self._unreadable)
        self._now_ms = now_ms
        self._handle = {
            topics.actions: self._event,
            topics.commands: self._command,
            topics.feedback: self._feedback,
            topics.signals: self._signal,
        }
        self._timers = TimerQueue()
        self._use(core)
        self._stream_ms: dict[int, int] = {}  # by partition: the time of its latest event

    def process(self, records: Sequence[RawRecord]) -> None:
        """Process one micro-batch of one topic partition, in offset order."""
        self._renew()
        self._states.touched = None
        handle = self._handle[records[0].topic]
        idle = self._core.idle
        for record in records:
            if idle and not self._is_known(record.key):
                continue
            try:
                handle(record)
            except wire.InvalidRecord as bad:
                self._outputs.dead_letter(record, bad.reason, bad.detail)
        if records[0].topic == self._topics.actions:
            self._follow_time(records)

    def rehearse(self, record: RawRecord) -> None:
        """Process one record without any output, and encode the changed states, in a process that ends afterwards."""
        self._outputs.mute()
        self._metrics, self._policies = self._outputs.meter, list
        self.process((record,))
        for key in self._states.take_changed():
            self._encoded(self._states[key].state)

    def pass_over(self, record: RawRecord, why: str) -> None:
        """Publish a record that ended processes as a dead letter."""
        log.error("%s-%d: offset %d is passed over: %s", record.topic, record.partition, record.offset, why)
        self._outputs.dead_letter(record, BadRecord.ENDED_WORKER, why)

    def _is_known(self, key: bytes | None) -> bool:
        """Return whether the subject of a record has a state: with no rule in shadow, no new one is created.

        Existing ones continue, so that they have no gap when a rule is in shadow again.
        """
        if key is None:
            return True
        if key in self._states or self._load(key) is not None:
            return True
        scopes = [prefix + key for prefix in _SCOPE_KEYS]
        return any(scope in self._states or self._load(scope) is not None for scope in scopes)

    def _event(self, record: RawRecord) -> None:
        event = wire.decode_event(record.value, record.headers)
        ahead = event_time.ahead_ms(event, record.timestamp)
        if ahead:
            event = event_time.at_log_time(event, ahead)
        state = self._states.session(event.session_id, record)
        was_killed = state.control.killed
        try:
            outcome = self._core.on_event(state, event, record)
            if event.kind is _MODEL_TURN and outcome.applied:
                self._metrics.model_turn(is_usage_known=not event.is_usage_unknown)
            if ahead and outcome.applied:
                self._metrics.event_ahead()
                outcome = event_time.effects_for(outcome, ahead)
            if outcome.follows:
                self._emit(outcome, record)
        except _UNEXPECTED as failure:
            self._reset_detectors(state, f"{failure!r}")
            killed = state.control.killed
            if killed is not None and was_killed is None:  # decided, but not published before the failure
                self._outputs.control(control_record(state.ref, killed))
                state.due_ms = ARM
                self._timers.put(state.session_id.encode(), record.partition, ARM)
            self._outputs.dead_letter(
                record, BadRecord.DETECTOR_FAILED, f"the session's detectors are reset: {failure!r}"
            )

    def _command(self, record: RawRecord) -> None:
        command = wire.decode(Command, record.value)
        if command.scope is not ScopeKind.SESSION:
            self._scope_command(command, record)
            return
        if command.kind in ACTS and self._is_of_tree(command, record):
            self._scope_command(command, record, SignalScope.ROOT)
            return
        state = self._states.session(command.id, record)
        self._run_due(state, record.partition, self._now_ms())  # first, because an approval may be too late
        self._emit(self._core.on_command(state, command, record), record)

    def _feedback(self, record: RawRecord) -> None:
        feedback = wire.decode(Feedback, record.value)
        state = self._states.session(feedback.session_id, record)
        outcome = self._core.on_feedback(state, feedback, record)
        killed = outcome.state.control.killed
        if outcome.control is not None and killed is not None and feedback.decided_at is not None:
            first_ms = min(feedback.decided_at, killed.sent_ms or feedback.decided_at)
            self._metrics.stopped((self._now_ms() - first_ms) / 1000)
        self._emit(outcome, record)

    def _signal(self, record: RawRecord) -> None:
        signal = wire.decode(Signal, record.value)
        state = self._states.scope(signal.scope, signal.id, record)
        try:
            outcome = self._core.on_signal(state, signal, record)
        except _UNEXPECTED as failure:
            self._reset_detectors(state, f"{failure!r}")
            self._outputs.dead_letter(
                record, BadRecord.DETECTOR_FAILED, f"{signal.scope}: its detectors are reset: {failure!r}"
            )
            return
        self._outputs.scope(outcome, signal.session_id, record)

    def recovered(self, partition: int, states: Mapping[bytes, bytes]) -> None:
        """Load a newly owned partition: the first bytes of each state show when it is due."""
        self._timers.recovered(partition, states)

    def tick(self) -> None:
        """Do what is due by the clock."""
        now_ms = self._now_ms()
        for key in list(self._timers.take(now_ms)):
            state = self._states.known(key)
            if state is not None:
                self._run_due(state, self._states[key].partition, now_ms)

    def _run_due(self, state: SessionState, partition: int, now_ms: int) -> None:
        key = state.session_id.encode()
        for _ in range(_MAX_DUE):
            if not 0 < state.due_ms <= now_ms:
                break
            self._states.changed[key] = partition
            self._emit(self._core.on_tick(state, now_ms), None)
        self._timers.put(key, partition, state.due_ms)

    def changed(self) -> Iterable[Change]:
        """Yield the states that changed since the last call, encoded.

        Batches may be processed between two items: a state is encoded when it is requested, including later changes,
        and the next call yields it again.
        """
        self._renew()
        for key, partition in self._states.take_changed().items():
            yield partition, key, self._encoded(self._states[key].state)

    @property
    def live(self) -> int:
        """The number of sessions held as objects."""
        return len(self._states)

    @property
    def touched(self) -> bytes | None:
        """The key of the state to which `process` last applied a record; None if to none."""
        return self._states.touched

    def put_away(self, beyond: int) -> Iterable[tuple[int, bytes, bytes]]:
        """Yield the least recently used states beyond this number, as `changed` does, and drop their objects.

        For callers without checkpoints: only dropped states are encoded.
        """
        for key in self._states.longest_untouched(beyond):
            partition = self._states[key].partition
            yield partition, key, self.let_go(key) or b""

    def let_go(self, key: bytes) -> bytes | None:
        """Return one encoded state, and drop its object as `put_away` does; None if it was not held."""
        if key not in self._states:
            return None
        encoded = self._encoded(self._states.let_go(key, b""))
        self._states.changed.pop(key, None)
        return encoded

    def pass_time(self, record: RawRecord) -> None:
        """Use only the time of a record."""
        if record.topic == self._topics.actions:
            self._follow_time((record,))

    def _encoded(self, state: State) -> bytes:
        """Return the encoded state; one that cannot be encoded, or is too large, is reset."""
        try:
            data = state_codec.encode(state)
        except TypeError as failure:
            self._reset_detectors(state, f"its state cannot be written: {failure}")
            return state_codec.encode(state)
        if len(data) <= MAX_STATE_BYTES:
            return data
        self._reset_detectors(state, f"its state has {len(data)} bytes, expected at most {MAX_STATE_BYTES}")
        return state_codec.encode(state)

    def _reset_detectors(self, state: State, why: str) -> None:
        """Reset the history of a session or a scope; its controls in force and processed offsets and ids stay."""
        if isinstance(state, SessionState):
            log.error("session %s: its detectors are reset: %s", state.session_id, why)
            state.calls = CallTracker()
        else:
            log.error("%s %s: its detectors are reset: %s", state.scope, state.id, why)
        state.detectors = {}
        self._metrics.detector_error("state")

    def _unreadable(self, key: bytes, partition: int, data: bytes, why: str) -> None:
        """Report a state that cannot be read, with its bytes, its owner and a remedy; it starts again."""
        topics, whose = self._topics, key.removeprefix(SCOPE_KEY).decode(errors="replace")
        whose = whose.replace(":", " ", 1) if key.startswith(SCOPE_KEY) else f"session {whose}"
        detail = (
            f"{whose}, partition {partition} of {self._changelog}: its state cannot be read and is reset: its "
            f"counts are lost, its entry in {topics.control} stays in force. To do: if it has to be stopped and has no "
            f"entry there, kill it (haltline kill); make sure that only workers may write {self._changelog} "
            f"(haltline topics acls). {why}"
        )
        log.error("%s; its bytes are on %s", detail[:2000], topics.dead_letter)
        self._metrics.detector_error("state")
        letter = DeadLetter(
            reason=BadRecord.UNREADABLE_STATE,
            detail=detail[:2000],
            topic=self._changelog,
            partition=partition,
            offset=_UNKNOWN_OFFSET,
            timestamp_ms=self._now_ms(),
        )
        self._outputs.letter(letter, key=key, value=data)

    def begin_anew(self, key: bytes, encoded: bytes) -> bytes | None:
        """Return the state with only what is in force; None if nothing is."""
        try:
            left = in_force(decoded(key, encoded))
        except state_codec.UnreadableState:
            return encoded  # reported when it is loaded
        return None if left is None else state_codec.encode(left)

    def idle_before_ms(self, partition: int) -> int:
        """Return the time before which an idle session was last written, in event time of the partition.

        The time of a partition without new records, or with a lag, does not advance: its sessions' events are still to
        come.
        """
        return self._stream_ms.get(partition, 0) - self._ttl_ms

    def retain_when_idle(self, key: bytes, encoded: bytes) -> bool:
        """Return whether an idle session is kept: a kill and a declared batch stay, as bytes."""
        if key in self._states.changed:
            return True  # it is soon written again
        state = self._states.let_go(key, encoded)
        if isinstance(state, ScopeState):
            if self._core.retain_when_idle(state):
                return True
            self._outputs.incidents(self._core.on_idle_scope(state))
            return False
        now_ms = self._now_ms()
        control = state.control
        if control.killed is not None or state.due_ms or any(b.expires_ms > now_ms for b in control.batches):
            return True
        if control.probation is not None:  # dropped with the session
            self._outputs.release(ScopeKind.SESSION, state.session_id)
        self._outputs.incidents(self._core.on_idle(state))
        return False

    def revoke(self, partitions: Collection[int]) -> None:
        """Forget the sessions of partitions that another worker owns now."""
        self._states.revoke(partitions)
        self._stream_ms = {number: ms for number, ms in self._stream_ms.items() if number not in partitions}
        self._timers.revoke(partitions)

    def _renew(self) -> None:
        """Apply a new policy: never within a micro-batch."""
        for news in self._policies():
            if isinstance(news, Core):
                self._use(news)
                continue
            self._metrics.policy_refused()
            if news.record is not None:
                self._outputs.dead_letter(news.record, BadRecord.INVALID, news.detail)

    def _use(self, core: Core) -> None:
        """Use this core from now on; the sessions' states stay."""
        self._core = core
        self._ttl_ms = int(core.policy.session_ttl_h * 3_600_000)
        self._metrics.policy(core.policy.name, core.policy.version)

    def _follow_time(self, records: Sequence[RawRecord]) -> None:
        """Advance the log's own time: an agent's clock may be days off. It is never ahead of our clock."""
        now_ms = self._now_ms()
        latest_ms = max(map(_TIMESTAMP, records))
        if latest_ms > now_ms:
            known = (record.timestamp for record in records if record.timestamp <= now_ms + CLOCKS_DIFFER_MS)
            latest_ms = min(max(known, default=0), now_ms)
        partition = records[0].partition
        self._stream_ms[partition] = max(latest_ms, self._stream_ms.get(partition, 0))

    def _emit(self, outcome: Effects, record: RawRecord | None) -> None:
        """Publish the effects; `record` is their cause, None for the clock."""
        if record is not None and outcome.applied:
            self._timers.put(outcome.state.session_id.encode(), record.partition, outcome.state.due_ms)
        self._outputs.session(outcome, record)

    def _is_of_tree(self, command: Command, record: RawRecord) -> bool:
        """Return whether a command is on an incident of the tree of a session: that has the same scope and id."""
        known = self._states.session(command.id, record).control.incidents.values()
        return all(incident.incident_id != command.incident_id for incident in known)

    def _scope_command(self, command: Command, record: RawRecord, scope: str | None = None) -> None:
        state = self._states.scope(scope or command.scope.value, command.id, record)
        _, effects = self._core.on_scope_command(state, command, record)
        self._outputs.command(effects, command.scope, command.id)
