"""The core, which decides: a pure function of policy, state and event.

The worker, replay, backtest, the agent's local mode and every test run this same code. Its only clock is the event's
own time: no I/O, no wall clock, no randomness, no globals.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from haltline.detectors import catalogue
from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.observation import CallTracker, Observation
from haltline.detectors.features.observed.event_fields import plain
from haltline.detectors.features.tool_classifier import Classifier
from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.detectors.session.budget import Budget
from haltline.interventions.author_rules.of_policy import PolicyRules
from haltline.interventions.author_rules.stated import Stated
from haltline.interventions.control import approvals, declared_batches, freeze, kills, probation, session_incidents
from haltline.interventions.control.command_handler import due_ms
from haltline.interventions.decide.activity_after_kill import activity_after_kill
from haltline.interventions.decide.level_selection import LevelSelection
from haltline.interventions.levels import hold
from haltline.interventions.levels.plugins import INTERVENTIONS, STRATEGIES, Extensions
from haltline.interventions.payloads import rollback
from haltline.interventions.state.context import Context, note_of
from haltline.interventions.state.effects import NOTHING, ControlEffects
from haltline.interventions.state.intervention_history import Checkpoints
from haltline.interventions.state.records import control_record, detection
from haltline.interventions.state.session_control import DeclaredBatch, Freeze, Kill, SessionControl
from haltline.interventions.state.texts import told
from haltline.schemas.control import Command, ControlState, Feedback
from haltline.schemas.decisions import WHOLE_SESSION, Decision
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.findings import Detection, Finding
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.signals import Signal
from haltline.streams.engine.cross_session import CrossSessionCore, ScopeEffects, ScopeState
from haltline.streams.engine.groups import Runs
from haltline.streams.engine.log_position import Failure, LogPosition, Position, is_first, is_new
from haltline.streams.engine.rule_sets import RuleSet, RuleSets, on_probation
from haltline.streams.engine.session_commands import SessionCommands
from haltline.streams.engine.session_state import MAX_SEEN, Effects, SessionState
from haltline.streams.engine.signals import origin_of, stood_in

# Constants because they are read at every event: an attribute of the enum class is slower.
_SESSION_ENDED, _MODEL_TURN = Kind.SESSION_ENDED, Kind.MODEL_TURN

TURN_AFTER_STOP = "turn_after_stop"
"""The counter of model turns after a kill or in a freeze: nothing refuses turns there."""

__all__ = ["MAX_SEEN", "Core", "Effects", "Failure", "LogPosition", "Position", "SessionState"]


class Core:
    """The decisions under one policy."""

    def __init__(
        self,
        policy: Policy | None = None,
        plugins: Plugins = NO_PLUGINS,
        *,
        alone: bool = False,
        runs: Runs = Runs.ALL,
    ) -> None:
        """Build every detector of the policy; detectors of other packages are looked up in `plugins`.

        `alone`: for one session, in the process that produces its events. Each event arrives once, so no ids are
        stored. There are no rules across sessions, so no signals are sent. Findings of shadow rules are not recorded,
        so these rules are left out.

        `runs`: the group of workers. Outcomes for which `runs.says` returns False are published by another group.

        Raises:
            ValueError: a rule is unknown or a setting is wrong; says which, what was expected and what was given.

        """
        self.policy = policy or Policy()
        self._alone = alone
        self._classifier = Classifier(self.policy)
        offered = plugins.others
        extensions = Extensions(offered.get(STRATEGIES, {}), offered.get(INTERVENTIONS, {}))
        self._levels = LevelSelection(self.policy, extensions)
        author_rules = PolicyRules(self.policy)
        self._author_rules = author_rules or None
        known = catalogue(self.policy, plugins)
        if (tried := self.policy.experiment) is not None and tried.rule not in known:
            raise ValueError(f"experiment.rule: expected one of {', '.join(known)}, got {tried.rule!r}")
        enforces = alone or runs is Runs.ENFORCED
        self._rule_sets = RuleSets(self.policy, known, plugins, enforces=enforces)
        self._strict = on_probation(self.policy, known, plugins, enforces=enforces)
        self._cross_session = CrossSessionCore(
            self.policy, self._rule_sets.rules, known, enforces=enforces, alone=alone
        )
        self.runs = runs
        shadowed = self._rule_sets.shadowed or self._strict.shadowed or author_rules.shadowed
        self.idle = runs is Runs.SHADOW and not shadowed
        """Whether no rule is in shadow, so that this group has nothing to find."""
        self._signaller = self._cross_session.signaller
        self._commands = SessionCommands(self.policy, self._signaller)
        self._ttl_ms = int(self.policy.session_ttl_h * 3_600_000)

    def effect_of(self, event: ActionEvent) -> Effect:
        """Return the effect of a proposed call by itself: by its name, and by what it would run."""
        calls = CallTracker()
        return Observation(event, self._classifier, calls.phase(event)[0], calls).effect

    def on_event(self, state: SessionState | None, event: ActionEvent, at: LogPosition | None = None) -> Effects:
        """Apply the session's next event. Changes `state` in place."""
        event = plain(event)
        if state is None:
            state = SessionState(session_id=event.session_id)
        if not self._alone and not (is_new(state, at) and is_first(state, event.event_id, MAX_SEEN)):
            return Effects(state, applied=False)
        self._advance(state, event)
        control, killed = state.control, state.control.killed
        rules = self._rule_sets if control.probation is None else self._strict
        rule_set = rules.at(event, state.clock_ms)
        act = self._observation(state, event, at, rule_set)
        batch = self._declared_batch(control, act) if control.batches else None
        released = self._released_by_prompt(state, act) if event.task is not None else NOTHING
        findings, failures = self._found(state, act, rule_set)
        signals = self._signals(state, act, rule_set)
        irreversible = () if self._alone or not act.is_attempt else _irreversible(act)
        state.calls.note(act)
        if event.task is not None or event.checkpoint is not None or state.checkpoints is not None:
            _note(state, act)
        judged = _settled(control, state.calls.actions) if control.history is not None and act.is_attempt else []
        over = session_incidents.on_time(control, state.ref, self.policy, event.time) if control.incidents else []
        if findings or failures or killed or batch or over or self._is_concerned(state, act, released):
            effects = Effects(state, signals=signals, judged=judged, irreversible=irreversible, incidents=over)
            return self._decide(effects, _Observed(act, rule_set, findings, failures, killed, batch, released))
        if signals or judged or irreversible:
            return Effects(state, signals=signals, judged=judged, irreversible=irreversible)
        return Effects.nothing(state)

    # The steps of an event, in their order.

    def _advance(self, state: SessionState, event: ActionEvent) -> None:
        """Count the event, and move clock, agent and tree of the session on."""
        time_ms = event.time
        if time_ms - state.clock_ms > self._ttl_ms and state.clock_ms:
            # The session was idle for so long that its history no longer counts. A kill still does.
            state.calls, state.detectors, state.author_rules = CallTracker(), {}, None
        state.events += 1
        if time_ms > state.clock_ms:  # noqa: PLR1730 - for every event: max() is a call
            state.clock_ms = time_ms
        if event.agent_id != "unknown":
            state.agent_id = event.agent_id
        if event.parent_session_id is not None or event.root_session_id is not None:
            state.root_session_id = stood_in(event)
        state.ended = event.kind is _SESSION_ENDED

    def _observation(
        self, state: SessionState, event: ActionEvent, at: LogPosition | None, rule_set: RuleSet
    ) -> Observation:
        """Return the event as detectors see it."""
        calls = state.calls
        phase, call = calls.phase(event)
        act = Observation(event, self._classifier, phase, calls, call, rule_set.recalled, rule_set.measured)
        if at is not None:
            act.topic, act.partition, act.offset = at.topic, at.partition, at.offset
        return act

    @staticmethod
    def _declared_batch(control: SessionControl, act: Observation) -> DeclaredBatch | None:
        """Return the declared batch that covers the action, and record the action in it; None if there is none."""
        if not act.is_attempt or not act.acts or act.refused:
            return None
        targets = [one.target for one in act.acts]
        batch = control.batch_for(act.action, targets, act.time_ms)
        if batch is not None:
            batch.used += 1
            act.batch = batch.as_batch()
        return batch

    def _released_by_prompt(self, state: SessionState, act: Observation) -> ControlEffects:
        """Judge progress afresh at a new prompt of the user, which ends a hold. Returns the effects."""
        control = state.control
        if not state.calls.is_other_task(act.event):
            return NOTHING
        hold.judge_anew(control)
        if not hold.is_for_progress(control.held):
            return NOTHING
        answers = approvals.release(control, state.ref, self.policy, act.time_ms, "a new prompt of the user")
        return replace(freeze.lift(control, state.ref), decisions=answers)

    def _found(
        self, state: SessionState, act: Observation, rule_set: RuleSet
    ) -> tuple[Sequence[Finding], Sequence[Failure]]:
        """Return what the detectors and the author's rules find, or the activity after a kill; and their failures."""
        control = state.control
        if control.killed is not None:
            return self._after_kill(act, control.killed), ()
        findings, failures = rule_set.observe(state.detectors, act)
        if control.judging and (again := hold.on_attempt(control, act, self.policy.operated.hold)) is not None:
            findings = [*findings, again]
        if self._author_rules is not None:
            failed = list(failures)
            own = self._author_rules.on_event(state, act, lambda name, error: failed.append(Failure(name, error)))
            findings, failures = [*findings, *own], failed
        return findings, failures

    def _after_kill(self, act: Observation, kill: Kill) -> tuple[Finding, ...]:
        begun_ms = act.time_ms if act.is_attempt else act.call.time_ms if act.call is not None else None
        if begun_ms is None or act.refused:
            return ()
        grace_s = self.policy.kill_grace_s
        finding = activity_after_kill(kill, act.event, begun_ms, act.evidence, grace_s=grace_s)
        return () if finding is None else (finding,)

    def _signals(self, state: SessionState, act: Observation, rule_set: RuleSet) -> Sequence[Signal]:
        """Return the signals of the event by itself, for the rules across sessions."""
        return self._signaller.of_event(
            state.unsent,
            act,
            agent_id=state.agent_id,
            first=state.events == 1,
            near=lambda: rule_set.near(state.detectors, Kind.PROPOSED).get(Budget.id, 0.0),
        )

    def _is_concerned(self, state: SessionState, act: Observation, released: ControlEffects) -> bool:
        """Return whether there may be something to decide, though nothing was found."""
        control = state.control
        return bool(
            control.approvals
            or control.probation
            or act.event.await_verdict
            or self._levels.examines
            or released is not NOTHING
            or (control.held is not None and (act.kind is _MODEL_TURN or act.is_attempt))
            or (state.ended and control.incidents)
        )

    def _decide(self, effects: Effects, observed: "_Observed") -> Effects:
        """Complete the effects of an event that may have a decision; most have none."""
        state, act, killed_before = effects.state, observed.act, observed.killed
        event, control, held_before = act.event, state.control, state.control.held
        failures, signals, judged = list(observed.failures), list(effects.signals), list(effects.judged)
        # The level, then what probation, approvals and the agent's end change of it.
        decision, shadow = self._levels.decide(
            control,
            event,
            observed.findings,
            observed.rule_set.rules,
            lambda: observed.rule_set.near(state.detectors, event.kind),
            context=Context(
                state,
                act,
                failed=lambda name, error: failures.append(Failure(name, error)),
                judged=lambda rule, level, helped: judged.append((rule, level, helped)),
            ),
        )
        decision, passed = self._on_probation(control, act, decision, lived=killed_before is None)
        decision = approvals.on_event(control, event, decision, self.policy, lambda: act.effect)
        killed = control.killed
        is_new_kill = killed is not None and killed_before is None
        frozen = control.held if held_before is None and killed is None else None
        stopped = state.ended and kills.has_ended(control, event.time)
        # Its incident; requests and incidents that are over with it.
        closed = self._closed_by_hold(state, event.time) if hold.is_for_progress(frozen) else ()
        decision, counted = session_incidents.on_event(
            control, event, decision, killed_before=killed_before is not None, findings=observed.findings
        )
        incidents = [*effects.incidents, *counted]
        if state.ended or is_new_kill:
            why = session_incidents.ENDED if state.ended else session_incidents.KILLED
            answers, resolved = session_incidents.close(control, state.ref, self.policy, event.time, why)
            closed, incidents = (*closed, *answers), [*incidents, *resolved]
        state.due_ms = due_ms(control)
        if decision is not None and killed_before is None:
            origin = origin_of(act, state.agent_id)
            signals += self._signaller.decided(state.unsent, origin, decision, killed=killed is not None)
        if observed.batch is not None and killed_before is None:
            decision = declared_batches.decision_on(observed.batch, event, decision, self.policy)
        # Everything to be published.
        decisions = [told(one) for one in (*observed.released.decisions, decision, shadow) if one is not None]
        effects.detections = tuple(self._detection(observed, finding, decisions) for finding in observed.findings)
        effects.decision, effects.also = decisions[0] if decisions else None, (*decisions[1:], *map(told, closed))
        effects.control = observed.released.control
        if killed is not None and (is_new_kill or stopped):
            effects.control = control_record(state.ref, killed)
        elif frozen is not None:
            effects.control = freeze.record(frozen, state.ref)
        effects.released = passed or observed.released.released
        effects.followup = TURN_AFTER_STOP if _is_turn(event) and _is_stopped(killed_before, held_before) else ""
        effects.failures, effects.signals, effects.judged = tuple(failures), signals, judged
        effects.incidents = incidents
        return effects

    def _on_probation(
        self, control: SessionControl, act: Observation, decision: Decision | None, *, lived: bool
    ) -> tuple[Decision | None, bool]:
        """Apply probation to a decision. Returns the decision, and whether the probation is over."""
        if control.probation is None:
            return decision, False
        killed = lived and control.killed is not None
        acts = act.is_attempt and not act.refused
        return probation.on_event(control, act.event, decision, self.policy, acts=acts, newly_killed=killed)

    def _closed_by_hold(self, state: SessionState, time_ms: int) -> tuple[Decision, ...]:
        """Close the open requests of single calls for lack of progress: the hold's request is the one to answer."""
        tickets = state.control.approvals.values()
        requests = {t.request_id for t in tickets if t.cause == hold.CAUSE and t.action != WHOLE_SESSION}
        if not requests:
            return ()
        return approvals.close(state.control, state.ref, self.policy, time_ms, "session_held", requests=requests)

    def _detection(self, observed: "_Observed", finding: Finding, decisions: Sequence[Decision]) -> Detection:
        event = observed.act.event
        led_to = next((one.decision_id for one in decisions if one.detector == finding.detector), None)
        rule = finding if isinstance(finding, Stated) else observed.rule_set.rules.get(finding.detector)
        mode = (rule or Rule()).mode
        own = {"session_id": event.session_id, "mode": mode, "decision_id": led_to}
        return detection(self.policy, finding, event, event.session_id, event.event_id, **own)

    # Everything else that reaches a session.

    def near(self, state: SessionState, event: ActionEvent) -> dict[str, float]:
        """Return how close each rule is to a finding after the session's last event, 0 to 1, without distant rules."""
        watch = self._rule_sets.at(event, state.clock_ms)
        return {rule: share for kind in Kind for rule, share in watch.near(state.detectors, kind).items()}

    def on_command(self, state: SessionState | None, command: Command, at: LogPosition | None = None) -> Effects:
        """Apply an operator's command to a session. Changes `state` in place; idempotent for the same command."""
        if state is None:
            state = SessionState(session_id=command.id)
        return self._commands.command(state, command) if is_new(state, at) else Effects(state, applied=False)

    def on_feedback(self, state: SessionState | None, feedback: Feedback, at: LogPosition | None = None) -> Effects:
        """Apply feedback of the agent's side. Changes `state` in place."""
        if state is None:
            state = SessionState(session_id=feedback.session_id)
        return self._commands.feedback(state, feedback) if is_new(state, at) else Effects(state, applied=False)

    def on_tick(self, state: SessionState, now_ms: int) -> Effects:
        """Do the first thing that is due at `now_ms`, on the worker's clock. Changes `state` in place.

        Call it again while `state.due_ms` is not 0 and not later than `now_ms`. Its effects carry the time at which it
        was due, not that of the tick. A replay, which has no clock, does not call it.
        """
        return self._commands.tick(state, now_ms) if 0 < state.due_ms <= now_ms else Effects(state, applied=False)

    def on_idle(self, state: SessionState) -> Sequence[IncidentRecord]:
        """Return the incident records of a session that is about to be dropped after a long idle time."""
        time_ms = state.clock_ms + self._ttl_ms
        return session_incidents.close(state.control, state.ref, self.policy, time_ms, "idle")[1]

    def on_signal(self, state: ScopeState | None, signal: Signal, at: LogPosition | None = None) -> ScopeEffects:
        """Apply the next signal of an agent, target, tree, mission or the fleet. Changes `state` in place."""
        return self._cross_session.on_signal(state, signal, at)

    def on_scope_command(
        self, state: ScopeState | None, command: Command, at: LogPosition | None = None
    ) -> tuple[ScopeState, ControlEffects]:
        """Apply an operator's command to one of these scopes, or to a tool. Changes `state` in place."""
        return self._cross_session.on_command(state, command, at)

    def on_idle_scope(self, state: ScopeState) -> Sequence[IncidentRecord]:
        """Return the incident records of an idle agent, target, tree, mission or the fleet, like `on_idle`."""
        return self._cross_session.on_idle(state, state.clock_ms + self._ttl_ms)

    @staticmethod
    def retain_when_idle(state: ScopeState) -> bool:
        """Return whether the state of an agent, target, tree, mission or the fleet is kept when it is idle."""
        return CrossSessionCore.retain_when_idle(state)


