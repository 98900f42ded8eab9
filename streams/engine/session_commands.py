"""The effects of operators, feedback and the clock on a session, besides its own events. Pure."""

from dataclasses import replace

from haltline.detectors.features.observation import CallTracker
from haltline.interventions.control import (
    approvals,
    command_handler,
    declared_batches,
    kills,
    probation,
    session_incidents,
)
from haltline.interventions.control.command_handler import due_ms
from haltline.interventions.control.incidents import ACTS
from haltline.interventions.levels import hold
from haltline.interventions.state.effects import ControlEffects
from haltline.interventions.state.records import control_record, detection
from haltline.interventions.state.texts import told
from haltline.schemas.control import Command, CommandKind, Feedback, Stage
from haltline.schemas.findings import Detection
from haltline.schemas.policy import Policy
from haltline.schemas.signals import SignalKind
from haltline.streams.engine.rule_sets import forget_progress
from haltline.streams.engine.session_state import Effects, SessionState
from haltline.streams.engine.signals import Signaller, origin_of_command


class SessionCommands:
    """The commands, feedback and ticks of sessions under one policy. Every method changes the state in place."""

    def __init__(self, policy: Policy, signaller: Signaller) -> None:
        self._policy = policy
        self._signaller = signaller

    def command(self, state: SessionState, command: Command) -> Effects:
        """Apply an operator's command."""
        if command.kind is CommandKind.KILL:
            return self._kill(state, command)
        if command.kind is CommandKind.RESET:
            return self._reset(state, command)
        if command.kind is CommandKind.BATCH and command.batch is not None:
            declared_batches.declare(state.control, command)
            return Effects(state)
        if command.kind in ACTS:
            return self._outcome(state, session_incidents.on_act(state.control, state.ref, command, self._policy))
        held = hold.is_for_progress(state.control.held)
        rejects = command.kind is CommandKind.REJECT and approvals.freezes(state.control, command)
        effects = self._with_incidents(
            state, command_handler.on_command(state.control, state.ref, command, self._policy)
        )
        if rejects and effects.followup == "approval_rejected":
            return self._killed_by_rejection(state, command, effects)
        if held and state.control.held is None:
            hold.judge_anew(state.control)
            state.calls.judge_anew()
            forget_progress(state.detectors)
        return effects

    def feedback(self, state: SessionState, feedback: Feedback) -> Effects:
        """Apply feedback of the agent's side."""
        control, time_ms = state.control, feedback.time
        stopped = kills.acknowledge(control, feedback)
        killed = control.killed
        if killed is None and feedback.stage is Stage.STOPPED:
            closed, incidents = session_incidents.on_scope_killed(control, state.ref, self._policy, time_ms)
            state.due_ms = due_ms(control)
            return Effects(state, also=tuple(map(told, closed)), incidents=incidents)
        if not stopped or killed is None:
            return Effects(state)
        state.due_ms = due_ms(control)
        record = control_record(state.ref, killed, feedback.decided_at)
        return Effects(state, control=record, incidents=session_incidents.on_stopped(control, state.ref, time_ms))

    def tick(self, state: SessionState, now_ms: int) -> Effects:
        """Do the first thing that is due at `now_ms`, on the worker's clock."""
        return self._with_incidents(state, command_handler.on_tick(state.control, state.ref, self._policy, now_ms))

    def _kill(self, state: SessionState, command: Command) -> Effects:
        control = state.control
        decision = kills.by_operator(control, command, state.agent_id, self._policy)
        killed = control.killed
        if decision is None or killed is None:
            return Effects(state)  # already killed; the control record has the operator and the time
        if state.ended:
            kills.has_ended(control, command.time)
        killed.unheard = state.events == 0
        closed, incidents = session_incidents.close(
            control, state.ref, self._policy, command.time, session_incidents.KILLED, by=command.by
        )
        state.due_ms = due_ms(control)
        record = control_record(state.ref, killed)
        origin = origin_of_command(command, state.agent_id, state.root_session_id)
        signals = tuple(self._signaller.decided(state.unsent, origin, decision, killed=True))
        closed = tuple(map(told, closed))
        return Effects(state, decision=decision, also=closed, control=record, signals=signals, incidents=incidents)

    def _killed_by_rejection(self, state: SessionState, command: Command, rejected: Effects) -> Effects:
        """Return the effects of a rejected release: the session is killed."""
        effects = self._kill(state, command)
        decisions = [one for one in (rejected.decision, *rejected.also) if one is not None]
        effects.also = (*decisions, *effects.also)
        effects.incidents = (*rejected.incidents, *effects.incidents)
        effects.followup = rejected.followup
        return effects

    def _reset(self, state: SessionState, command: Command) -> Effects:
        control, who = state.control, state.ref
        was_killed = control.killed is not None
        reset = probation.reset(control, who, command, self._policy)
        effects = reset.effects
        if reset.control is not None:
            closed, incidents = session_incidents.close(
                control, who, self._policy, command.time, session_incidents.RESET, by=command.by
            )
            effects = replace(effects, decisions=(*effects.decisions, *closed), incidents=tuple(incidents))
            # Reset, except for the offsets and ids already applied.
            state.calls, state.detectors, state.control = CallTracker(), {}, reset.control
            state.author_rules = None
        outcome = self._outcome(state, effects)
        if was_killed and state.control.killed is None:
            origin = origin_of_command(command, state.agent_id, state.root_session_id)
            outcome.signals = tuple(self._signaller.of_kill(origin, SignalKind.RELEASED))
        return outcome

    def _with_incidents(self, state: SessionState, effects: ControlEffects) -> Effects:
        return self._outcome(state, session_incidents.on_effects(state.control, state.ref, effects))

    def _outcome(self, state: SessionState, effects: ControlEffects) -> Effects:
        state.due_ms = due_ms(state.control)
        first, *others = map(told, effects.decisions) if effects.decisions else (None,)
        detections: tuple[Detection, ...] = ()
        if first is not None and (finding := effects.incident) is not None:
            own = {"session_id": state.session_id, "decision_id": first.decision_id}
            detections = (detection(self._policy, finding, first, state.session_id, first.decision_id, **own),)
        return Effects(
            state,
            detections=detections,
            decision=first,
            also=tuple(decision for decision in others if decision is not None),
            control=effects.control,
            released=effects.released,
            followup=effects.followup,
            incidents=effects.incidents,
        )
