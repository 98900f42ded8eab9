"""A guard for tests of agents, without a broker, whose verdicts come from a list.

    guard = ScriptedGuard(Level.ALLOW, Level.KILL)     # the verdicts, call by call; then ALLOW

It records what it published in `events` and `feedback`. Everything else is the real guard.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, Unpack

from haltline.interventions.agent.checkpoints import Checkpoints
from haltline.interventions.agent.enforcement.refusal_cause import Advice
from haltline.interventions.agent.guard import Guard
from haltline.interventions.agent.settings import GuardOptions, GuardSettings
from haltline.interventions.agent.transport.transport import Receiver
from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState, Feedback, control_key
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.topics import Topics

Verdict: TypeAlias = Decision | Level | Callable[[ActionEvent], Decision | Level | None] | None
"""The answer to a call: a decision, a level, None for no verdict, or a function of the proposal."""

CODES = {Level.KILL: "session_killed_loop_guard"}


def decision(level: Level, event: ActionEvent, *, message: str = "", **fields: Any) -> Decision:
    """Return a decision of this level on an event, as the worker would send it."""
    values: dict[str, Any] = {
        "decision_id": f"{level.value}-{event.event_id}",
        "session_id": event.session_id,
        "agent_id": event.agent_id,
        "event_id": event.event_id,
        "call_id": event.call_id,
        "time": event.time,
        "decided_at": event.time,
        "level": level,
        "code": CODES.get(level, level.value.lower()),
        "reason": "scripted",
        "message": message,
    }
    return Decision(**(values | fields))


class ScriptedGuard(Guard):
    """A guard that gets its verdicts from a list, one for each call; ALLOW after its end.

    The mode is `blocking` by default. A verdict of None does not arrive: the call waits for `budget_s` (0.05 by
    default), then follows the fail policy.
    """

    def __init__(
        self,
        *verdicts: Verdict,
        settings: GuardSettings | None = None,
        on_advice: Callable[[Advice], object] | None = None,
        standing: tuple[ControlRecord, ...] = (),
        checkpoints: Checkpoints | None = None,
        parent: Guard | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        if settings is None:
            defaults = GuardOptions(
                session_id="scripted", bootstrap="scripted", mode="blocking", budget_s=0.05, first_budget_s=0
            )
            settings = GuardSettings(**(defaults | options))
        else:
            settings = settings.changed(**options)
        self.script = _Script(deque(verdicts), Topics(settings.topic_prefix), standing)
        super().__init__(settings, on_advice=on_advice, checkpoints=checkpoints, link=self.script, parent=parent)

    @property
    def events(self) -> list[ActionEvent]:
        """The published events, in order."""
        return self.script.events

    @property
    def feedback(self) -> list[Feedback]:
        """The published feedback, in order."""
        return self.script.feedback

    def send(self, decision: Decision) -> None:
        """Deliver an unrequested decision now."""
        self.start()
        self.script.receivers.get(decision.session_id, self.script.receiver).decision(decision)

    def kill(
        self,
        *,
        scope: ScopeKind = ScopeKind.SESSION,
        scope_id: str | None = None,
        code: str = "session_killed_by_operator",
    ) -> None:
        """Deliver an operator's kill on the control topic now; of this session by default."""
        record = killed(scope, scope_id or self.session_id, code=code)
        self.start()
        self.script.control(record.key, record)

    def stand(self, state: ControlState) -> None:
        """Deliver an entry of the control topic now that freezes, contains or kills this session."""
        record = killed(ScopeKind.SESSION, self.session_id, code=f"session_{state.value}_by_operator")
        self.start()
        self.script.control(record.key, record.model_copy(update={"state": state}))

    def reset(self, *, scope: ScopeKind = ScopeKind.SESSION, scope_id: str | None = None) -> None:
        """Remove the entry from the control topic now."""
        self.start()
        self.script.control(control_key(scope, scope_id or self.session_id), None)


def killed(scope: ScopeKind, scope_id: str, *, code: str = "session_killed_by_operator") -> ControlRecord:
    """Return an entry of the control topic."""
    return ControlRecord(
        scope=scope,
        id=scope_id,
        state=ControlState.KILLED,
        code=code,
        reason="scripted",
        decision_id=f"kill-{scope.value}-{scope_id}",
        since=1_750_000_000_000,
    )


class _Script:
    """A transport to a list."""

    def __init__(self, verdicts: deque[Verdict], topics: Topics, standing: tuple[ControlRecord, ...]) -> None:
        self.events: list[ActionEvent] = []
        self.feedback: list[Feedback] = []
        self.receiver: Receiver
        """The receiver of the guard that was started last."""
        self.receivers: dict[str, Receiver] = {}
        """By session: receivers of the guard and of its subagents."""
        self.up = True
        self.unwatched: str | None = None
        self.carries = True
        self.full = False
        """The queue to the broker is full."""
        self.undelivered = 0
        self._verdicts = verdicts
        self._topics = topics
        self._in_force = standing

    def start(self, receiver: Receiver) -> None:
        self.receiver = receiver
        for record in self._in_force:
            receiver.control(record.key, record)
        receiver.loaded()

    def control(self, key: str, record: ControlRecord | None) -> None:
        """Deliver an entry to every guard."""
        for receiver in {id(one): one for one in (self.receiver, *self.receivers.values())}.values():
            receiver.control(key, record)

    def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:  # noqa: ARG002 - a link's arguments
        if self.full:
            return False
        if topic == self._topics.feedback:
            self.feedback.append(wire.decode(Feedback, value))
            return True
        event = wire.decode_event(value)
        self.events.append(event)
        receiver = self.receivers.setdefault(event.session_id, self.receiver)
        if event.kind is Kind.PROPOSED:
            verdict = self._verdict(event)
            if verdict is not None:
                receiver.decision(verdict)
        return True

    def close(self, within_s: float) -> int:  # noqa: ARG002 - the arguments of a link
        return 0

    def _verdict(self, event: ActionEvent) -> Decision | None:
        verdict = self._verdicts.popleft() if self._verdicts else Level.ALLOW
        if callable(verdict):
            verdict = verdict(event)
        if isinstance(verdict, Level):
            return decision(verdict, event)
        if isinstance(verdict, Decision):
            return verdict.model_copy(update={"event_id": event.event_id, "call_id": event.call_id})
        return None
