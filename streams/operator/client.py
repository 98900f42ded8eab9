"""The operator's client: sends commands, waits for the worker's answer, and reads what is in force.

It prints nothing. Every operation is a Command on the `commands` topic with confirmed delivery. It stays there, and is
applied later if no worker runs now.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from pydantic import ValidationError

from haltline.interventions.control.declared_batches import LONGEST
from haltline.interventions.control.scope_commands import STATE_OF
from haltline.schemas import wire
from haltline.schemas.control import Batch, Command, CommandKind, ControlRecord, control_key
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.problems import problem_of
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.history.fold import row_of, take_in
from haltline.streams.history.kept import Memory
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import LogReader, Unreachable, bounds, open_consumer, partitions_of
from haltline.streams.kafka.log_record import record_of
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.operator.command_factory import (
    MISSED,
    NotAllowed,
    is_done,
    make_command,
    now_ms,
    require_label,
    require_possible,
    require_rule,
)
from haltline.streams.operator.ids import resolve
from haltline.streams.operator.known_sessions import HINT, KnownSessions

_POLL_S = 0.1
_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """The result of a command."""

    command: Command
    answered: bool
    """Whether a worker has applied it; False after a timeout: it stays on the topic."""
    before: ControlRecord | None = None
    """The previous control record of the scope."""
    after: ControlRecord | None = None
    """The control record now; None after a reset, and if the command does not concern one."""
    second_wanted: bool = False
    """Whether it is recorded without effect, because it requires a second operator."""
    waited_s: float


@dataclass(frozen=True, kw_only=True)
class PartitionLag:
    """The progress of a group's workers in one partition of a source."""

    topic: str
    partition: int
    committed: int | None
    """The next offset to read; None if nothing was committed yet."""
    end: int
    lag_records: int


