"""The path of one guarded call: restrictions in force, author's rules, proposal, verdict, refusal or admission, end.

`Guard` is its public interface. The main path is `_admission`.
"""

import itertools
import logging
import os
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from typing import Any, Final

from haltline.interventions.agent.call import Call, describe_error, describe_novelty, describe_output, error_text
from haltline.interventions.agent.calls.event_publisher import CallEvent, EventPublisher, made, now_ms
from haltline.interventions.agent.calls.guarded_call import Action, Steps
from haltline.interventions.agent.checkpoints import Checkpoints
from haltline.interventions.agent.enforcement.enforcer import Admitted, Enforcer
from haltline.interventions.agent.enforcement.fail_policy import LOOKS, FailPolicy, may_destroy
from haltline.interventions.agent.enforcement.pending_approvals import (
    APPROVAL_EXPIRED,
    APPROVAL_PENDING,
    awaits_approval,
    held_alone,
    refused_alone,
)
from haltline.interventions.agent.enforcement.refusal_cause import (
    NOBODY,
    OWN_RULES,
    REPLAYED,
    Advice,
    Cause,
    advice_of,
    cause_of,
    own_decision,
)
from haltline.interventions.agent.enforcement.rollback import Rollbacks
from haltline.interventions.agent.enforcement.token_bucket import TokenBucket
from haltline.interventions.agent.held_secrets import HeldSecrets
from haltline.interventions.agent.novelty import SeenWords
from haltline.interventions.agent.redaction.payload_encoding import Whole
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.rules.book import RuleBook, copied, same
from haltline.interventions.agent.rules.replays import Kept
from haltline.interventions.agent.rules.throttled import MIN_INTERVAL, Throttled
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.snapshots.before_call import Looked, look
from haltline.interventions.agent.snapshots.own_files import OwnFiles
from haltline.interventions.agent.transport.transport import Decider, Transport
from haltline.interventions.author_rules.evaluation import Asked
from haltline.interventions.author_rules.objection import SNAPSHOT, UNCHECKED, Objection
from haltline.interventions.levels.default_levels import FREEZE
from haltline.interventions.state.call_digest import parameters
from haltline.schemas.control import ControlRecord, Stage
from haltline.schemas.decisions import WHOLE_SESSION, Approval, Decision, Level
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome, Usage

log: Final = logging.getLogger("haltline.agent")
_PROPOSED, _COMPLETED, _OK = Kind.PROPOSED, Kind.COMPLETED, Outcome.OK
_ONCE: Final = frozenset({Kind.SESSION_STARTED, Kind.SESSION_ENDED, Kind.HEARTBEAT})