class _Observed(NamedTuple):
    """An event with what was found in it, before anything is decided."""

    act: Observation
    rule_set: RuleSet
    findings: Sequence[Finding]
    failures: Sequence[Failure]
    killed: Kill | None
    """The kill before this event."""
    batch: DeclaredBatch | None
    """The declared batch that covers it."""
    released: ControlEffects
    """The effects of the end of a hold."""


def _is_turn(event: ActionEvent) -> bool:
    """Return whether it is a turn of the model that was taken."""
    return event.kind is _MODEL_TURN and event.outcome is not Outcome.REFUSED


def _is_stopped(killed: Kill | None, held: Freeze | None) -> bool:
    return killed is not None or (held is not None and held.state == ControlState.FROZEN)


def _irreversible(act: Observation) -> Sequence[Destruction]:
    """Return the irreversible effects of an attempt that was not refused."""
    acts = act.irreversible
    return tuple(one for one in acts if not one.reversible) if acts and not act.refused else ()


def _settled(control: SessionControl, actions: int) -> list[tuple[str, str, float]]:
    """Return interventions now known to have helped, as nothing followed them: rule, level, and how far."""
    history = control.history
    entries = () if history is None else history.settle(actions)
    return [(entry.rule, entry.level, 1.0) for entry in entries if entry.said and not entry.silent]


def _note(state: SessionState, act: Observation) -> None:
    """Record the task, checkpoints, and results of calls since the last one, for interventions that refer to them."""
    event = act.event
    if event.task is not None and (event.task.goal or not event.task.prompts):
        state.task = note_of(event.task)
    if act.is_result and state.checkpoints is not None:
        rollback.note_result(state.checkpoints, event)
    if event.checkpoint is not None:
        state.checkpoints = state.checkpoints or Checkpoints()
        rollback.note_checkpoint(
            state.checkpoints, event.checkpoint, event, act.offset if act.topic else -1, state.calls.actions
        )