class Operator:
    """The client of an operator for one cluster.

    Every method raises Unreachable when no broker answers, NoSuchTopic when haltline's topics do not exist, and
    NotAllowed for an invalid command, such as a reset without a reason.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        topics: Topics | None = None,
        group: str = "haltline",
        answer_within_s: float = 10.0,
        client: Mapping[str, ClientSetting] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._client = client or {}
        self._topics = topics or Topics()
        self._group = group
        self._within_s = answer_within_s
        self.left_out: dict[str, int] = {}
        """How many rows the last answer left out, by table: those that changed longest ago."""

    def find(self, scope: ScopeKind, given: str, *, hint: str = HINT) -> str:
        """Return the full id for a prefix; a tool, a target or the fleet is returned unchanged.

        Raises NotFound when no events of it were found, Ambiguous when several have the prefix.
        """
        known = KnownSessions(
            bootstrap=self._bootstrap, topics=self._topics, client=self._client, within_s=self._within_s
        )
        return known.find(scope, given, hint=hint)

    def command(
        self,
        kind: CommandKind,
        scope: ScopeKind,
        scope_id: str,
        *,
        by: str,
        reason: str,
        until_stopped: bool = False,
        **fields: Any,
    ) -> CommandResult:
        """Kill, freeze, contain, lift or reset a scope; `fields` are those of such a Command.

        It is answered when the worker's entry in the `control` topic shows it; a kill with `until_stopped`, when the
        agent's side has acknowledged the stop. Lifting a stop of the fleet takes two operators: the first one's result
        is `second_wanted`. So does a reset with `force` within the lockout: the first one's is not answered.

        Raises NotAllowed for what conflicts with the control in force, such as a freeze after a kill.
        """
        command = make_command(kind, scope, scope_id, by=by, reason=reason, **fields)
        if kind is not CommandKind.KILL and not command.force:  # a kill never waits
            key = control_key(scope, scope_id)
            require_possible(command, next((record for record in self.in_force() if record.key == key), None))
        return self._act(command, lambda record: is_done(command, record, until_stopped=until_stopped))

    def declare_batch(
        self,
        session_id: str,
        *,
        max_deletes: int,
        actions: str = "*",
        targets: Sequence[str] | None = None,
        lasts: timedelta,
        by: str,
        reason: str,
    ) -> CommandResult:
        """Declare many destructive actions of a session in advance. Answered when the worker has applied it."""
        if not timedelta(0) < lasts <= LONGEST:
            raise NotAllowed(f"batch of {session_id}: expected it to last up to {LONGEST}, got {lasts}")
        expires_ms = now_ms() + int(lasts.total_seconds() * 1000)
        try:
            batch = Batch(actions=actions, targets=list(targets or ()), max_deletes=max_deletes, expires=expires_ms)
        except ValidationError as error:
            raise NotAllowed(f"batch of {session_id}: {problem_of(error)}") from error
        return self._about(session_id, CommandKind.BATCH, by=by, reason=reason, batch=batch)

    def label(self, decision: Decision, label: str, *, by: str, reason: str) -> CommandResult:
        """Label whether a decision of a rule was right, for the tuning of thresholds and for the audit.

        Raises NotAllowed for a decision of no rule, such as an operator's own kill.
        """
        require_label(label)
        require_rule(decision)
        fields = {"decision_id": decision.decision_id, "label": label}
        return self._about(decision.session_id, CommandKind.LABEL, by=by, reason=reason, **fields)

    def missed(self, session_id: str, rule: str, *, by: str, reason: str) -> CommandResult:
        """Label a session in which a rule should have found something, and did not."""
        return self._about(session_id, CommandKind.LABEL, by=by, reason=reason, label=MISSED, code=rule)

    def decision(self, decision_id: str) -> Decision:
        """Return a decision by its id or a prefix, as far as the `interventions` topic has it.

        Raises NotFound when there is none, Ambiguous when several have the prefix.
        """
        found: dict[str, Decision] = {}
        begins = decision_id.encode()
        with self._reader(self._topics.interventions) as reader:
            for message in reader.to_end():
                if begins not in (message.value() or b""):
                    continue
                with suppress(wire.InvalidRecord):
                    decision = wire.decode(Decision, message.value())
                    found.setdefault(decision.decision_id, decision)
        return found[resolve("decision", decision_id, found)]

    def in_force(self) -> list[ControlRecord]:
        """Return all control records in force, the oldest first."""
        with self._reader(self._topics.control) as reader:
            return sorted(_in_force(reader).values(), key=lambda record: (record.stands_since, record.key))

    def lag(self) -> list[PartitionLag]:
        """Return the progress of the group's workers, by topic and partition."""
        consumer = open_consumer(self._bootstrap, self._group, client=self._client)
        try:
            sources = [tp for topic in self._topics.session_sources for tp in partitions_of(consumer, topic)]
            committed = consumer.committed(sources, timeout=self._within_s)
            return [_lag(tp, *bounds(consumer, tp)) for tp in committed]
        except KafkaException as failed:
            raise Unreachable(f"group {self._group}: expected its committed offsets, got {failed}") from failed
        finally:
            consumer.close()

    def _history(self, *topics: str, since_ms: int | None = None, holding: bytes = b"") -> Memory:
        """Return what the records of these topics make, in memory; `holding`: only records that contain this text."""
        history = Memory()
        with self._reader(*topics, since_ms=since_ms) as reader:
            records = (record_of(message) for message in reader.to_end() if holding in (message.value() or b""))
            while some := list(islice(records, _AT_ONCE)):
                take_in(history, [row_of(record) for record in some], self._topics.prefix)
        self.left_out = dict(history.left_out)
        return history

    def _reader(self, *topics: str, from_beginning: bool = True, since_ms: int | None = None) -> LogReader:
        return LogReader(self._bootstrap, topics, client=self._client, from_beginning=from_beginning, since_ms=since_ms)

    def _act(self, command: Command, done: Callable[[ControlRecord | None], bool]) -> CommandResult:
        """Send a command, and wait for the record that answers it in the `control` topic.

        For a control already in force there is no new record: then the workers' group must have passed the command.
        """
        key = control_key(command.scope, command.id).encode()
        two = command.scope is ScopeKind.FLEET and command.kind in STATE_OF
        with self._reader(self._topics.control) as reader:
            before = _in_force(reader).get(key)
            place = self._send(command)
            sent_at = time.monotonic()

            def result(after: ControlRecord | None, *, answered: bool = True, second: bool = False) -> CommandResult:
                return CommandResult(
                    command=command,
                    answered=answered,
                    before=before,
                    after=after,
                    second_wanted=second,
                    waited_s=time.monotonic() - sent_at,
                )

            if done(before):
                return result(before, answered=self._is_passed(place, sent_at))
            while time.monotonic() - sent_at < self._within_s:
                message = reader.poll(_POLL_S)
                if message is not None and message.key() == key:
                    after = _record(message.value())
                elif message is None and two and self._is_passed(place, sent_at):
                    # The command's effects were written before it was passed: read them to the end.
                    with self._reader(self._topics.control) as again:
                        after = _in_force(again).get(key)
                    if not done(after):
                        return result(None, second=True)
                else:
                    continue
                if done(after):
                    return result(after)
        return CommandResult(command=command, answered=False, before=before, waited_s=self._within_s)

    def _about(self, session_id: str, kind: CommandKind, *, by: str, reason: str, **fields: Any) -> CommandResult:
        """Send a command without a control record, and wait until the workers' group has passed it."""
        command = make_command(kind, ScopeKind.SESSION, session_id, by=by, reason=reason, **fields)
        place = self._send(command)
        sent_at = time.monotonic()
        answered = self._is_passed(place, sent_at)
        return CommandResult(command=command, answered=answered, waited_s=time.monotonic() - sent_at)

    def _is_passed(self, place: TopicPartition, sent_at: float) -> bool:
        """Return whether the workers' group commits an offset after the command, within the time limit of an answer."""
        with closing(open_consumer(self._bootstrap, self._group, client=self._client)) as consumer:
            while time.monotonic() - sent_at < self._within_s:
                try:
                    (committed,) = consumer.committed([TopicPartition(place.topic, place.partition)], timeout=2.0)
                except KafkaException:
                    continue  # the broker is briefly away; the deadline limits it
                if committed.offset > place.offset:
                    return True
                time.sleep(_POLL_S)
        return False

    def _send(self, command: Command) -> TopicPartition:
        """Send the command, and return its position, confirmed by the broker. It may be written twice."""
        return produce_confirmed(
            self._bootstrap,
            self._topics.commands,
            key=command.id.encode(),
            value=command.to_json(),
            client=self._client,
        )


def _in_force(reader: LogReader) -> dict[bytes, ControlRecord]:
    """Return the last record of every key, without removed ones."""
    in_force: dict[bytes, ControlRecord] = {}
    for message in reader.to_end():
        key = message.key() or b""
        record = None if key == SETS_KEY else _record(message.value())
        if record is None:
            in_force.pop(key, None)
        else:
            in_force[key] = record
    return in_force


def _record(value: bytes | None) -> ControlRecord | None:
    return None if value is None else wire.decode(ControlRecord, value)


def _lag(tp: TopicPartition, low: int, end: int) -> PartitionLag:
    committed = tp.offset if tp.offset >= 0 else None
    # Records deleted by retention will never be read.
    start = low if committed is None else max(low, committed)
    return PartitionLag(
        topic=tp.topic, partition=tp.partition, committed=committed, end=end, lag_records=max(0, end - start)
    )
