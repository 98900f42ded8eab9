"""Recorded sessions as they would have gone under a policy: what a guard would have refused does not happen. Pure.

The core decides, and the guard's own `Enforcer` turns its decisions into refusals, as in mode `local`: the next call
after a decision on a result, a call whose request nobody answers, every call of a session that is held or killed.
Instead of a refused call's recorded result the core gets the refused end that a guard publishes. The recorded agent
does not listen: it goes on to its next recorded call. That it goes on after a hold, too, is not held against it, as it
knew of none; a guard would kill it after some refused turns.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement.enforcer import Enforcer
from haltline.interventions.agent.enforcement.pending_approvals import APPROVAL_PENDING, awaits_approval
from haltline.interventions.agent.rules.throttled import Throttled
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.control import freeze
from haltline.interventions.state.call_digest import parameters
from haltline.interventions.state.records import control_record
from haltline.schemas.control import ControlRecord, ControlState, control_key
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.engine.core import Core, Effects, Position, SessionState
from haltline.streams.engine.local_fleet import Fleet, Followed, decisions_of

_STOPS = frozenset({ControlState.KILLED, ControlState.FROZEN})
_PROPOSED, _COMPLETED, _MODEL_TURN = Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN
_WITHOUT_RESULT = {
    "kind": _COMPLETED, "outcome": Outcome.REFUSED, "await_verdict": False, "usage": None, "duration_ms": None,
    "output_digest": None, "output_bytes": None, "output_head": None, "output_novelty": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Happened:
    """What came of one recorded event."""

    followed: Sequence[Followed] = ()
    """The effects of what a guard would have published, in order."""
    made: bool = True
    """Whether it would have happened: not so a refused call, its result, and turns of the model after a stop."""
    refused: str = ""
    """For a call that would not have been made: the code of its refusal."""


class LivePlay:
    """The sessions of a fleet, event by event in time order."""

    def __init__(self, core: Core, publish: Callable[[ActionEvent], object] = lambda _: None) -> None:
        """`publish` is called with each event that guards would have published and that is judged."""
        self._fleet = Fleet(core)
        self._publish = publish
        self._sides: dict[str, _AgentSide] = {}
        self._entries: dict[str, ControlRecord] = {}
        """The restrictions in force, as the control topic has them."""
        self._offset = 0

    def event(self, event: ActionEvent) -> Happened:
        """Play the next event of any session."""
        side, kind = self._side(event), event.kind
        if kind is _PROPOSED:
            return self._proposed(side, event)
        if kind is _COMPLETED:
            return self._completed(side, event)
        if kind is _MODEL_TURN and not side.turn(event):
            return Happened(made=False)
        return Happened(self._apply(event))

    def is_stopped(self, session_id: str) -> bool:
        """Return whether the session is held or killed now."""
        if not self._entries or (side := self._sides.get(session_id)) is None:
            return False
        entries = (self._entries.get(key) for key in side.keys)
        return any(entry is not None and entry.state in _STOPS for entry in entries)

    def forget(self, session_id: str) -> None:
        """Judge the session anew from its next event on."""
        self._fleet.sessions.pop(session_id, None)
        self._sides.pop(session_id, None)
        self._entries.pop(control_key(ScopeKind.SESSION, session_id), None)

    def _side(self, event: ActionEvent) -> "_AgentSide":
        side = self._sides.get(event.session_id)
        if side is None:
            side = self._sides[event.session_id] = _AgentSide(event)
            for key, record in self._entries.items():
                side.control(key, record)
        side.now_ms = event.time
        return side

    def _proposed(self, side: "_AgentSide", event: ActionEvent) -> Happened:
        followed: list[Followed] = []
        code = side.against(event)
        if code is None:
            side.awaits = event
            followed = self._apply(event)
            code = side.admit(event)
        side.begun(event, refused=code is not None)
        if code is None:
            return Happened(followed)
        return Happened([*followed, *self._refused(event, code)], made=False, refused=code)

    def _completed(self, side: "_AgentSide", event: ActionEvent) -> Happened:
        was_refused = side.ended(event)
        if was_refused:
            return Happened(made=False)
        if event.outcome is Outcome.REFUSED:
            return Happened(self._apply(event), made=False)
        if was_refused is None and (code := side.against(event) or side.admit(event)) is not None:
            return Happened(self._refused(event, code), made=False, refused=code)  # recorded by its result only
        return Happened(self._apply(event))

    def _refused(self, event: ActionEvent, code: str) -> list[Followed]:
        """Apply the refused end of a call. After a hold it says nothing: the recorded agent did not know of it."""
        if self.is_stopped(event.session_id):
            return []
        event_id = f"{event.event_id[:240]}/refused"
        return self._apply(event.model_copy(update={**_WITHOUT_RESULT, "event_id": event_id, "error": code}))

    def _apply(self, event: ActionEvent) -> list[Followed]:
        """Return the effects of an event that a guard publishes. Of a killed session nothing more is judged."""
        state = self._fleet.sessions.get(event.session_id)
        if state is not None and state.control.killed is not None:
            return []
        self._publish(event)
        self._offset += 1
        found = self._fleet.event(event, Position("recorded", 0, self._offset))
        for followed in found:
            for decision in decisions_of(followed):
                if (side := self._sides.get(decision.session_id)) is not None:
                    side.decision(decision)
            if isinstance(followed, Effects):
                self._follow(followed.state)
            else:
                if followed.lifted:
                    self._control(control_key(followed.state.scope, followed.state.id), None)
                for record in followed.controls:
                    self._control(record.key, record)
        return found

    def _follow(self, state: SessionState) -> None:
        """Let the session's entry be what its state says."""
        killed, held = state.control.killed, state.control.held
        if killed is None and held is None and not self._entries:
            return
        key = control_key(ScopeKind.SESSION, state.session_id)
        entry = (
            control_record(state.ref, killed)
            if killed is not None
            else None
            if held is None
            else freeze.record(held, state.ref)
        )
        known = self._entries.get(key)
        if (known and known.decision_id) != (entry and entry.decision_id):
            self._control(key, entry)

    def _control(self, key: str, record: ControlRecord | None) -> None:
        if record is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = record
        for side in self._sides.values():
            side.control(key, record)


