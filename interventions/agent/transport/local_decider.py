"""Deciding in this process, with the worker's own core. Imported only for mode `local`."""

import threading
from collections import deque
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from haltline.interventions.agent.transport.transport import Decider
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy, PolicyDocument
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.engine.plugins import installed
from haltline.streams.policy.loader import load_core

_SHARED: Final = frozenset(("destructive_repeat", "destructive_volume"))
"""Rules whose counts a session shares with those below it."""
_MAX_KILLED = 10_000

_KILLED: dict[str, Decision] = {}
"""By session id: it stays killed in this process, whoever makes a guard for it again."""
_LOCK = threading.Lock()


def forget_kills() -> None:
    """Lets every session of this process begin anew: for tests, and for who restarts agents in one process."""
    with _LOCK:
        _KILLED.clear()


def forget_kill(session_id: str) -> None:
    """Lets one session of this process, and those below it that are named after it, begin anew."""
    with _LOCK:
        for killed in [name for name in _KILLED if name == session_id or name.startswith(f"{session_id}/")]:
            del _KILLED[killed]


@dataclass
class _Tree:
    """What the sessions of one tree share."""

    memories: dict[str, Any] = field(default_factory=dict)
    deeds: int = 0
    destroyers: set[str] = field(default_factory=set)
    killed: Decision | None = None
    """Of a session that was killed for what several did together: it is one of them all."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class LocalDecider(Decider):
    """The state of one session, and the decisions on its events."""

    def __init__(self, policy: PolicyDocument | None = None, *, remembers: bool = True) -> None:
        """Builds the detectors of the policy. Raises ValueError when it cannot be used.

        `remembers`: nobody else remembers which sessions were killed.
        """
        self._remembers = remembers
        self._core = _of_defaults() if policy is None else _core_of(policy)
        self._state: SessionState | None = None
        self._tree = _Tree()

    def below(self) -> "LocalDecider":
        """Who decides for a session below this one: by the same detectors, with a state of its own."""
        below = copy(self)
        below._state = None
        return below

    def go_on(self, earlier: Decider) -> None:
        """Takes over the state of an earlier decider of the same session, and what its tree shares."""
        if isinstance(earlier, LocalDecider):
            self._state, self._tree = earlier._state, earlier._tree

    def after_fork(self) -> None:
        """In a child: the state stays, the lock is a new one."""
        self._tree.lock = threading.Lock()

    def killed(self, lineage: Iterable[str]) -> Decision | None:
        """The kill that stands in this process against a session, or one above it: `lineage` are their ids.

        Those above are looked up by id, as they may begin later than this session, or have ended.
        """
        if self._remembers and _KILLED:
            for session_id in lineage:
                decision = _KILLED.get(session_id)
                if decision is not None:
                    return decision
        return self._tree.killed

    def decide(self, event: ActionEvent) -> Decision | None:
        """The decision on the session's next event."""
        tree = self._tree
        with tree.lock:
            state = self._state
            if state is None:
                state = self._state = SessionState(session_id=event.session_id)
            if tree.memories:
                state.detectors.update(tree.memories)
            if tree.deeds > state.calls.deeds:  # noqa: PLR1730 - for every event: max() takes five times as long
                state.calls.deeds = tree.deeds
            decision = self._core.on_event(state, event).decision
            tree.deeds = state.calls.deeds
            memories = state.detectors
            if tree.memories or not _SHARED.isdisjoint(memories):  # of most sessions nothing is shared
                tree.memories = {name: memory for name, memory in memories.items() if name in _SHARED}
                if tree.memories and False in state.calls.belongings.own.values():
                    tree.destroyers.add(event.session_id)
            if decision is not None and decision.level is Level.KILL:
                if decision.detector in _SHARED and len(tree.destroyers) > 1:
                    tree.killed = decision
                if self._remembers:
                    _remember(decision)
        return decision


@lru_cache(maxsize=1)
def _of_defaults() -> Core:
    """What decides without a policy, built once for all guards of this process: it holds nothing of a session."""
    return Core(None, installed(), alone=True)


_BUILT: deque[Core] = deque(maxlen=8)
"""What decides by the policies of this process, the newest last: it holds nothing of a session."""


def read_policy(document: PolicyDocument) -> Policy:
    """The policy of a document, checked. Guards that are given it decide by the same detectors. Raises ValueError."""
    return _core_of(document).policy


def _core_of(document: PolicyDocument) -> Core:
    """As it was built before, where the document is the same Policy: that does not change, a file or a mapping may."""
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
