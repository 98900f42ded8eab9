"""Decisions in this process, by the worker's own core. Imported only for mode `local`."""

import os
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from haltline.interventions.agent.stored_sessions import GUARD, StoredSessions, state_folder
from haltline.interventions.agent.transport.transport import Decider
from haltline.interventions.control import freeze
from haltline.interventions.state.records import control_record
from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Effect, Kind
from haltline.schemas.policy import Policy, PolicyDocument
from haltline.schemas.signals import Signal, SignalScope
from haltline.streams.engine import event_time
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.plugins import installed
from haltline.streams.policy.loader import load_core
from haltline.streams.sessions.state_codec import CorruptState, decode, decode_scope, encode

_SHARED: Final = frozenset(("destructive_repeat", "destructive_volume"))
"""Rules whose counts a session shares with those below it."""
_MAX_KILLED = 10_000
_MARK: Final = b"\0ht"
"""Begins a stored state with that of the tree's agents after it; without agents there is only that of the session."""
_BOTH: Final = struct.Struct(">3sI")

_KILLED: dict[str, Decision] = {}
"""By session id: it stays killed in this process, also for a new guard."""
_LOCK = threading.Lock()


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


_JUMP_NS: Final = 12 * 3_600 * 10**9
"""What the system's clock may be ahead of a steady one: more would end a session's history, and is taken for a jump.

Less is none: a clock is corrected by hours, and some steady clocks stand still while the machine sleeps.
"""


