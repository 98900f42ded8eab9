"""What the session may do, from all that has arrived. Thread safe, no I/O.

A kill of the session, one above it, its agent, its mission or the fleet is permanent in this object:
a reset is for a new guard. What holds for a tool or a target, and what is frozen, ends with its entry.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

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
    ONE_THING,
    Advice,
    Cause,
    advice_of,
    cause_of,
    cause_of_entry,
    cause_of_waiting,
    may_look,
)
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.control import HALTLINE, ControlRecord, ControlState, Stage, control_key
from haltline.schemas.decisions import ApprovalState, Decision, Level, Mode, ScopeKind
from haltline.schemas.events import Effect

_MAX_LATE = 64
_MAX_REMEMBERED = 512
_STOPS = frozenset({ControlState.KILLED, ControlState.FROZEN, ControlState.CONTAINED})


class Acknowledge(Protocol):
    """Sends one piece of feedback."""

    def __call__(  # noqa: D102 - the class says it
        self,
        stage: Stage,
        decision_id: str,
        decided_at_ms: int | None,
        *,
        call_id: str | None = None,
        action: str = "",
        detail: str = "",
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """The last word on a call."""

    cause: Cause | None = None
    """Why it is refused; None: it runs."""
    advice: Sequence[Advice] = ()
    rollbacks: Sequence[Decision] = ()
    """Still to be carried out, and acknowledged only then."""


_GOES_ON = Admitted()


class Enforcer:
    """Takes in control entries and decisions from one side, and admits or refuses calls on the other."""

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
        self._is_alone = settings.bootstrap is None
        self._max_age_ms = settings.max_decision_age_s * 1000
        self._acknowledge = acknowledge
        self._now_ms = now_ms

        self._lock = threading.RLock()
        self._entries: dict[str, ControlRecord] = {}
        self._before: dict[str, ControlRecord] = {}  # while the topic is read anew: what stood
        self._loaded = False
        self._loading: list[Future[None]] = []
        self._killed: Cause | None = None
        self._unacknowledged: dict[str, int | None] = {}  # kills after which something may still run
        self._running: dict[str, str] = {}
        self._awaited = AwaitedVerdicts(settings.budget_s, settings.first_budget_s)
        self._late: deque[Decision] = deque(maxlen=_MAX_LATE)
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._pending = Pending()
        self._behind_until_s = 0.0

    # What arrives, from the link's thread.

    def concerns(self, key: str) -> bool:
        """Whether an entry with this key can be about one of this session's calls."""
        return key in self._always or key.startswith(("tool:", "target:"))

    def control(self, key: str, record: ControlRecord | None) -> None:
        """Takes in an entry of the control topic."""
        if not self.concerns(key):
            return
        with self._lock:
            if record is None or record.state not in _STOPS or self._session_id in (record.spared or ()):
                self._entries.pop(key, None)
            else:
                self._entries[key] = record
                if self._loaded:
                    self._apply_entry(key, record)

    def loaded(self) -> None:
        """From now on what stands is known; until now a later entry could take an earlier one back."""
        with self._lock:
            self._loaded = True
            self._before = {}
            for key, record in list(self._entries.items()):
                self._apply_entry(key, record)
            waiting, self._loading = self._loading, []
        for future in waiting:
            resolve(future, None)

    def unloaded(self) -> None:
        """What stands is read anew. A kill stays; what else stood holds until all is read."""
        with self._lock:
            if self._loaded:
                self._before = self._entries
            self._loaded = False
            self._entries = {}
            self._awaited.reconnected()

    def decision(self, decision: Decision) -> None:
        """Takes in a decision for this session."""
        with self._lock:
            waiting = self._awaited.answered_by(decision)
            if waiting is not None or decision.mode is not Mode.SHADOW:
                self._apply(decision, waiting)
            # Else it decides nothing, and comes from a group of its own, which may be far behind.

    # What the agent asks, from its own threads.

    def when_loaded(self) -> "Future[None]":
        """Done when it is known what stands."""
        future: Future[None] = Future()
        with self._lock:
            if not self._loaded:
                self._loading.append(future)
                return future
        future.set_result(None)
        return future

    @property
    def is_loaded(self) -> bool:
        """Whether it is known what stands."""
        return self._loaded

    def verdict_wait_s(self, budget_s: float) -> float:
        """How long the next verdict is waited for: the first of a connection may take as long as a start."""
        with self._lock:
            return self._awaited.wait_s(budget_s)

    @property
    def is_silent(self) -> bool:
        """The last verdict that was waited for did not come in time."""
        return self._awaited.silent

    def degraded(self, *, link_up: bool) -> str | None:
        """Why decisions cannot be relied on now, in words."""
        if not self._loaded:
            return "it is not known what stands"
        if not link_up:
            return "the broker is away"
        if self._awaited.silent:
            return "the last verdict that was waited for did not come in time"
        if time.monotonic() < self._behind_until_s:
            return "decisions come too late: the workers are behind"
        return None

    @property
    def killed(self) -> Cause | None:
        """What killed the session, or one above it, its agent, its mission or the fleet."""
        return self._killed

    def stay_killed(self, cause: Cause) -> None:
        """Was killed before, in another process: that is acknowledged already."""
        with self._lock:
            self._killed = cause

    def against_call(self, call: Call) -> Cause | None:
        """What refuses this call now, without any verdict."""
        if self._killed is None and not self._entries and not self._before:
            return None
        return self.against(call.action, call.match_targets, call.effect)

    def against(self, action: str, targets: Sequence[str], effect: Effect = Effect.READ) -> Cause | None:
        """What refuses such a call now, without any verdict."""
        with self._lock:
            if self._killed is not None:
                return self._killed
            if not self._entries and not self._before:
                return None
            keys = self._always | {control_key(ScopeKind.TOOL, action)}
            keys.update(control_key(ScopeKind.TARGET, target) for target in targets)
            entries = chain(self._entries.items(), self._before.items())
            looks = effect <= Effect.POLL
            standing = next((r for key, r in entries if key in keys and not (looks and may_look(r))), None)
            return None if standing is None else cause_of_entry(standing)

    def await_verdict(self, event_id: str) -> "Future[Decision | None]":
        """Expects a verdict on a proposal; done with None when there will be none, or the session is killed."""
        with self._lock:
            verdict = self._awaited.expect(event_id)
            if self._killed is not None:
                resolve(verdict, None)
        return verdict

    def take_verdict(self, event_id: str, verdict: "Future[Decision | None]") -> Decision | None:
        """The verdict, if there is one already; expects it no longer."""
        with self._lock:
            self._awaited.forget(event_id, verdict)
        return None if verdict.cancel() else verdict.result()

    def await_approval(self, event_id: str) -> "Future[Decision | None]":
        """What a person says to a proposal that needs approval; done with None when the session is killed."""
        with self._lock:
            verdict = None if self._killed is not None else self._awaited.of(event_id)
        if verdict is None:
            verdict = Future()
            verdict.set_result(None)
        return verdict

    def give_up(self, event_id: str, verdict: "Future[Decision | None]", *, refused: bool) -> Decision | None:
        """Waits no longer: the call is refused for it, or goes on. The verdict, if it arrived in time."""
        with self._lock:
            if not verdict.cancel():
                self._awaited.forget(event_id, verdict)
                return verdict.result()
            self._awaited.give_up(event_id, refused=refused)
            return None

    def admit(self, call: Call, verdict: Decision | None, parameters: Callable[[], str | None]) -> Admitted:
        """The last word before a call runs: why it is refused, or that it runs now, with its advice."""
        with self._lock:
            call_id = call.call_id
            cause = self.against_call(call)
            # A freeze and the request that could lift it are one: a call that has waited gets the answer to that.
            if cause is not None and (self._killed is not None or verdict is None or of_session(verdict) is None):
                return Admitted(cause)
            if verdict is None and not self._late and not self._pending:  # as almost always in mode async
                self._running[call_id] = call.action
                return _GOES_ON
            waits = self._pending.against(parameters, self._now_ms())
            if verdict is None and waits is not None:  # a late decision about anything else is for the next call
                self._late = deque((d for d in self._late if not is_same_request(d, waits)), _MAX_LATE)
                return Admitted(cause_of_waiting(waits))
            # What a person has answered refuses no longer, also when it was of the call before.
            about = [d for d in self._late if verdict is None or not is_same_request(d, verdict)]
            decisions = [d for d in about if not self._is_stale(d)]
            self._late.clear()
            if verdict is not None and verdict.level is not Level.ALLOW:
                decisions.append(verdict)
            rollbacks = [d for d in decisions if d.level is Level.ROLLBACK]
            for decision in decisions:
                if decision.level is not Level.ROLLBACK:
                    self._acknowledge(Stage.APPLIED, decision.decision_id, decision.decided_at, call_id=call_id)
            advice = [advice_of(d) for d in decisions if d.level < Level.PAUSE]
            # Of two as hard, the verdict on this call before a late one: the agent reads why this one is refused.
            refusing = max((d for d in decisions[::-1] if d.level >= Level.PAUSE), key=lambda d: d.level, default=None)
            if refusing is None:
                self._running[call_id] = call.action
            return Admitted(None if refusing is None else cause_of(refusing), advice, rollbacks)

    def done(self, call_id: str) -> None:
        """A call that was admitted has ended."""
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
            # One that is sent again, though it was answered: the answer did not arrive.
            self._kill(cause_of(decision), say=new or "issued" in decision.values)
            if waiting is not None:
                resolve(waiting.verdict, None)
            return
        stale = self._is_stale(decision)
        # One that comes too late says that the workers are behind; who waits for no verdict learns it only so.
        self._behind_until_s = time.monotonic() + self._max_age_ms / 1000 if stale else 0.0
        was_requested = self._pending.update(decision)
        if is_answer(decision):
            self._lift(decision)
            self._late = deque((d for d in self._late if not is_same_request(d, decision)), _MAX_LATE)
            if decision.level is not Level.ALLOW and new:
                self._received(decision)
            # Nobody waits: it is for the next such call. A hint is for whatever comes next.
            if not answer(waiting, decision) and decision.level is Level.NUDGE and new:
                self._late.append(decision)
            return
        if decision.level is Level.ALLOW or not new or stale:
            if decision.level is not Level.ALLOW and new:
                self._received(decision, "stale: not applied")
            # The freeze that it brings may have been known before: the caller waits for the person all the same.
            if answer(waiting, None if stale else decision) and not stale:
                self._awaited.wait_on(decision)
            return
        self._received(decision)
        if self._is_alone and of_session(decision) is not None:
            self._entries[self._own] = frozen_by(decision)  # no control topic says so, and nobody can lift it
        if answer(waiting, decision):
            self._awaited.wait_on(decision)
        elif not was_requested and (decision.level < Level.PAUSE or waiting is None or not waiting.not_done):
            self._late.append(decision)

    def _apply_entry(self, key: str, record: ControlRecord) -> None:
        """A standing entry: acknowledged when it stops this session, and a kill is permanent."""
        if key not in self._always:
            return
        new = self._is_new(record.decision_id)
        if new:
            self._acknowledge(Stage.RECEIVED, record.decision_id, record.decided_at)
        if record.state is ControlState.KILLED:
            # Before a restart this session may have acknowledged the stop already; one above it speaks for itself.
            acknowledged = key == self._own and record.stopped_at is not None
            self._kill(cause_of_entry(record), say=new and not acknowledged)
        elif new:
            self._acknowledge(Stage.APPLIED, record.decision_id, record.decided_at)

    def _lift(self, decision: Decision) -> None:
        """The freeze of the whole session ends with its approval: the control topic may show it later."""
        held = self._entries.get(self._own)
        if held is None or held.state is not ControlState.FROZEN or held.by != HALTLINE:
            return
        approval = of_session(decision)
        if approval is not None and approval.state is ApprovalState.APPROVED:
            del self._entries[self._own]

    def _kill(self, cause: Cause, *, say: bool) -> None:
        if say:
            running = ", ".join(sorted(set(self._running.values())))
            detail = f"still running: {running}" if running else ""
            self._acknowledge(Stage.APPLIED, cause.decision_id, cause.decided_at_ms, detail=detail)
            self._unacknowledged[cause.decision_id] = cause.decided_at_ms
        if self._killed is None:
            self._killed = cause
        elif self._killed.decision is None and cause.decision_id == self._killed.decision_id:
            self._killed = cause  # the decision behind the entry, with all that it says
        self._awaited.end()
        self._acknowledge_stopped()

    def _acknowledge_stopped(self) -> None:
        if self._unacknowledged and not self._running:
            unsaid, self._unacknowledged = self._unacknowledged, {}
            for decision_id, decided_at_ms in unsaid.items():
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
