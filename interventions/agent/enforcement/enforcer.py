"""The permissions of a session, from all control entries and decisions received. Thread safe, no I/O.

A kill of the session, one above it, its agent, its mission or the fleet is permanent in this object: a reset applies to
a new guard. Restrictions of a tool or target, and freezes, end with their entry.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypedDict, Unpack

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement.awaited_verdicts import AwaitedVerdict, AwaitedVerdicts, answer, resolve
from haltline.interventions.agent.enforcement.pending_approvals import (
    Pending,
    frozen_by,
    is_answer,
    is_same_request,
    of_session,
)
from haltline.interventions.agent.enforcement.refusal_cause import (
    Advice,
    Cause,
    advice_of,
    cause_of,
    cause_of_entry,
    cause_of_waiting,
    may_look,
)
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.levels.default_levels import HELD_CODE
from haltline.interventions.state.texts import NO_AGENTS, ONE_THING, TREE_FROZEN
from haltline.schemas.control import HALTLINE, ControlRecord, ControlState, Stage, control_key
from haltline.schemas.decisions import ApprovalState, Decision, Level, Mode, ScopeKind
from haltline.schemas.events import Effect
from haltline.schemas.signals import tree_of
from haltline.schemas.tools import ends_turn, starts_agents

_MAX_LATE = 64
_MAX_REMEMBERED = 512
_STOPS = frozenset({ControlState.KILLED, ControlState.FROZEN, ControlState.CONTAINED})


class About(TypedDict, total=False):
    """What feedback is about."""

    call_id: str | None
    action: str
    detail: str
    children: Sequence[str]


class Acknowledge(Protocol):
    """Publishes feedback on a decision."""

    def __call__(  # noqa: D102 - the class says it
        self, stage: Stage, decision_id: str, decided_at_ms: int | None, **about: Unpack[About]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """The final result for a call."""

    cause: Cause | None = None
    """The reason of the refusal; None: the call runs."""
    advice: Sequence[Advice] = ()
    rollbacks: Sequence[Decision] = ()
    """Rollbacks to carry out, acknowledged afterwards."""


_GOES_ON = Admitted()


class Enforcer:
    """Receives control entries and decisions, and admits or refuses calls."""

    def __init__(
        self,
        settings: GuardSettings,
        *,
        acknowledge: Acknowledge,
        now_ms: Callable[[], int],
    ) -> None:
        self._session_id = settings.session_id
        self._own = control_key(ScopeKind.SESSION, settings.session_id)
        self._always = {control_key(ScopeKind.SESSION, session) for session in settings.lineage}
        self._always |= {control_key(ScopeKind.AGENT, settings.agent_id), control_key(ScopeKind.FLEET, "*")}
        if settings.mission_id is not None:
            self._always.add(control_key(ScopeKind.MISSION, settings.mission_id))
        root = settings.root_session_id or settings.parent_session_id or settings.session_id
        self._tree = control_key(ScopeKind.TARGET, tree_of(root))
        self._depth = len(settings.lineage) - 1
        self._is_alone = settings.bootstrap is None
        root = settings.root_session_id or settings.session_id
        self._released_as = root if settings.session_id.startswith(f"{root}/") else settings.session_id
        self._max_age_ms = settings.max_decision_age_s * 1000
        self._acknowledge = acknowledge
        self._now_ms = now_ms

        self._lock = threading.RLock()
        self._entries: dict[str, ControlRecord] = {}
        self._before: dict[str, ControlRecord] = {}  # the previous entries, while the topic is read again
        self._loaded = False
        self._loading: list[Future[None]] = []
        self._killed: Cause | None = None
        self._unacknowledged: dict[str, int | None] = {}  # kills during which calls may still run
        self._running: dict[str, str] = {}
        self._awaited = AwaitedVerdicts(settings.budget_s, settings.first_budget_s)
        self._late: deque[Decision] = deque(maxlen=_MAX_LATE)
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._pending = Pending()
        self._behind_until_s = 0.0
        self._refused_for = ""  # the decision of the freeze that a call was refused for
        self._turn_passed_in = ""  # that of the freeze in which a turn has passed
        self._may_report = False
        self.changed: Callable[[], object] = lambda: None
        """Called, without the lock, when what is in force may have changed."""

    # Called by the transport's thread.

    def concerns(self, key: str) -> bool:
        """Return whether an entry with this key can affect a call of this session."""
        return key in self._always or key.startswith(("tool:", "target:"))

    def control(self, key: str, record: ControlRecord | None) -> None:
        """Apply an entry of the control topic."""
        if not self.concerns(key):
            return
        with self._lock:
            if record is None or record.state not in _STOPS or self._session_id in (record.spared or ()):
                self._entries.pop(key, None)
            else:
                self._entries[key] = record
                if self._loaded:
                    self._apply_entry(key, record)
        self.changed()

    def loaded(self) -> None:
        """Apply the entries of the control topic, once all are read: a later entry may revoke an earlier one."""
        with self._lock:
            self._loaded = True
            self._before = {}
            for key, record in list(self._entries.items()):
                self._apply_entry(key, record)
            waiting, self._loading = self._loading, []
        for future in waiting:
            resolve(future, None)
        self.changed()

    def unloaded(self) -> None:
        """The control topic is read again. A kill stays; other entries apply until all are read."""
        with self._lock:
            if self._loaded:
                self._before = self._entries
            self._loaded = False
            self._entries = {}
            self._awaited.reconnected()

    def decision(self, decision: Decision) -> None:
        """Apply a decision for this session."""
        with self._lock:
            if decision.code.startswith((NO_AGENTS, TREE_FROZEN)):  # its entry of the control topic refuses calls
                return
            waiting = self._awaited.answered_by(decision)
            if waiting is not None or decision.mode is not Mode.SHADOW:
                self._apply(decision, waiting)
            # Decisions in shadow mode have no effect, and their consumer group may lag.
        if decision.level >= Level.PAUSE or is_answer(decision):
            self.changed()

    # Called by the agent's threads.

    def when_loaded(self) -> "Future[None]":
        """Return a future that completes when the restrictions in force are known."""
        future: Future[None] = Future()
        with self._lock:
            if not self._loaded:
                self._loading.append(future)
                return future
        future.set_result(None)
        return future

    @property
    def is_loaded(self) -> bool:
        """Whether the restrictions in force are known."""
        return self._loaded

    def verdict_wait_s(self, budget_s: float) -> float:
        """Return the seconds to wait for the next verdict: the first of a connection may take the start-up time."""
        with self._lock:
            return self._awaited.wait_s(budget_s)

    @property
    def is_silent(self) -> bool:
        """Whether the last awaited verdict did not arrive in time."""
        return self._awaited.silent

    def degraded(self, *, link_up: bool) -> str | None:
        """Return why decisions are not reliable now, as text; None if they are."""
        if not self._loaded:
            return "the control topic has not been read yet"
        if not link_up:
            return "the broker is unavailable"
        if self._awaited.silent:
            return "the last awaited verdict did not arrive in time"
        if time.monotonic() < self._behind_until_s:
            return "decisions arrive too late: the workers are behind"
        return None

    @property
    def killed(self) -> Cause | None:
        """The kill of the session, one above it, its agent, its mission or the fleet; None: not killed."""
        return self._killed

    def stay_killed(self, cause: Cause) -> None:
        """Keep a kill from an earlier process, which has acknowledged it."""
        with self._lock:
            self._killed = self._told(cause)

    def against_call(self, call: Call, *, is_proposed: bool = False) -> Cause | None:
        """Return the cause that refuses this call now, without a verdict.

        `is_proposed`: the agent that it starts is counted already, and may be the last one.
        """
        if self._killed is None and not self._entries and not self._before:
            return None
        return self.against(call.action, call.match_targets, call.effect, is_proposed=is_proposed)

    def against(
        self, action: str, targets: Sequence[str], effect: Effect = Effect.READ, *, is_proposed: bool = False
    ) -> Cause | None:
        """Return the cause that refuses such a call now, without a verdict."""
        with self._lock:
            if self._killed is not None:
                return self._killed
            if not self._entries and not self._before:
                return None
            keys = self._always | {control_key(ScopeKind.TOOL, action)}
            keys.update(control_key(ScopeKind.TARGET, target) for target in targets)
            entries = chain(self._entries.items(), self._before.items())
            looks = effect <= Effect.POLL
            entry = next(
                (
                    record
                    for key, record in entries
                    if (key in keys and not (looks and may_look(record)))
                    or (key == self._tree and self._in_tree(record, "" if is_proposed else action))
                ),
                None,
            )
            if entry is None or (entry.state is ControlState.FROZEN and ends_turn(action)):
                return None  # a frozen session may report, ask its user, and end its turn
            if action:
                self._note_refused(entry.decision_id)
            return self._told(cause_of_entry(entry))

    def _told(self, cause: Cause) -> Cause:
        """Return the cause with whom to ask here."""
        return cause.alone(self._released_as) if self._is_alone else cause

    def against_agents(self) -> Cause | None:
        """Return the cause that refuses another agent below this session."""
        with self._lock:
            record = self._entries.get(self._tree) or self._before.get(self._tree)
            is_closed = record is not None and record.code.startswith(NO_AGENTS)
            deep = record is not None and self._depth >= (record.from_depth or 0)
            return cause_of_entry(record) if record is not None and is_closed and deep else None

    def _in_tree(self, record: ControlRecord, action: str) -> bool:
        """Return whether an entry of the session's tree refuses such a call."""
        if record.code.startswith(NO_AGENTS):
            return self._depth >= (record.from_depth or 0) and starts_agents(action)
        return True

    def _note_refused(self, decision_id: str) -> None:
        """Note that a call was refused for a restriction: after it, the model may have a turn for its report."""
        if decision_id != self._refused_for:
            self._refused_for, self._may_report = decision_id, True

    def against_turn(self) -> Cause | None:
        """Return the cause that refuses the next turn of the model.

        In a session that is held for lack of progress, one turn may pass before a call was refused, and one after it:
        the model reads why, and reports.
        """
        with self._lock:
            frozen = self._hold()
            if frozen is not None and self._killed is None:
                if frozen.decision_id not in {self._refused_for, self._turn_passed_in}:
                    self._turn_passed_in = frozen.decision_id
                    return None
                if self._may_report and frozen.decision_id == self._refused_for:
                    self._may_report = False
                    return None
            return self.against("", ())

    def _hold(self) -> ControlRecord | None:
        """Return the hold for lack of progress in force, of this session or one above it."""
        entries = chain(self._entries.items(), self._before.items())
        return next((r for key, r in entries if key in self._always and r.code == HELD_CODE), None)

    def await_verdict(self, event_id: str) -> "Future[Decision | None]":
        """Return the future of a proposal's verdict; None if there will be none, or the session is killed."""
        with self._lock:
            verdict = self._awaited.expect(event_id)
            if self._killed is not None:
                resolve(verdict, None)
        return verdict

    def take_verdict(self, event_id: str, verdict: "Future[Decision | None]") -> Decision | None:
        """Return the verdict if it has arrived, and stop waiting for it."""
        with self._lock:
            self._awaited.forget(event_id, verdict)
        return None if verdict.cancel() else verdict.result()

    def await_approval(self, event_id: str) -> "Future[Decision | None]":
        """Return the future of a person's answer to a proposal; None if the session is killed."""
        with self._lock:
            verdict = None if self._killed is not None else self._awaited.of(event_id)
        if verdict is None:
            verdict = Future()
            verdict.set_result(None)
        return verdict

    def give_up(self, event_id: str, verdict: "Future[Decision | None]", *, refused: bool) -> Decision | None:
        """Stop waiting; the call is refused, or continues. Returns the verdict if it arrived in time."""
        with self._lock:
            if not verdict.cancel():
                self._awaited.forget(event_id, verdict)
                return verdict.result()
            self._awaited.give_up(event_id, refused=refused)
            return None

    def admit(self, call: Call, verdict: Decision | None, parameters: Callable[[], str | None]) -> Admitted:
        """Return the final result for a call: the refusal, or its admission with advice."""
        with self._lock:
            call_id = call.call_id
            cause = self.against_call(call, is_proposed=True)
            # A freeze belongs to the request that can lift it: a call that has waited gets that request's answer.
            if cause is not None and (self._killed is not None or verdict is None or of_session(verdict) is None):
                return Admitted(cause)
            if verdict is None and not self._late and not self._pending:  # the usual case in mode async
                self._running[call_id] = call.action
                return _GOES_ON
            waits = self._pending.against(parameters, self._now_ms())
            if verdict is None and waits is not None:  # other late decisions apply to the next call
                self._late = deque((d for d in self._late if not is_same_request(d, waits)), _MAX_LATE)
                return Admitted(cause_of_waiting(waits))
            # An answered request no longer refuses, even if it was for an earlier call.
            about = [d for d in self._late if verdict is None or not is_same_request(d, verdict)]
            passes = ends_turn(call.action)  # also in a session that is held from now on
            decisions = [d for d in about if not self._is_stale(d) and not (passes and of_session(d))]
            self._late.clear()
            if verdict is not None and verdict.level is not Level.ALLOW:
                decisions.append(verdict)
            rollbacks = [d for d in decisions if d.level is Level.ROLLBACK]
            for decision in decisions:
                if decision.level is not Level.ROLLBACK:
                    self._acknowledge(Stage.APPLIED, decision.decision_id, decision.decided_at, call_id=call_id)
            advice = [advice_of(d) for d in decisions if d.level < Level.PAUSE]
            # Of equal levels, the verdict on this call comes before a late one: the agent reads this call's reason.
            refusing = max((d for d in decisions[::-1] if d.level >= Level.PAUSE), key=lambda d: d.level, default=None)
            if refusing is None:
                self._running[call_id] = call.action
            elif of_session(refusing) is not None:
                self._note_refused(refusing.decision_id)
            return Admitted(None if refusing is None else self._told(cause_of(refusing)), advice, rollbacks)

    def done(self, call_id: str) -> None:
        """Record the end of an admitted call."""
        with self._lock:
            self._running.pop(call_id, None)
            self._acknowledge_stopped()

    # With the lock held.

    def _apply(self, decision: Decision, waiting: AwaitedVerdict | None) -> None:
        self._awaited.arrived(waiting)
        new = self._is_new(decision.decision_id)
        if decision.level is Level.KILL and decision.scope not in ONE_THING:
            if new:
                self._received(decision)
            # A kill that is sent again was acknowledged, but the acknowledgement did not arrive.
            self._kill(cause_of(decision), say=new or "issued" in decision.values)
            if waiting is not None:
                resolve(waiting.verdict, None)
            return
        stale = self._is_stale(decision)
        # A late decision shows that the workers lag; calls that await no verdict learn it only this way.
        self._behind_until_s = time.monotonic() + self._max_age_ms / 1000 if stale else 0.0
        was_requested = self._pending.update(decision)
        if is_answer(decision):
            self._lift(decision)
            self._late = deque((d for d in self._late if not is_same_request(d, decision)), _MAX_LATE)
            if decision.level is not Level.ALLOW and new:
                self._received(decision)
            # No call waits: keep it for the next such call. A hint applies to the next call of any kind.
            if not answer(waiting, decision) and decision.level is Level.NUDGE and new:
                self._late.append(decision)
            return
        if decision.level is Level.ALLOW or not new or stale:
            if decision.level is not Level.ALLOW and new:
                self._received(decision, "stale: not applied")
            # The freeze may be known already; the call waits for the person all the same.
            if answer(waiting, None if stale else decision) and not stale:
                self._awaited.wait_on(decision)
            return
        self._received(decision)
        if self._is_alone and of_session(decision) is not None:
            self._entries[self._own] = frozen_by(decision)  # the control topic does not have it, and nobody can lift it
        if answer(waiting, decision):
            self._awaited.wait_on(decision)
        elif not was_requested and (decision.level < Level.PAUSE or waiting is None or not waiting.not_done):
            self._late.append(decision)

    def _apply_entry(self, key: str, record: ControlRecord) -> None:
        """Apply an entry in force: acknowledge it if it stops this session. A kill is permanent."""
        if key not in self._always:
            return
        new = self._is_new(record.decision_id)
        if new:
            self._acknowledge(Stage.RECEIVED, record.decision_id, record.decided_at)
        if record.state is ControlState.KILLED:
            # Before a restart this session may have acknowledged the stop; sessions above acknowledge their own.
            acknowledged = key == self._own and record.stopped_at is not None
            self._kill(cause_of_entry(record), say=new and not acknowledged)
        elif new:
            self._acknowledge(Stage.APPLIED, record.decision_id, record.decided_at)

    def _lift(self, decision: Decision) -> None:
        """End the freeze of the whole session at its approval, before the control topic shows it."""
        held = self._entries.get(self._own)
        if held is None or held.state is not ControlState.FROZEN or held.by != HALTLINE:
            return
        approval = of_session(decision)
        if approval is not None and approval.state is ApprovalState.APPROVED:
            del self._entries[self._own]

    def _kill(self, cause: Cause, *, say: bool) -> None:
        cause = self._told(cause)
        if say:
            running = ", ".join(sorted(set(self._running.values())))
            detail = f"still running: {running}" if running else ""
            self._acknowledge(Stage.APPLIED, cause.decision_id, cause.decided_at_ms, detail=detail)
            self._unacknowledged[cause.decision_id] = cause.decided_at_ms
        if self._killed is None:
            self._killed = cause
        elif self._killed.decision is None and cause.decision_id == self._killed.decision_id:
            self._killed = cause  # the decision behind the entry, with all its fields
        self._awaited.end()
        self._acknowledge_stopped()

    def _acknowledge_stopped(self) -> None:
        if self._unacknowledged and not self._running:
            unacknowledged, self._unacknowledged = self._unacknowledged, {}
            for decision_id, decided_at_ms in unacknowledged.items():
                self._acknowledge(Stage.STOPPED, decision_id, decided_at_ms)

    def _received(self, decision: Decision, detail: str = "") -> None:
        self._acknowledge(
            Stage.RECEIVED, decision.decision_id, decision.decided_at, call_id=decision.call_id, detail=detail
        )

    def _is_stale(self, decision: Decision) -> bool:
        now_ms = self._now_ms()
        expired = decision.expires is not None and decision.expires < now_ms
        return expired or now_ms - decision.time > self._max_age_ms

    def _is_new(self, decision_id: str) -> bool:
        if decision_id in self._seen:
            return False
        self._seen[decision_id] = None
        while len(self._seen) > _MAX_REMEMBERED:
            self._seen.popitem(last=False)
        return True