def _steady_ns() -> int:
    """Return a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.monotonic_ns() if _CLOCK is None else time.clock_gettime_ns(_CLOCK)


def forget_kills() -> None:
    """Clear the kills of all sessions of this process: for tests, and for programs that restart agents."""
    with _LOCK:
        killed = [*_KILLED]
        _KILLED.clear()
    for name in killed:
        _stored().remove(name, GUARD)


def forget_kill(session_id: str) -> None:
    """Clear the kill or hold of one session, and the kills of those below it that are named after it."""
    with _LOCK:
        for killed in [name for name in _KILLED if name == session_id or name.startswith(f"{session_id}/")]:
            del _KILLED[killed]
    _stored().remove(session_id, GUARD)


def _stored() -> StoredSessions:
    return StoredSessions(state_folder(os.environ))


@dataclass
class _Tree:
    """The shared state of the sessions of one tree."""

    memories: dict[str, Any] = field(default_factory=dict)
    deeds: int = 0
    destroyers: set[str] = field(default_factory=set)
    killed: Decision | None = None
    """The kill of a session for the joint actions of several: it applies to all of them."""
    agents: ScopeState | None = None
    """The agents that the sessions start, for the rules on them; None: none yet."""
    record: ControlRecord | None = None
    """What these have restricted."""
    hint: Decision | None = None
    """For the next call of the first session."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class LocalDecider(Decider):
    """The state of one session, and the decisions on its events."""

    def __init__(self, policy: PolicyDocument | None = None, *, remembers: bool = True) -> None:
        """Create the detectors of the policy. Raises ValueError if it is invalid.

        `remembers`: this process alone stores the kills.
        """
        self._remembers = remembers
        self._clock_ns = time.time_ns() - _steady_ns()
        self._core = _of_defaults() if policy is None else _core_of(policy)
        self._state: SessionState | None = None
        self._tree = _Tree()

    def below(self) -> "LocalDecider":
        """Return the decider of a session below this one: the same detectors, with a separate state."""
        below = copy(self)
        below._state = None
        return below

    def go_on(self, earlier: Decider) -> None:
        """Take over the state of an earlier decider of the same session, and the shared state of its tree."""
        if isinstance(earlier, LocalDecider):
            self._state, self._tree = earlier._state, earlier._tree

    def stored(self) -> bytes | None:
        """Return the state of the session, for a later process; None: it has none, or one that is too large."""
        tree = self._tree
        with tree.lock:
            state = self._state
            if state is None:
                return None
            state.detectors.update(tree.memories)
            state.calls.deeds = max(state.calls.deeds, tree.deeds)
            try:
                of_agents = b"" if tree.agents is None else encode(tree.agents)
                stored = encode(state)
                return stored if not of_agents else _BOTH.pack(_MARK, len(stored)) + stored + of_agents
            except TypeError:
                return None

    def restore(self, stored: bytes) -> ControlRecord | None:
        """Go on from a stored state. Returns the restriction that was in force. Raises ValueError for invalid bytes."""
        of_agents = b""
        if stored.startswith(_MARK) and len(stored) > _BOTH.size:
            end = _BOTH.size + _BOTH.unpack_from(stored)[1]
            stored, of_agents = stored[_BOTH.size : end], stored[end:]
        try:
            state = decode(stored)
            if of_agents and self._tree.agents is None:  # else those of a session above it in this process are newer
                self._tree.agents = decode_scope(of_agents)
        except CorruptState as error:
            raise ValueError(str(error)) from None
        self._state = state
        if self._tree.agents is not None and (stands := self._tree.agents.standing.stands) is not None:
            self._tree.record = stands.as_record(ScopeKind.TARGET, self._tree.agents.id)
        self._tree.memories = {name: memory for name, memory in state.detectors.items() if name in _SHARED}
        self._tree.deeds = state.calls.deeds
        if state.control.killed is not None:
            return control_record(state.ref, state.control.killed)
        return None if state.control.held is None else freeze.record(state.control.held, state.ref)

    def after_fork(self) -> None:
        """In a forked child: keep the state, and replace the lock."""
        self._tree.lock = threading.Lock()

    def killed(self, lineage: Iterable[str]) -> Decision | None:
        """Return the kill in force in this process for a session, or one above it: `lineage` are their ids.

        Those above are looked up by id, as they may start later than this session, or have ended.
        """
        if self._remembers and _KILLED:
            for session_id in lineage:
                decision = _KILLED.get(session_id)
                if decision is not None:
                    return decision
        return self._tree.killed

    def _now_ms(self) -> int:
        """Return the time of the system's clock; if that has jumped, the time without the jump."""
        now_ns, steady_ns = time.time_ns(), _steady_ns() + self._clock_ns
        return (steady_ns if now_ns - steady_ns > _JUMP_NS else now_ns) // 1_000_000

    def decide(self, event: ActionEvent) -> Decision | None:
        """Return the decision on the session's next event."""
        tree = self._tree
        with tree.lock:
            state = self._state
            if state is None:
                state = self._state = SessionState(session_id=event.session_id)
            if tree.memories:
                state.detectors.update(tree.memories)
            if tree.deeds > state.calls.deeds:  # noqa: PLR1730 - for every event: max() is a call
                state.calls.deeds = tree.deeds
            ahead = event_time.ahead_ms(event, self._now_ms())
            if ahead:
                event = event_time.at_log_time(event, ahead)
            effects = self._core.on_event(state, event)
            decision = effects.decision
            if effects.signals:
                self._on_agents(effects.signals)
            if tree.hint is not None and decision is None and tree.hint.session_id == event.session_id:
                decision, tree.hint = tree.hint.model_copy(update={"time": event.time}), None
            if ahead and decision is not None:
                decision = event_time.decision_for(decision, ahead)
            tree.deeds = state.calls.deeds
            memories = state.detectors
            if tree.memories or not memories.keys().isdisjoint(_SHARED):  # most sessions share nothing
                tree.memories = {name: memory for name, memory in memories.items() if name in _SHARED}
                if tree.memories and False in state.calls.belongings.own.values():
                    tree.destroyers.add(event.session_id)
            if decision is not None and decision.level is Level.KILL:
                if decision.detector in _SHARED and len(tree.destroyers) > 1:
                    tree.killed = decision
                if self._remembers:
                    _remember(decision)
        return decision

    def _on_agents(self, signals: Sequence[Signal]) -> None:
        """Apply the signals of a session to the rules on agents that start agents. With the lock held."""
        tree = self._tree
        for signal in signals:
            if signal.scope != SignalScope.TARGET:
                continue
            effects = self._core.on_signal(tree.agents, signal)
            tree.agents = effects.state
            if effects.lifted:
                tree.record = None
            for record in effects.controls:
                tree.record = record
            for decision in effects.decisions:
                if decision.level is Level.KILL:
                    tree.killed = decision
                elif Level.ALLOW < decision.level < Level.PAUSE:
                    tree.hint = decision

    @property
    def of_tree(self) -> ControlRecord | None:
        """The restriction in force for the tree."""
        return self._tree.record


@lru_cache(maxsize=1)
def _of_defaults() -> Core:
    """Return the core without a policy, built once for all guards of this process. It has no state of a session."""
    return Core(None, installed(), alone=True)


_BUILT: deque[Core] = deque(maxlen=8)
"""The cores of this process's policies, the newest last. They have no state of a session."""


def effect_of(action: str, args: Mapping[str, Any]) -> Effect:
    """Return the effect of a call by its name and by what it would run. Raises ValueError if it is no valid call."""
    event = ActionEvent(
        event_id="1",
        kind=Kind.PROPOSED,
        session_id="1",
        time=time.time_ns() // 1_000_000,
        action=action,
        args=dict(args),
    )
    return _of_defaults().effect_of(event)


def read_policy(document: PolicyDocument) -> Policy:
    """Return the validated policy of a document. Guards with it share their detectors. Raises ValueError."""
    return _core_of(document).policy


def _core_of(document: PolicyDocument) -> Core:
    """Return the core of a document, cached only for the same Policy object, as a file or a mapping may change."""
    for core in tuple(_BUILT):
        if core.policy is document:
            return core
    core = load_core(document, alone=True)
    _BUILT.append(core)
    return core


def _remember(decision: Decision) -> None:
    with _LOCK:
        _KILLED[decision.session_id] = decision
        if len(_KILLED) > _MAX_KILLED:
            del _KILLED[next(iter(_KILLED))]
