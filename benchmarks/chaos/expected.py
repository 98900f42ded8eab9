"""What must be there after a chaos run: the pure core over the topics as they are, in their order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml

from benchmarks.cluster import PARTITIONS
from haltline.detectors.cross_session import ACROSS
from haltline.schemas import wire
from haltline.schemas.control import Command, ControlRecord, control_key
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision, Mode, ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Operations, Policy, Rule
from haltline.schemas.signals import Signal
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core, Effects, Position, SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.groups import Runs
from haltline.streams.sessions import state_codec


class LogRecord(NamedTuple):
    """A record as it stands in the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass
class Truth:
    """What follows from the records of the sources."""

    states: dict[str, Any] = field(default_factory=dict)
    """By session: the state, as its JSON says it."""
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id, without the worker's wall clock."""
    detections: dict[str, dict[str, Any]] = field(default_factory=dict)
    control: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By key: what holds at the end."""
    signals: dict[str, dict[str, Any]] = field(default_factory=dict)
    dead: dict[Place, BadRecord] = field(default_factory=dict)


# Between topics there is no order, so what is seen across sessions must not kill them: it is only recorded. So is what
# one rule finds in a session, for the group that runs rules in shadow. Nobody acknowledges kills here: to say them
# again by the worker's clock would be no function of the log.
POLICY = Policy(
    name="chaos",
    operations=Operations(kill_ack_s=3600),
    rules={name: Rule(mode=Mode.SHADOW) for name in (*(pattern.id for pattern in ACROSS), "destructive_volume")},
)


def document(folder: Path) -> Path:
    """The policy of a chaos run as a file for `--policy`."""
    file = folder / "chaos-policy.yaml"
    rules = {name: {"mode": "shadow"} for name in POLICY.rules}
    file.write_text(yaml.safe_dump({"name": POLICY.name, "operations": {"kill_ack_s": 3600}, "rules": rules}))
    return file


BEFORE = "@before"
"""Behind the name of a topic: the one of this name that was deleted."""


def work_out(
    actions: Iterable[LogRecord],
    commands: Iterable[LogRecord],
    signals: Iterable[LogRecord],
    topics: Topics,
    *,
    gone: Iterable[LogRecord] = (),
    runs: Runs = Runs.ALL,
    core: Core | None = None,
    partitions: int = PARTITIONS,
) -> Truth:
    """Run the core over these topics. Each session must be on one of the first two only.

    `gone` was on the topic of actions before that was recreated; its records bear its name and BEFORE.
    What the signals must be follows from those two; what follows from the signals, from their order in the log.
    """
    truth = Truth()
    core = core or Core(POLICY, runs=runs)
    live: dict[str, SessionState] = {}
    for record in gone:
        _act(truth, core, live, record, topics, partitions)
    for state in live.values():
        if topics.actions in state.offsets:
            state.offsets[topics.actions + BEFORE] = state.offsets.pop(topics.actions)
    for record in actions:
        _act(truth, core, live, record, topics, partitions)
    for record in commands:
        command = wire.decode(Command, record.value)
        _take(truth, live, core.on_command(live.get(command.id), command, _position(record)))
    scopes: dict[tuple[str, str], ScopeState] = {}
    for record in signals:
        signal = wire.decode(Signal, record.value)
        key = (signal.scope, signal.id)
        found = core.on_signal(scopes.get(key), signal, _position(record))
        scopes[key] = found.state
        if found.failures or found.commands or found.controls:
            raise RuntimeError(f"expected nothing but what is recorded of {signal}, got {found}")
        for detection in found.detections:
            truth.detections[detection.detection_id] = orjson.loads(detection.to_json())
        for decision in found.decisions:
            truth.decisions[decision.decision_id] = without_clock(decision)
        _told(truth, found.signals)
    truth.states = {session: state_codec.shown(state) for session, state in live.items()}
    truth.states |= {control_key(*key): state_codec.shown(state) for key, state in scopes.items()}
    if unknown := {topic for topic, _, _ in truth.dead} - {topics.actions, topics.actions + BEFORE}:
        raise ValueError(f"expected bad records on {topics.actions} only, got some on {unknown}")
    return truth


def _act(
    truth: Truth, core: Core, live: dict[str, SessionState], record: LogRecord, topics: Topics, partitions: int
) -> None:
    place = (record.topic, record.partition, record.offset)
    try:
        event = wire.decode_event(record.value, record.headers)
    except wire.InvalidRecord as bad:
        truth.dead[place] = bad.reason
        return
    if partition_of(event.session_id, partitions) != record.partition:
        truth.dead[place] = BadRecord.WRONG_KEY
        return
    at = Position(topics.actions, record.partition, record.offset)
    _take(truth, live, core.on_event(live.get(event.session_id), event, at))


def _position(record: LogRecord) -> Position:
    return Position(record.topic, record.partition, record.offset)


def _take(truth: Truth, live: dict[str, SessionState], outcome: Effects) -> None:
    if outcome.failures:
        raise RuntimeError(f"expected no detector to fail, got {outcome.failures}")
    live[outcome.state.session_id] = outcome.state
    _told(truth, outcome.signals)
    for detection in outcome.detections:
        truth.detections[detection.detection_id] = orjson.loads(detection.to_json())
    for decision in (outcome.decision, *outcome.also):
        if decision is not None:
            truth.decisions[decision.decision_id] = without_clock(decision)
    if outcome.control is not None:
        truth.control[outcome.control.key] = without_clock(outcome.control)
    if outcome.released:
        truth.control.pop(control_key(ScopeKind.SESSION, outcome.state.session_id), None)


def _told(truth: Truth, signals: Iterable[Signal]) -> None:
    truth.signals |= {signal.signal_id: orjson.loads(signal.to_json()) for signal in signals}


def without_clock(record: Decision | ControlRecord) -> dict[str, Any]:
    """A record as JSON says it, without the worker's wall clock."""
    fields: dict[str, Any] = orjson.loads(record.to_json())
    fields.pop("decided_at", None)
    return fields