class CallGate:
    """Admits the calls of one guard, and publishes their ends. Thread safe after `connect`.

    `parent` is the gate of the parent session.
    """

    def __init__(
        self,
        settings: GuardSettings,
        *,
        on_advice: Callable[[Advice], object] | None,
        decider: Decider | None,
        checkpoints: Checkpoints | None,
        parent: "CallGate | None",
    ) -> None:
        self.settings = settings
        self._lineage = settings.lineage
        self._on_advice = on_advice
        self.decider = decider
        self.on_stop: Callable[[], object] | None = None
        """Called when a decision of this process has stopped the session, or released it."""
        self._checkpoints = checkpoints
        self._parent = parent
        self.started_s: float | None = None
        """When the guard started to consume, in seconds of the monotonic clock; None: not started."""
        self.rules = RuleBook(settings.rules)
        self.throttled = Throttled(settings.throttle_s)
        self._seen = SeenWords()
        if settings.task is not None and settings.task.goal:
            self.note_prompt(settings.task.goal)
        self.held: HeldSecrets = HeldSecrets(settings.keys.digest) if parent is None else parent.held
        self._fail_policy = FailPolicy(settings)
        self._own_files = OwnFiles()

    def note_prompt(self, prompt: str) -> None:
        """Note what a prompt names: a call that takes it up works off what the user asked for."""
        self._seen.give(prompt)

    def connect(self, transport: Transport) -> None:
        """Connect to a transport, without publishing or requesting anything; the counts of the rules stay."""
        self.transport = transport
        self.publisher = EventPublisher(self.settings, transport)
        self.enforcer = Enforcer(self.settings, acknowledge=self.publisher.acknowledge, now_ms=now_ms)
        self.started_s = None
        self._refusals = TokenBucket(per_s=10, burst=20)
        self._of_tree: ControlRecord | None = None
        self._rollbacks = Rollbacks(self._checkpoints, self.settings.rollback_budget_s, self._tell_rollback)
        self._own_decisions = itertools.count()

    def after_fork(self, transport: Transport) -> None:
        """In a forked child: like `connect`, keeping the parent's counts and kills."""
        killed = self.enforcer.killed
        self.rules.after_fork()
        self._seen.after_fork()
        self.held.after_fork()
        if self.decider is not None:
            self.decider.after_fork()
        self.connect(transport)
        if killed is not None:
            self.enforcer.stay_killed(killed)

    @property
    def degraded(self) -> str | None:
        """Return why decisions are not reliable now, in a sentence; None if they are."""
        return self.enforcer.degraded(link_up=self.transport.up) or self.transport.unwatched

    # Called by Action.

    def steps(self, action: Action) -> Steps:
        """Yield the steps to the admission of a call. Raises only Refused."""
        call = action.call
        try:
            yield from self._admission(action)
        except (Refused, GeneratorExit):
            self.rules.release(call.call_id)
            raise
        except Exception:
            log.exception("haltline: session %s: %s could not be checked", self.settings.session_id, call.action)
            cause = self.enforcer.against(call.action, call.targets, call.effect)
            if cause is None and not call.ruled and (call.key is not None or self.rules.is_strict):
                cause = self._own_cause(call, Objection(UNCHECKED, "they could not be applied: see the log"))
                self._publish_refused(call, cause.code)
            if cause is not None or self._fail_policy.is_closed(call):
                self.rules.release(call.call_id)
                raise (cause or NOBODY).refusal() from None

    def _admission(self, action: Action) -> Steps:
        call, enforcer = action.call, self.enforcer
        if not enforcer.is_loaded and (left_s := self.start_left_s()) > 0:
            yield enforcer.when_loaded(), left_s
        if (going_back := self._rollbacks.awaited) is not None:  # files are changing during the rollback
            yield going_back, self._rollbacks.budget_s

        yield from self._slowed(call)

        # 1. Restrictions in force: after a kill no verdict is requested.
        self.follow_parent()
        cause = enforcer.against_call(call) or self._held_above(call)
        if cause is not None:
            held_back = self._refusals.take()
            raise cause.refusal() if held_back is None else self._refuse(call, cause, held_back)

        # 2. The author's own rules, and the limits of a THROTTLE.
        is_replay = self._by_rules(action)
        call.ruled = True
        if is_replay:
            return

        # 3. Keep the local work that the call discards, and publish the proposal.
        looked = yield from self._looked(call)
        call.loses = looked is not None and bool(looked.kept.lost)
        closed = self._fail_policy.is_closed(call)
        fields = self._proposed(call, looked)
        proposal = self.publisher.call_event(_PROPOSED, call, fields)
        answer = enforcer.await_verdict(proposal.event_id) if fields["await_verdict"] else None
        handed_over = self.publisher.publish(proposal, must=closed)
        if self.decider is not None:
            decision = self.decider.decide(proposal.event)
            if decision is not None:
                if call.mode == "local":  # in mode local the verdict is known already
                    answer = enforcer.await_verdict(proposal.event_id)
                self._decided_here(decision)

        # 4. Get the verdict: from this process, from the worker within the budget, or none.
        verdict, known = None, True
        if closed or answer is not None:
            verdict, known = yield from self._verdict(call, proposal, answer, closed=closed)

        # 5. Apply it.
        if closed and not (known and handed_over):  # a call that may destroy something must be published
            raise self._refuse(call, enforcer.against_call(call) or NOBODY)
        self.follow_parent()
        admitted = enforcer.admit(call, verdict, lambda: parameters(proposal.event))
        if admitted.cause or admitted.advice or admitted.rollbacks:
            yield from self._obey(action, admitted)
        self._advise_of_snapshot(action, looked)
        if action.advice:
            self._check_changed(action)
        self.throttled.note(call.effect)
        self.throttled.made(call.call_id, call.action, call.args, now_ms())

    def _looked(self, call: Call) -> "Generator[tuple[Future[Any], float], None, Looked | None]":
        """Return what becomes of the local work that the call discards; None: none, or this was not looked at."""
        settings = self.settings
        if not settings.snapshots or call.folder == "" or call.effect in LOOKS:
            return None
        try:
            folder = call.folder or os.getcwd()
        except OSError:  # it was removed
            return None
        self._own_files.begin(call.call_id, call.action, call.args, folder)
        if call.effect is not Effect.DESTRUCTIVE and not may_destroy(call, settings):
            return None
        about = {"event_id": call.call_id, "kind": _PROPOSED, "session_id": settings.session_id, "time": now_ms()}
        event = made({**call.describe(settings), **about})
        return (yield from look(event, folder, settings.session_id, self._own_files))

    def _proposed(self, call: Call, looked: Looked | None) -> dict[str, Any]:
        """Return the fields of a proposal that do not describe the call."""
        waits = self._fail_policy.waits(call, link_up=self.transport.up)
        fields: dict[str, Any] = {}
        if secrets_sent := [*call.secrets_sent, *self.held.sent(call.action, call.whole)]:
            fields["secrets_sent"] = secrets_sent
        if looked is not None:
            fields["kept"] = looked.kept
        if secrets_sent or call.loses:
            waits = waits or (call.mode == "async" and not call.is_mode_explicit and self.transport.up)
        return {"await_verdict": waits, **fields}

    def _verdict(
        self, call: Call, proposal: CallEvent, answer: "Future[Decision | None] | None", *, closed: bool
    ) -> "Generator[tuple[Future[Any], float], None, tuple[Decision | None, bool]]":
        """Return the verdict or None, and whether the restrictions in force are known."""
        enforcer = self.enforcer
        if answer is None:
            return None, enforcer.is_loaded if call.mode == "local" else self.degraded is None
        known = enforcer.is_loaded
        if call.mode == "local":
            verdict = enforcer.take_verdict(proposal.event_id, answer)
        else:
            if self.transport.up and (closed or not enforcer.is_silent):
                try:
                    yield answer, enforcer.verdict_wait_s(self.settings.budget_s)
                except GeneratorExit:  # cancelled or interrupted: the call is not made
                    self._publish_refused(call, "interrupted before it began")
                    raise
            verdict = enforcer.give_up(proposal.event_id, answer, refused=closed)
            known = known and verdict is not None
        if verdict is not None and (approval := awaits_approval(verdict)) is not None:
            verdict = yield from self._approval(call, proposal, verdict, approval)
        return verdict, known

    def _obey(self, action: Action, admitted: Admitted) -> Steps:
        """Pass on hints, roll back for a ROLLBACK, and raise the refusal."""
        action.advice = (*action.advice, *admitted.advice)
        for one in admitted.advice:
            self._throttle(one)
            self._advise(one)
        cause = admitted.cause
        for decision in admitted.rollbacks:
            done = yield from self._rollbacks.roll_back(decision)
            if cause is not None and cause.decision is decision:
                cause = cause.saying(done)
        if cause is not None:
            raise self._refuse(action.call, cause)

    def pause_s(self, action: str, args: Mapping[str, Any]) -> float:
        """Return the seconds to wait before a poll that is slowed."""
        most_s = self.settings.longest_pause_s
        return min(self.throttled.pause_s(action, args, now_ms()), most_s) if most_s else 0.0

    def _slowed(self, call: Call) -> Steps:
        """Wait before a poll that is slowed."""
        if pause_s := self.pause_s(call.action, call.args):
            yield Future(), pause_s  # nothing completes it

    def _throttle(self, advice: Advice) -> None:
        """Apply the limits of a THROTTLE."""
        limits, until_ms = dict(advice.limits), advice.decision.expires
        interval_s = limits.pop(MIN_INTERVAL, None)
        if interval_s is not None:
            self.throttled.slow(advice.decision.call_id, interval_s, now_ms(), until_ms)
        self.throttled.take(limits, now_ms(), until_ms)

    def _check_changed(self, action: Action) -> None:
        """Check the author's rules on the arguments that a decision has changed."""
        call, changes = action.call, action.changes
        if not changes:
            return
        try:
            self._apply_changed(action, self.rules.against_changed(call.action, changes.of(call.args)))
        except BaseException:
            self.enforcer.done(call.call_id)  # it was admitted already
            call.ruled = False
            raise

    def _apply_changed(self, action: Action, wrong: Objection | None) -> None:
        if wrong is not None and wrong.blocks:
            raise self._refuse(action.call, self._own_cause(action.call, wrong))
        if wrong is not None:
            self._advise_of(action, wrong)

    def follow_parent(self) -> None:
        """Apply a kill of the parent session, and what restricts its tree, which no broker reports in mode local."""
        decider, parent = self.decider, self._parent
        if decider is not None and (record := decider.of_tree) is not self._of_tree:
            known = record or self._of_tree
            self._of_tree = record
            if known is not None:
                self.enforcer.control(known.key, record)
        if decider is not None and self.enforcer.killed is None:
            killed_here = decider.killed(self._lineage)
            if killed_here is not None:
                self.enforcer.stay_killed(cause_of(killed_here))
        if parent is not None and self.enforcer.killed is None:
            parent.follow_parent()
            if parent.enforcer.killed is not None:
                self.enforcer.stay_killed(parent.enforcer.killed)

    def against_turn(self) -> Cause | None:
        """Return the cause that refuses the next turn of the model."""
        above = self._above_here
        return self.enforcer.against_turn() or (None if above is None else above.against_turn())

    def note_refused_turn(self, cause: Cause) -> None:
        """Publish that a held session asked for a turn, unless there are too many: one that goes on is killed."""
        if cause.code.startswith(FREEZE) and self._refusals.take() is not None:
            self.publish(Kind.MODEL_TURN, outcome=Outcome.REFUSED, error=cause.code)

    @property
    def _above_here(self) -> "CallGate | None":
        """The session above if it is decided on in this process: then no broker reports its hold."""
        return self._parent if self.decider is not None else None

    def _held_above(self, call: Call) -> Cause | None:
        """Return the hold of a session above that refuses a call."""
        above = self._above_here
        return None if above is None else above.enforcer.against_call(call) or above._held_above(call)

    def _by_rules(self, action: Action) -> bool:
        """Raise the refusal by the author's rules; True: a stored result is returned, and the call is not made."""
        call = action.call
        if self.rules.empty and call.key is None and not self.throttled.ever:
            return False
        now = now_ms()
        found = self.rules.begin(Asked(call.call_id, call.action, call.args, now, same, call.cost_usd), call.key)
        if isinstance(found, Kept):
            action.replay(copied(found.value), has_value=found.has_value)
            self._publish_refused(call, REPLAYED)
            return True
        objection = self.throttled.against(call.effect, now)
        for one in found:
            if one.blocks:
                objection = one
            else:
                self._advise_of(action, one)
        if objection is None:
            return False
        cause = self._own_cause(call, objection)
        held_back = self._refusals.take()
        raise cause.refusal() if held_back is None else self._refuse(call, cause, held_back)

    def _approval(
        self, call: Call, proposal: CallEvent, paused: Decision, approval: Approval
    ) -> "Generator[tuple[Future[Any], float], None, Decision]":
        """Return the answer to an approval request if it arrives in time; else the request, which refuses the call."""
        if self.settings.bootstrap is None:
            return held_alone(paused) if approval.action == WHOLE_SESSION else refused_alone(paused)
        answer = self.enforcer.await_approval(proposal.event_id)
        until_ms = approval.expires
        wait_s = min(self.settings.approval_wait_s, (until_ms - now_ms()) / 1000)
        try:
            if wait_s > 0:
                yield answer, wait_s
        except GeneratorExit:  # cancelled or interrupted: the call is not made
            self._publish_refused(call, "interrupted while it waited for approval")
            raise
        verdict = self.enforcer.take_verdict(proposal.event_id, answer)
        if verdict is not None:
            return verdict
        return paused.model_copy(update={"code": APPROVAL_EXPIRED if now_ms() >= until_ms else APPROVAL_PENDING})

    def _tell_rollback(self, decision: Decision, stage: Stage, detail: str) -> None:
        if stage is Stage.APPLIED:
            self.rules.forget_results()
        self.publisher.acknowledge(
            stage, decision.decision_id, decision.decided_at, call_id=decision.call_id, detail=detail
        )

    def end(self, action: Action, error: BaseException | None) -> None:
        """Publish the end of an admitted call. Does not raise."""
        call = action.call
        try:
            args = call.whole
            fields: dict[str, Any] = {"outcome": _OK} if error is None else describe_error(error, self.settings)
            if cost_usd := self._settle(action, ok=error is None):
                fields["usage"] = Usage(cost_usd=cost_usd)
            result = Whole(action.value) if action.has_value else None
            if result is not None:
                fields.update(describe_output(result, self.settings))
                self.held.take(args, result, action=call.action)
            if error is not None:
                self.held.take(args, error_text(error), action=call.action)
            fields.update(describe_novelty(self._seen, args, result, error, fields["outcome"]))
            fields["duration_ms"] = (time.perf_counter_ns() - action.began_ns) // 1000 / 1000
            event = self.publisher.call_event(_COMPLETED, call, fields)
            self.publisher.publish(event, must=self._fail_policy.is_closed(call))
            if self.decider is not None:
                self._decide(event.event)
        except Exception:
            log.exception(
                "haltline: session %s: the end of %s could not be published", self.settings.session_id, call.action
            )
        finally:
            self._own_files.end(call.call_id)
            self.enforcer.done(call.call_id)

    # Internal.

    def _settle(self, action: Action, *, ok: bool) -> float | None:
        """Return the call's cost in US dollars, charged to the budgets; None: no cost."""
        call, usd, result = action.call, action.cost_usd, {"value": action.value, "has_value": action.has_value}
        usd = call.cost_usd if usd is None else usd
        return self.rules.end(call.call_id, call.action, now_ms(), ok=ok, cost_usd=usd, **result)

    def _own_decision(self, call: Call, objection: Objection) -> Decision:
        return own_decision(objection, call, self.settings, next(self._own_decisions), now_ms())

    def _own_cause(self, call: Call, objection: Objection) -> Cause:
        return cause_of(self._own_decision(call, objection))

    def _advise_of_snapshot(self, action: Action, looked: Looked | None) -> None:
        if looked is not None and looked.text:
            self._advise_of(action, Objection(SNAPSHOT, looked.text, blocks=False, text=looked.text))

    def _advise_of(self, action: Action, objection: Objection) -> None:
        advice = advice_of(self._own_decision(action.call, objection))
        action.advice = (*action.advice, advice)
        self._advise(advice)

    def _refuse(self, call: Call, cause: Cause, held_back: int = 0) -> Refused:
        self._publish_refused(call, cause.code)
        if cause.decision_id and not (cause.decision is not None and cause.decision.detector == OWN_RULES):
            self.publisher.acknowledge(
                Stage.REFUSED,
                cause.decision_id,
                cause.decided_at_ms,
                call_id=call.call_id,
                action=call.action,
                detail=f"{held_back} more since the last were not published" if held_back else "",
            )
        return cause.refusal()

    def _publish_refused(self, call: Call, why: str) -> None:
        """Publish a refused end without a proposal, which detectors do not count as an attempt."""
        try:
            fields = call.describe(self.settings)
        except Exception:  # the refusal applies even if it cannot be published
            log.exception("haltline: session %s: %s could not be described", self.settings.session_id, call.action)
            fields = {"call_id": call.call_id}
        self.publish(Kind.COMPLETED, outcome=Outcome.REFUSED, error=why, **fields)

    def _advise(self, advice: Advice) -> None:
        if self._on_advice is None:
            return
        try:
            self._on_advice(advice)
        except Exception:
            log.exception("haltline: on_advice raised")

    def _decide(self, event: ActionEvent) -> None:
        """Decide on the event in this process, in mode local."""
        if self.decider is not None and (decision := self.decider.decide(event)) is not None:
            self._decided_here(decision)

    def _decided_here(self, decision: Decision) -> None:
        self.enforcer.decision(decision)
        of_session = decision.approval is not None and decision.approval.action == WHOLE_SESSION
        if self.on_stop is not None and (of_session or decision.level is Level.KILL):
            self.on_stop()

    def publish(self, kind: Kind, **fields: Any) -> None:
        """Publish an event that is not a call; failures are logged."""
        try:
            event = self.publisher.event(kind, **fields)
            self.publisher.publish(event, must=kind in _ONCE)
            self._decide(event)
        except Exception:
            log.exception("haltline: session %s: %s could not be published", self.settings.session_id, kind)

    def start_left_s(self) -> float:
        """Return the seconds left of the start budget; after it, calls follow the fail policy."""
        if self.started_s is None:
            return 0.0
        return max(0.0, self.started_s + self.settings.start_budget_s - time.monotonic())
