"""Many sessions and the rules across them in one process: the work of several workers, in one order."""

from collections import deque
from collections.abc import Iterator, Sequence

from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.signals import Signal
from haltline.streams.engine.core import Core, Effects, SessionState
from haltline.streams.engine.cross_session import ScopeEffects, ScopeState
from haltline.streams.engine.log_position import LogPosition

Followed = Effects | ScopeEffects


class Fleet:
    """Sessions, agents, targets, trees and missions under one policy.

    Signals and kills arrive at once; on Kafka they take some milliseconds, in which a session may continue.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.sessions: dict[str, SessionState] = {}
        self.scopes: dict[tuple[str, str], ScopeState] = {}

    def event(self, event: ActionEvent, at: LogPosition | None = None) -> list[Followed]:
        """Apply an event and everything that follows: first its own effects, then those of its signals and kills."""
        outcome = self._core.on_event(self.sessions.get(event.session_id), event, at)
        self.sessions[event.session_id] = outcome.state
        return [outcome, *self._follow(outcome)] if outcome.signals else [outcome]

    def command(self, command: Command) -> list[Followed]:
        """Apply an operator's command to a session or a larger scope, and everything that follows."""
        return list(self._carry_out(command))

    def _carry_out(self, command: Command) -> Iterator[Followed]:
        if command.scope is not ScopeKind.SESSION:
            key = (command.scope.value, command.id)
            self.scopes[key], _ = self._core.on_scope_command(self.scopes.get(key), command)
            return
        outcome = self._core.on_command(self.sessions.get(command.id), command)
        self.sessions[command.id] = outcome.state
        yield outcome
        yield from self._follow(outcome)

    def _follow(self, outcome: Effects) -> Iterator[Followed]:
        waiting: deque[Signal] = deque(outcome.signals)
        while waiting:
            signal = waiting.popleft()
            key = (signal.scope, signal.id)
            followed = self._core.on_signal(self.scopes.get(key), signal)
            self.scopes[key] = followed.state
            yield followed
            waiting += followed.signals
            for command in followed.commands:
                yield from self._carry_out(command)


def decisions_of(followed: Followed) -> Sequence[Decision]:
    """Return the decisions; for a session there is at most one."""
    if isinstance(followed, Effects):
        return () if followed.decision is None else (followed.decision,)
    return followed.decisions