@dataclass(slots=True)
class _AgentSide:
    """What the guard of one session keeps."""

    first: ActionEvent
    now_ms: int = 0
    awaits: ActionEvent | None = None
    """The proposal whose verdict comes next."""
    _verdict: "Future[Decision | None] | None" = None
    _enforcer: Enforcer | None = None
    """None until the first decision: most sessions get none."""
    _throttled: Throttled | None = None
    _begun: dict[str, deque[bool]] = field(default_factory=dict)
    """By call: whether each of its proposals without a result was refused."""

    @property
    def settings(self) -> GuardSettings:
        """The settings of its guard."""
        first = self.first
        return _DEFAULTS.changed(
            session_id=first.session_id,
            agent_id=first.agent_id,
            parent_session_id=first.parent_session_id,
            root_session_id=first.root_session_id,
            mission_id=first.mission_id,
        )

    @property
    def keys(self) -> list[str]:
        """The keys of entries that stop all of the session."""
        settings = self.settings
        keys = [control_key(ScopeKind.SESSION, session_id) for session_id in settings.lineage]
        keys += [control_key(ScopeKind.AGENT, settings.agent_id), control_key(ScopeKind.FLEET, "*")]
        return keys + ([] if settings.mission_id is None else [control_key(ScopeKind.MISSION, settings.mission_id)])

    def decision(self, decision: Decision) -> None:
        """Hear a decision."""
        enforcer = self._awake()
        if self.awaits is not None and self._verdict is None:
            self._verdict = enforcer.await_verdict(self.awaits.event_id)
        enforcer.decision(decision)

    def control(self, key: str, record: ControlRecord | None) -> None:
        """Hear an entry of the control topic."""
        self._awake().control(key, record)

    def turn(self, event: ActionEvent) -> bool:
        """Return whether a turn of the model is made, and count what it used."""
        if self._enforcer is not None and self._enforcer.against_turn() is not None:
            return False
        if self._throttled is not None and event.usage is not None:
            self._throttled.used(event.usage)
        return True

    def against(self, event: ActionEvent) -> str | None:
        """Return the code by which such a call is refused before it is proposed."""
        if self._enforcer is None:
            return None
        call = _call_of(event)
        if (cause := self._enforcer.against_call(call)) is not None:
            return cause.code
        objection = None if self._throttled is None else self._throttled.against(call.effect, event.time)
        return None if objection is None else objection.code

    def admit(self, event: ActionEvent) -> str | None:
        """Return the code by which a proposed call is refused; None: it is made."""
        enforcer, answer, verdict = self._enforcer, self._verdict, None
        self.awaits = self._verdict = None
        if enforcer is None:
            return None
        if answer is not None:
            verdict = enforcer.take_verdict(event.event_id, answer)
        if verdict is not None and awaits_approval(verdict) is not None:  # nobody answers
            enforcer.take_verdict(event.event_id, enforcer.await_approval(event.event_id))
            verdict = verdict.model_copy(update={"code": APPROVAL_PENDING})
        call = _call_of(event)
        admitted = enforcer.admit(call, verdict, lambda: parameters(event))
        for advice in admitted.advice:
            if advice.limits:
                self._throttled = self._throttled or Throttled(_DEFAULTS.throttle_s)
                self._throttled.take(advice.limits, event.time, advice.decision.expires)
        if admitted.cause is not None:
            return admitted.cause.code
        if self._throttled is not None:
            self._throttled.note(call.effect)
        return None

    def begun(self, event: ActionEvent, *, refused: bool) -> None:
        """Remember a proposal until its result."""
        self._begun.setdefault(_key_of(event), deque()).append(refused)

    def ended(self, event: ActionEvent) -> bool | None:
        """Return whether the proposal of this result was refused; None: there was none."""
        key = _key_of(event)
        waiting = self._begun.get(key)
        if not waiting:
            return None
        refused = waiting.popleft()
        if not waiting:
            del self._begun[key]
        if self._enforcer is not None and event.call_id is not None:
            self._enforcer.done(event.call_id)
        return refused

    def _awake(self) -> Enforcer:
        if self._enforcer is None:
            self._enforcer = Enforcer(self.settings, acknowledge=_nobody, now_ms=lambda: self.now_ms)
            self._enforcer.loaded()
        return self._enforcer


_DEFAULTS = GuardSettings(mode="local")


def _nobody(*_: object, **__: object) -> None:
    """Acknowledge nothing: there is no one to read it."""


def _call_of(event: ActionEvent) -> Call:
    return Call(event.action, event.args or {}, event.targets, event.effect, "local", event.call_id or event.event_id)


def _key_of(event: ActionEvent) -> str:
    return event.call_id or f"\0{event.action}"
