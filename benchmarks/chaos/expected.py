"""The expected content after a chaos run: the result of the pure core over the topics in order of their offsets."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from pathlib import Path
from typing import Any

import orjson
import yaml

from benchmarks.chaos.poison import PLUGINS
from benchmarks.chaos.poisoned import Poisoned
from benchmarks.cluster import PARTITIONS
from haltline.detectors.cross_session import ACROSS
from haltline.schemas import wire
from haltline.schemas.control import Command, ControlRecord, control_key
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision, Mode, ScopeKind
from haltline.schemas.findings import Detection
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Operations, Policy, Rule
from haltline.schemas.signals import Signal
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core, Effects, Position, SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.groups import Runs
from haltline.streams.replay.records import LogRecord
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import in_force

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass
class Truth:
    """The results that follow from the source records."""

    states: dict[str, Any] = field(default_factory=dict)
    """By session: the state as JSON."""
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id, without times of the worker's wall clock."""
    detections: dict[str, dict[str, Any]] = field(default_factory=dict)
    control: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By key: the entries in force at the end."""
    signals: dict[str, dict[str, Any]] = field(default_factory=dict)
    dead: dict[Place, BadRecord] = field(default_factory=dict)


# Topics have no order among each other, so cross-session rules must not kill: they only record, like one session
# rule, for the group that runs rules in shadow. Kills are not acknowledged here and not sent again, because that
# would depend on the worker's clock instead of the log.
POLICY = Policy(
    name="chaos",
    operations=Operations(kill_ack_s=3600),
    rules={name: Rule(mode=Mode.SHADOW) for name in (*(pattern.id for pattern in ACROSS), "destructive_volume")}
    | {Poisoned.id: Rule()},
)


def document(folder: Path) -> Path:
    """Write the policy of a chaos run as a file for `--policy`."""
    file = folder / "chaos-policy.yaml"
    rules = {name: {"mode": rule.mode.value} for name, rule in POLICY.rules.items()}
    file.write_text(yaml.safe_dump({"name": POLICY.name, "operations": {"kill_ack_s": 3600}, "rules": rules}))
    return file


BEFORE = "@before"
"""The suffix of a deleted topic's name."""


State = SessionState | ScopeState


def work_out(
    actions: Iterable[LogRecord],
    commands: Sequence[LogRecord],
    signals: Sequence[LogRecord],
    topics: Topics,
    *,
    gone: Iterable[LogRecord] = (),
    precedes: Callable[[LogRecord], bool] = lambda _: False,
    runs: Runs = Runs.ALL,
    core: Core | None = None,
    partitions: int = PARTITIONS,
    ends_worker: Callable[[LogRecord], bool] = lambda _: False,
) -> Truth:
    """Run the core over these topics. Each session must be on only one of the first two.

    `gone`: the records of the topic of actions before it was recreated, with its name and BEFORE. `precedes` returns
    whether a record of another topic was processed before. The expected signals
    follow from the first two topics; the effects of signals follow from their order in the log. `partitions` is the
    number of the topic of actions. `ends_worker` returns whether a record of it can only be passed over.
    """
    expectation = _Expectation(core or Core(POLICY, PLUGINS, runs=runs), partitions, ends_worker)
    for record in gone:
        expectation.act(record)
    for record in filter(precedes, commands):
        expectation.command(record)
    for record in filter(precedes, signals):
        expectation.signal(record)
    expectation.begin_anew()
    for record in actions:
        expectation.act(record)
    for record in filterfalse(precedes, commands):
        expectation.command(record)
    for record in filterfalse(precedes, signals):
        expectation.signal(record)
    truth = expectation.result()
    if unknown := {topic.removesuffix(BEFORE) for topic, _, _ in truth.dead} - {topics.actions}:
        raise ValueError(f"expected bad records on {topics.actions} only, got some on {unknown}")
    return truth


class _Expectation:
    """Runs the core over one record after another."""

    def __init__(self, core: Core, partitions: int, ends_worker: Callable[[LogRecord], bool]) -> None:
        self._core = core
        self._ends_worker = ends_worker
        self._partitions = partitions
        self._truth = Truth()
        self._live: dict[str, SessionState] = {}
        self._scopes: dict[tuple[str, str], ScopeState] = {}

    def act(self, record: LogRecord) -> None:
        """Process a record of the topic of actions."""
        place = (record.topic, record.partition, record.offset)
        if self._ends_worker(record):
            self._truth.dead[place] = BadRecord.ENDED_WORKER
            return
        try:
            event = wire.decode_event(record.value, record.headers)
        except wire.InvalidRecord as bad:
            self._truth.dead[place] = bad.reason
            return
        if partition_of(event.session_id, self._partitions) != record.partition:
            self._truth.dead[place] = BadRecord.WRONG_KEY
            return
        at = Position(record.topic.removesuffix(BEFORE), record.partition, record.offset)
        self._take(self._core.on_event(self._live.get(event.session_id), event, at))

    def command(self, record: LogRecord) -> None:
        """Process an operator's command."""
        command, at = wire.decode(Command, record.value), _position(record)
        self._take(self._core.on_command(self._live.get(command.id), command, at))

    def signal(self, record: LogRecord) -> None:
        """Process a signal. Raises RuntimeError when it has other effects than records."""
        signal, at = wire.decode(Signal, record.value), _position(record)
        key = (signal.scope, signal.id)
        found = self._core.on_signal(self._scopes.get(key), signal, at)
        self._scopes[key] = found.state
        if found.failures or found.commands or found.controls:
            raise RuntimeError(f"expected nothing but what is recorded of {signal}, got {found}")
        self._follow(found.detections, found.decisions, found.signals)

    def begin_anew(self) -> None:
        """Keep of each state what is in force."""
        states: list[State] = [*self._live.values(), *self._scopes.values()]
        kept = [in_force(state) for state in states]
        self._live = {state.session_id: state for state in kept if isinstance(state, SessionState)}
        self._scopes = {(state.scope, state.id): state for state in kept if isinstance(state, ScopeState)}

    def result(self) -> Truth:
        """Return the results with the current states."""
        self._truth.states = {session: state_codec.shown(state) for session, state in self._live.items()}
        self._truth.states |= {control_key(*key): state_codec.shown(state) for key, state in self._scopes.items()}
        return self._truth

    def _take(self, outcome: Effects) -> None:
        if outcome.failures:
            raise RuntimeError(f"expected no detector to fail, got {outcome.failures}")
        session = outcome.state.session_id
        self._live[session] = outcome.state
        decisions = [decision for decision in (outcome.decision, *outcome.also) if decision is not None]
        self._follow(outcome.detections, decisions, outcome.signals)
        if outcome.control is not None:
            self._truth.control[outcome.control.key] = without_clock(outcome.control)
        if outcome.released:
            self._truth.control.pop(control_key(ScopeKind.SESSION, session), None)

    def _follow(
        self, detections: Iterable[Detection], decisions: Iterable[Decision], signals: Iterable[Signal]
    ) -> None:
        truth = self._truth
        truth.detections |= {found.detection_id: orjson.loads(found.to_json()) for found in detections}
        truth.decisions |= {decision.decision_id: without_clock(decision) for decision in decisions}
        truth.signals |= {signal.signal_id: orjson.loads(signal.to_json()) for signal in signals}


def _position(record: LogRecord) -> Position:
    return Position(record.topic, record.partition, record.offset)


def without_clock(record: Decision | ControlRecord) -> dict[str, Any]:
    """Return a record as JSON, without times of the worker's wall clock."""
    fields: dict[str, Any] = orjson.loads(record.to_json())
    fields.pop("decided_at", None)
    return fields
