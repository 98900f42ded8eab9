"""The core, which decides: a pure function of policy, state and event.

The worker, replay, backtest, the agent's local mode and every test run this same code. Its only clock is the event's
own time: no I/O, no wall clock, no randomness, no globals.
"""

from collections.abc import Sequence
from dataclasses import replace

from haltline.detectors import catalogue
from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.observation import CallTracker, Observation
from haltline.detectors.features.tool_classifier import Classifier
from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.interventions.control import approvals, declared_batches, freeze, kills, probation, session_incidents
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
from haltline.schemas.control import Command, CommandKind, ControlState, Feedback
from haltline.schemas.decisions import WHOLE_SESSION, Decision
from haltline.schemas.events import ActionEvent, Kind, Outcome
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

# Constants because they are read at every event: an attribute of the enum class takes ten times as long.
_SESSION_ENDED, _MODEL_TURN = Kind.SESSION_ENDED, Kind.MODEL_TURN
_KILL, _RESET, _BATCH = CommandKind.KILL, CommandKind.RESET, CommandKind.BATCH

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
        known = catalogue(self.policy, plugins)
        enforces = alone or runs is Runs.ENFORCED
        self._rule_sets = RuleSets(self.policy, known, plugins, enforces=enforces)
        self._strict = on_probation(self.policy, known, plugins, enforces=enforces)
        self._cross_session = CrossSessionCore(self.policy, self._rule_sets.rules, known, enforces=enforces)
        self.runs = runs
        self.idle = runs is Runs.SHADOW and not (self._rule_sets.shadowed or self._strict.shadowed)
        """Whether no rule is in shadow, so that this group has nothing to find."""
        self._signaller = self._cross_session.signaller
        self._commands = SessionCommands(self.policy, self._signaller)
        self._hold = self.policy.operated.hold
        self._ttl_ms = int(self.policy.session_ttl_h * 3_600_000)

    def on_event(self, state: SessionState | None, event: ActionEvent, at: LogPosition | None = None) -> Effects:
        """Apply the session's next event. Changes `state` in place."""
        time_ms = event.time
        if state is None:
            state = SessionState(session_id=event.session_id)
        if not self._alone and not (is_new(state, at) and is_first(state, event.event_id, MAX_SEEN)):
            return Effects(state, applied=False)
        if time_ms - state.clock_ms > self._ttl_ms and state.clock_ms:
            # The session was idle for so long that its history no longer counts. A kill still does.
            state.calls, state.detectors = CallTracker(), {}
        state.events += 1
        if time_ms > state.clock_ms:  # noqa: PLR1730 - for every event: max() takes five times as long
            state.clock_ms = time_ms
        agent_id = event.agent_id
        if agent_id != "unknown":
            state.agent_id = agent_id
        if event.parent_session_id is not None or event.root_session_id is not None:
            state.root_session_id = stood_in(event)
        state.ended = event.kind is _SESSION_ENDED

        standing = state.standing
        watches = self._rule_sets if standing.probation is None else self._strict
        watch = watches.at(event, state.clock_ms)
        act = self._act(state, event, at, watch)
        declared = self._declared(standing, act) if standing.batches else None
        was_killed = standing.killed
        released = self._released_by_prompt(state, act) if event.task is not None else NOTHING
        findings: Sequence[Finding]
        failures: Sequence[Failure] = ()
        if was_killed is None:
            findings, failures = watch.observe(state.detectors, act)
        else:
            findings = self._after_kill(act, was_killed)
        if (
            standing.judging
            and was_killed is None
            and (again := hold.on_attempt(standing, act, self._hold)) is not None
        ):
            findings = [*findings, again]
        signals: Sequence[Signal] = ()
        if not self._alone and (act.is_attempt or state.events == 1 or self._signaller.adds_up):
            signals = self._signaller.saw(state.unsaid, act, agent_id=state.agent_id, first=state.events == 1)
        irreversible = () if self._alone or not act.is_attempt else _irreversible(act)
        state.calls.note(act)
        if event.task is not None or event.checkpoint is not None or state.checkpoints is not None:
            _note(state, act)
        judged = _settled(standing, state.calls.actions) if standing.history is not None and act.is_attempt else []
        over = session_incidents.on_time(standing, state.ref, self.policy, time_ms) if standing.incidents else []
        concerned: object = (
            standing.approvals
            or standing.probation
            or event.await_verdict
            or self._levels.examines
            or declared
            or over
            or released is not NOTHING
            or (standing.held is not None and (act.kind is _MODEL_TURN or act.is_attempt))
        )
        if not (findings or failures or was_killed or concerned or (state.ended and standing.incidents)):
            return (
                Effects(state, signals=signals, judged=judged, irreversible=irreversible)
                if signals or judged or irreversible
                else Effects.nothing(state)
            )
        effects = self._decided(
            state,
            act,
            watch,
            declared=declared,
            was_killed=was_killed,
            findings=findings,
            failures=list(failures),
            signals=list(signals),
            judged=judged,
            incidents=over,
            released=released,
        )
        effects.irreversible = irreversible
        return effects

    def _decided(
        self,
        state: SessionState,
        act: Observation,
        watch: RuleSet,
        *,
        declared: DeclaredBatch | None,
        was_killed: Kill | None,
        findings: Sequence[Finding],
        failures: list[Failure],
        signals: list[Signal],
        judged: list[tuple[str, str, float]],
        incidents: list[IncidentRecord],
        released: ControlEffects,
    ) -> Effects:
        """Return the effects of an event that has any; most have none."""
        event, standing = act.event, state.standing
        decision, shadow = self._levels.decide(
            standing,
            event,
            findings,
            watch.rules,
            lambda: watch.near(state.detectors, event.kind),
            context=Context(
                state,
                act,
                failed=lambda name, error: failures.append(Failure(name, error)),
                judged=lambda rule, level, helped: judged.append((rule, level, helped)),
            ),
        )
        held = standing.held
        decision, passed = self._held_to(standing, act, decision, was_killed is None)
        killed = standing.killed
        frozen = standing.held if held is None and killed is None else None
        closed: tuple[Decision, ...] = ()
        if frozen is not None and hold.is_for_progress(frozen):
            closed = self._closed_by_hold(state, event.time)
        stopped = state.ended and kills.has_ended(standing, event.time)
        decision, counted = session_incidents.on_event(
            standing, event, decision, killed_before=was_killed is not None, findings=findings
        )
        incidents += counted
        if state.ended or (killed is not None and was_killed is None):
            why = session_incidents.ENDED if state.ended else session_incidents.KILLED
            answers, resolved = session_incidents.close(standing, state.ref, self.policy, event.time, why)
            closed, incidents = (*closed, *answers), [*incidents, *resolved]
        state.due_ms = self._commands.due_ms(standing)
        if decision is not None and was_killed is None:
            origin = origin_of(act, state.agent_id)
            signals += self._signaller.decided(state.unsaid, origin, decision, killed=killed is not None)
        if declared is not None and was_killed is None:
            decision = declared_batches.decision_on(declared, event, decision, self.policy)
        decisions = [one for one in (*released.decisions, decision, shadow) if one is not None]
        return Effects(
            state,
            signals=signals,
            detections=tuple(self._detection(event, finding, watch, decisions) for finding in findings),
            decision=decisions[0] if decisions else None,
            also=(*decisions[1:], *closed),
            control=control_record(state.ref, killed)
            if killed is not None and (was_killed is None or stopped)
            else released.control
            if frozen is None
            else freeze.record(frozen, state.ref),
            released=passed or released.released,
            failures=tuple(failures),
            followup=TURN_AFTER_STOP if _is_turn(event) and _is_stopped(was_killed, held) else "",
            judged=judged,
            incidents=incidents,
        )

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
        return session_incidents.close(state.standing, state.ref, self.policy, time_ms, "idle")[1]

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

    def _held_to(
        self, standing: SessionControl, act: Observation, decision: Decision | None, lived: bool
    ) -> tuple[Decision | None, bool]:
        """Apply probation and approvals to a decision. Returns the decision, and whether a probation is over."""
        passed = False
        if standing.probation is not None:
            killed = lived and standing.killed is not None
            acts = act.is_attempt and not act.refused
            decision, passed = probation.on_event(
                standing, act.event, decision, self.policy, acts=acts, newly_killed=killed
            )
        return approvals.on_event(standing, act.event, decision, self.policy, lambda: act.effect), passed

    def _released_by_prompt(self, state: SessionState, act: Observation) -> ControlEffects:
        """Judge progress afresh at a new prompt of the user, which ends a hold. Returns the effects."""
        standing = state.standing
        if not state.calls.is_other_task(act.event):
            return NOTHING
        hold.judge_anew(standing)
        if not hold.is_for_progress(standing.held):
            return NOTHING
        answers = approvals.release(standing, state.ref, self.policy, act.time_ms, "a new prompt of the user")
        return replace(freeze.lift(standing, state.ref), decisions=answers)

    def _closed_by_hold(self, state: SessionState, time_ms: int) -> tuple[Decision, ...]:
        """Close the open requests of single calls for lack of progress: the hold's request is the one to answer."""
        tickets = state.standing.approvals.values()
        requests = {t.request_id for t in tickets if t.cause == hold.CAUSE and t.action != WHOLE_SESSION}
        if not requests:
            return ()
        return approvals.close(state.standing, state.ref, self.policy, time_ms, "session_held", requests=requests)

    def _act(self, state: SessionState, event: ActionEvent, at: LogPosition | None, watch: RuleSet) -> Observation:
        """Return the event as detectors see it."""
        calls = state.calls
        phase, call = calls.phase(event)
        act = Observation(event, self._classifier, phase, calls, call, watch.recalled, watch.measured)
        if at is not None:
            act.topic, act.partition, act.offset = at.topic, at.partition, at.offset
        return act

    @staticmethod
    def _declared(standing: SessionControl, act: Observation) -> DeclaredBatch | None:
        """Return the declared batch that covers the action, and record the action in it; None if there is none."""
        if not act.is_attempt or not act.acts or act.refused:
            return None
        targets = [one.target for one in act.acts]
        declared = standing.batch_for(act.action, targets, act.time_ms)
        if declared is not None:
            declared.used += 1
            act.batch = declared.as_batch()
        return declared

    def _after_kill(self, act: Observation, kill: Kill) -> tuple[Finding, ...]:
        begun_ms = act.time_ms if act.is_attempt else act.call.time_ms if act.call is not None else None
        if begun_ms is None or act.refused:
            return ()
        grace_s = self.policy.kill_grace_s
        finding = activity_after_kill(kill, act.event, begun_ms, act.evidence, grace_s=grace_s)
        return () if finding is None else (finding,)

    def _detection(
        self, event: ActionEvent, finding: Finding, watch: RuleSet, decisions: Sequence[Decision]
    ) -> Detection:
        led_to = next((one.decision_id for one in decisions if one.detector == finding.detector), None)
        mode = (watch.rules.get(finding.detector) or Rule()).mode
        own = {"session_id": event.session_id, "mode": mode, "decision_id": led_to}
        return detection(self.policy, finding, event, event.session_id, event.event_id, **own)


def _is_turn(event: ActionEvent) -> bool:
    """Return whether it is a turn of the model that was taken."""
    return event.kind is _MODEL_TURN and event.outcome is not Outcome.REFUSED


def _is_stopped(killed: Kill | None, held: Freeze | None) -> bool:
    return killed is not None or (held is not None and held.state == ControlState.FROZEN)


def _irreversible(act: Observation) -> Sequence[Destruction]:
    """Return the irreversible effects of an attempt that was not refused."""
    acts = act.irreversible
    return tuple(one for one in acts if not one.reversible) if acts and not act.refused else ()


def _settled(standing: SessionControl, actions: int) -> list[tuple[str, str, float]]:
    """Return interventions now known to have helped, as nothing followed them: rule, level, and how far."""
    history = standing.history
    entries = () if history is None else history.settle(actions)
    return [(entry.rule, entry.level, 1.0) for entry in entries if entry.said]


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
