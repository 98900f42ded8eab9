"""Deciding in this process, with the worker's own core. Imported only for mode `local`."""

import threading

from haltline.interventions.agent.link import Decider
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.streams.core import Core, SessionState
from haltline.streams.plugins import installed


class LocalDecider(Decider):
    """The state of one session, and the decisions on its events."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Builds the detectors of the policy. Raises ValueError when it cannot be used."""
        self._core = Core(policy, installed(), alone=True)
        self._state: SessionState | None = None
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """In a child: the state stays, the lock is a new one."""
        self._lock = threading.Lock()

    def decide(self, event: ActionEvent) -> Decision | None:
        """The decision on the session's next event."""
        with self._lock:
            outcome = self._core.on_event(self._state, event)
            self._state = outcome.state
        return outcome.decision
