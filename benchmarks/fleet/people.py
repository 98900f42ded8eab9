"""Simulated operators: they answer approval requests and kill the sessions that the plan names."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.fleet.plan import Kind, Planned
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import ScopeKind
from haltline.streams.operator.approval_client import ApprovalClient, Request
from haltline.streams.operator.command_factory import NotAllowed
from haltline.streams.operator.ids import NotFound

_NAMES: Final = ("ada", "bo")
_LOOK_EVERY_S: Final = 0.5
_KILL_AT: Final = 0.5
"""The share of a session's duration after which it is killed."""


class People:
    """Two operators in one thread."""

    def __init__(self, inbox: ApprovalClient, planned: Sequence[Planned], began: float) -> None:
        self._inbox = inbox
        self._waiting: Mapping[str, Planned] = {one.session_id: one for one in planned if one.kind is Kind.WAITING}
        self._to_kill = [one for one in planned if one.kind is Kind.KILLED]
        self._began = began
        self._ended = threading.Event()
        self.killed_at: dict[str, float] = {}
        """By session: the monotonic time of the kill command, in seconds."""
        self.problems: list[str] = []

    def run(self) -> None:
        """Run until `end`."""
        while not self._ended.wait(_LOOK_EVERY_S):
            try:
                for one in [one for one in self._to_kill if self._is_due(one)]:
                    self._kill(one)
                for request in self._inbox.pending() if self._waiting else ():
                    self._answer(request)
            except (NotAllowed, NotFound, ConnectionError) as error:
                self.problems.append(str(error))

    def end(self) -> None:
        """Stop the operators."""
        self._ended.set()

    def _is_due(self, one: Planned) -> bool:
        return time.monotonic() >= self._began + one.start_s + one.lasts_s * _KILL_AT

    def _kill(self, one: Planned) -> None:
        # By a prefix of its id, as operators do.
        session_id = self._inbox.find(ScopeKind.SESSION, one.session_id[:-2])
        self.killed_at[session_id] = time.monotonic()
        self._to_kill.remove(one)
        self._inbox.command(
            CommandKind.KILL, ScopeKind.SESSION, session_id, by=_NAMES[0], reason="is not needed any more"
        )

    def _answer(self, request: Request) -> None:
        planned = self._waiting.get(request.session_id)
        if planned is None:
            return  # sessions that should be stopped get no answer
        word = CommandKind.APPROVE if planned.approved else CommandKind.REJECT
        for name in _NAMES[: request.approval.quorum]:
            self._inbox.answer(word, request.approval.request_id, by=name, reason="the table is a copy")
