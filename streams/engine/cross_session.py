"""The core across sessions: a pure function of policy, the state of one agent, target or tree, and a signal.

Signals are keyed by their subject, so that one worker adds up what many workers see. Signals of different sessions
arrive in any order: event time counts, within the windows of each pattern.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from haltline.detectors import build_across
from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.cross_session.fleet_spike import COUNT
from haltline.detectors.cross_session.spawn_storm import SpawnStorm
from haltline.detectors.framework.base import Pattern
from haltline.interventions.control import incidents, scope_commands
from haltline.interventions.decide.activity_after_kill import finding_after_kill
from haltline.interventions.decide.cross_session import Measures, ScopeControl, ScopeStatus, decide, kill_of
from haltline.interventions.state.effects import NOTHING, ControlEffects
from haltline.interventions.state.open_incident import About
from haltline.interventions.state.records import detection
from haltline.interventions.state.session_control import digest
from haltline.interventions.state.texts import NO_AGENTS
from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.findings import Detection, Evidence, Finding
from haltline.schemas.incidents import IncidentRecord
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.signals import FLEET_ID, Signal, SignalKind, SignalScope
from haltline.streams.engine.effective_rules import EffectiveRules
from haltline.streams.engine.log_position import Failure, LogPosition, is_first, is_new
from haltline.streams.engine.memories import looked_at, opened
from haltline.streams.engine.session_state import Memory
from haltline.streams.engine.signals import Signaller

MAX_SEEN = 128
"""The number of signal ids kept, to detect duplicates."""
MAX_FAMILY = 1024
"""The most sessions of one tree that are kept; the oldest are dropped first."""
TELL_FLEET_EVERY_MS = 5_000
"""The event time for which an agent's signals to the fleet are combined into one."""
_COUNTS_FOR_MS = 60_000

_CACHED_WATCHES = 256
_SCOPES = frozenset(SignalScope)
_TO_FLEET = frozenset({SignalKind.STARTED, SignalKind.STOPPED, SignalKind.DESTRUCTIVE})
_GOES_ON = frozenset({SignalKind.STARTED, SignalKind.DESTRUCTIVE})
_CLOSES = frozenset({"killed", "reset", "lifted"})
"""The commands, by their names in `scopes`, that close the incidents of a scope."""
_KINDS = frozenset(ScopeKind)
_OF_TREE = {SignalKind.KILLED.value: "session_killed", SignalKind.RELEASED.value: "session_reset"}
"""Signals about the first session of a tree that close the tree's incidents."""


@dataclass
class Family:
    """A tree of sessions: parents by child, and killed sessions."""

    parents: dict[str, str] = field(default_factory=dict)
    killed: dict[str, str] = field(default_factory=dict)
    """Reasons by session."""


@dataclass
class Untold:
    """The signals that an agent has not sent to the fleet yet, by kind."""

    counts: dict[str, int] = field(default_factory=dict)
    told_ms: dict[str, int] = field(default_factory=dict)


@dataclass
class ScopeState:
    """The state of one agent, target, tree, mission or the fleet, with the offsets that it includes."""

    scope: str
    id: str
    v: int = field(default=2, kw_only=True)
    offsets: dict[str, int] = field(default_factory=dict)
    seen: bytes = b""
    """Short hashes of the last signal ids, the oldest first."""
    clock_ms: int = 0
    """The latest event time."""
    signals: int = 0
    detectors: dict[str, Memory] = field(default_factory=dict)
    family: Family = field(default_factory=Family)
    untold: Untold = field(default_factory=Untold)
    standing: ScopeStatus = field(default_factory=ScopeStatus)


@dataclass(slots=True)
class ScopeEffects:
    """The effects of one signal."""

    state: ScopeState
    applied: bool = True
    detections: Sequence[Detection] = ()
    decisions: Sequence[Decision] = ()
    controls: Sequence[ControlRecord] = ()
    commands: Sequence[Command] = ()
    """Kills of sessions, sent to the workers that own them."""
    signals: Sequence[Signal] = ()
    failures: Sequence[Failure] = ()
    incidents: Sequence[IncidentRecord] = ()
    """Updated incidents, in order."""
    lifted: bool = False
    """The restriction of the scope has ended by itself."""


@dataclass(frozen=True, slots=True)
class _Watch:
    by_signal: Mapping[tuple[str, str], tuple[CrossSessionPattern[Any], ...]]
    """By scope and kind of signal."""
    rules: Mapping[str, Rule]


class CrossSessionCore:
    """The decisions across sessions under one policy."""

    def __init__(
        self,
        policy: Policy,
        rules: EffectiveRules,
        known: Mapping[str, type[Pattern[Any]]],
        *,
        enforces: bool = False,
        alone: bool = False,
    ) -> None:
        """`enforces`: leave out patterns that are in shadow everywhere. Their signals are still sent.

        `alone`: in the process of one tree of sessions, with the rules on agents that start agents.
        """
        self._policy = policy
        self._rules = rules
        self._known = known
        self._enforces = enforces
        self._watch_of = lru_cache(maxsize=_CACHED_WATCHES)(self._watch)
        self.signaller = Signaller(tuple(_for_any_agent(policy, rules, known)), alone=alone)

    def on_signal(self, state: ScopeState | None, signal: Signal, at: LogPosition | None = None) -> ScopeEffects:
        """Apply the next signal of a scope. Changes `state` in place."""
        if state is None:
            state = ScopeState(signal.scope, signal.id)
        if not is_new(state, at) or not is_first(state, signal.signal_id, MAX_SEEN):
            return ScopeEffects(state, applied=False)
        state.signals += 1
        state.clock_ms = max(state.clock_ms, signal.time)
        outcome = ScopeEffects(state)
        if signal.scope not in _SCOPES:
            return outcome  # from a later release
        scope = SignalScope(signal.scope)
        watch = self._watch_at(scope, signal)
        findings, outcome.failures, over = _observe(watch, state, signal)
        if state.standing.stands is not None and state.standing.stands.code in over:
            state.standing.stands, outcome.lifted = None, True
        measures = [
            (finding, decide(self._policy, state.standing, signal, finding, watch.rules[finding.detector]))
            for finding in findings
        ]
        taken = [measure for _, measure in measures if measure is not None]
        quiet = incidents.close_quiet(state.standing.incidents, _about(state), state.clock_ms, self._policy)
        outcome.decisions, counted = _incidents(state, signal, taken)
        outcome.incidents = [*quiet, *counted]
        outcome.controls = [measure.control for measure in taken if measure.control is not None]
        outcome.commands = [measure.kill for measure in taken if measure.kill is not None]
        outcome.detections = [self._detection(signal, *measure, watch.rules) for measure in measures]
        if scope is SignalScope.ROOT:
            outcome.commands = [*outcome.commands, *_cascade(state.family, signal)]
        elif scope is SignalScope.AGENT:
            outcome.signals = list(_tell_fleet(state.untold, signal))
        goes_on = self._goes_on(state.standing.stands, signal)
        if goes_on is not None:
            finding, kill = goes_on
            outcome.detections = [*outcome.detections, self._detection(signal, finding, None, watch.rules)]
            outcome.commands = [*outcome.commands, kill]
        return outcome

    def on_command(
        self, state: ScopeState | None, command: Command, at: LogPosition | None = None
    ) -> tuple[ScopeState, ControlEffects]:
        """Apply an operator's command to an agent, mission, tool, target or the fleet. Changes `state` in place."""
        if state is None:
            state = ScopeState(command.scope.value, command.id)
        if not is_new(state, at):
            return state, NOTHING
        about, status = _about(state), state.standing
        if command.kind in incidents.ACTS:
            records = incidents.act(status.incidents, about, command)
            name = f"incident_{records[0].change if records else 'void'}"
            return state, ControlEffects(incidents=tuple(records), followup=name)
        effects = scope_commands.on_command(status, command, self._policy)
        if effects.followup in _CLOSES:
            why = f"{command.scope}_{effects.followup}"
            closed = incidents.close(status.incidents, about, why, command.time, by=command.by)
            effects = replace(effects, incidents=tuple(closed))
        if command.kind is CommandKind.RESET and effects.released:
            # Reset, except for the offsets already applied.
            state.detectors, state.standing = {}, ScopeStatus()
        elif effects.released and (storm := looked_at(state.detectors, SpawnStorm.id)) is not None:
            storm.forget()  # else what it has counted would refuse the next agent again
        return state, effects

    @staticmethod
    def on_idle(state: ScopeState, time_ms: int) -> Sequence[IncidentRecord]:
        """Return the incident records of a scope that is about to be dropped."""
        return incidents.close(state.standing.incidents, _about(state), "idle", time_ms)

    @staticmethod
    def retain_when_idle(state: ScopeState) -> bool:
        """Return whether an idle scope is kept: it has a control in force, or a killed session."""
        return state.standing.stands is not None or bool(state.family.killed)

    def _goes_on(self, stands: ScopeControl | None, signal: Signal) -> tuple[Finding, Command] | None:
        """Return a finding and a kill if a session continues although its agent or mission was killed."""
        if stands is None or stands.state != ControlState.KILLED or signal.kind not in _GOES_ON:
            return None
        if signal.session_id in stands.spared:
            return None
        after_s = (signal.time - stands.since_ms) / 1000
        if after_s <= self._policy.kill_grace_s:
            return None
        reason = f"session {signal.session_id} continues {after_s:.0f}s after {signal.scope} {signal.id} was killed"
        finding = finding_after_kill(
            reason, Evidence(event_id=signal.event_id), after_s, grace_s=self._policy.kill_grace_s
        )
        kill = kill_of(
            signal.session_id,
            code=stands.code,
            reason=reason,
            because=f"{signal.id} {stands.since_ms}",
            time_ms=signal.time,
        )
        return finding, kill

    def _detection(
        self, signal: Signal, finding: Finding, measure: Measures | None, rules: Mapping[str, Rule]
    ) -> Detection:
        own = {
            "session_id": finding.session_id or signal.session_id,
            "mode": (rules.get(finding.detector) or Rule()).mode,
            "decision_id": measure.decision.decision_id if measure is not None and measure.decision else None,
            "scope": signal.scope,
            "scope_id": signal.id,
        }
        return detection(self._policy, finding, signal, signal.scope, signal.id, signal.event_id, **own)

    def _watch_at(self, scope: SignalScope, signal: Signal) -> _Watch:
        agent = signal.agent_id if scope is SignalScope.AGENT else ""
        return self._watch_of(self._rules.overrides(agent, "", signal.time))

    def _watch(self, overrides: tuple[int, ...]) -> _Watch:
        rules = self._rules.under(overrides)
        by_signal: dict[tuple[str, str], tuple[CrossSessionPattern[Any], ...]] = {}
        for pattern in build_across(rules, self._known):
            if self._enforces and pattern.id not in self._rules.deciding:
                continue
            for kind in pattern.consumes:
                key = (pattern.scope.value, kind.value)
                by_signal[key] = (*by_signal.get(key, ()), pattern)
        return _Watch(by_signal, rules)


def _for_any_agent(
    policy: Policy, rules: EffectiveRules, known: Mapping[str, type[Pattern[Any]]]
) -> Iterator[CrossSessionPattern[Any]]:
    """Yield the patterns of the policy and of each override: if several apply, the strictest is among these."""
    yield from build_across(rules.under(()), known)
    for number, override in enumerate(policy.overrides):
        if any(name in known and issubclass(known[name], CrossSessionPattern) for name in override.rules):
            yield from build_across(rules.under((number,)), known)


def _about(state: ScopeState) -> About:
    """Return the subject of a state's incidents; a tree is named by its first session."""
    if state.scope in _KINDS:
        return About(ScopeKind(state.scope), state.id)
    return About(ScopeKind.SESSION, state.id, key=f"{state.scope}:{state.id}")


def _incidents(
    state: ScopeState, signal: Signal, taken: Sequence[Measures]
) -> tuple[list[Decision], list[IncidentRecord]]:
    """Return the decisions with their incidents, and the records of those incidents."""
    about, opened = _about(state), state.standing.incidents
    decisions: list[Decision] = []
    records: list[IncidentRecord] = []
    for measure in taken:
        decision = measure.decision
        if decision is None:
            continue
        if incidents.is_incident(decision):
            records += incidents.note(opened, about, decision, decision.detector, agent_id=signal.agent_id)
            decision = decision.model_copy(update={"incident_id": opened[decision.detector].incident_id})
        decisions.append(decision)
    if any(measure.control is not None and measure.control.state is ControlState.KILLED for measure in taken):
        records += incidents.close(opened, about, f"{about.scope}_killed", signal.time)
    if signal.scope == SignalScope.ROOT and signal.session_id == signal.id and signal.kind in _OF_TREE:
        records += incidents.close(opened, about, _OF_TREE[signal.kind], signal.time)
    return decisions, records


def _observe(watch: _Watch, state: ScopeState, signal: Signal) -> tuple[list[Finding], list[Failure], list[str]]:
    """Return what is found, what failed, and the codes of restrictions that are over."""
    findings: list[Finding] = []
    failures: list[Failure] = []
    over: list[str] = []
    for pattern in watch.by_signal.get((signal.scope, signal.kind), ()):
        try:
            memory = opened(state.detectors, pattern.id)
            if memory is None:
                memory = state.detectors[pattern.id] = pattern.start()
            finding = pattern.observe(memory, signal)
        except Exception as error:
            failures.append(Failure(pattern.id, error))
        else:
            if finding is not None:
                findings.append(finding)
            if pattern.is_over(memory):
                over.append(f"{NO_AGENTS}{pattern.id}")
    return findings, failures, over


def _cascade(family: Family, signal: Signal) -> Iterator[Command]:
    """Yield kills of all descendants of a killed session, also of those that start, or become known, later."""
    session = signal.session_id
    if signal.kind == SignalKind.RELEASED:
        family.killed.pop(session, None)
    elif signal.kind == SignalKind.KILLED:
        if session not in family.killed:
            family.killed[session] = signal.reason or ""
            yield from _kill_below(family, session, signal)
    elif signal.kind == SignalKind.STARTED and signal.parent_session_id is not None:
        family.parents[session] = signal.parent_session_id
        above = next((s for s in _ancestors(family, session) if s in family.killed), None)
        if above is not None and session not in family.killed:
            yield _kill_with(family, session, above, signal)
            yield from _kill_below(family, session, signal)
    for known in (family.parents, family.killed):
        while len(known) > MAX_FAMILY:
            del known[next(iter(known))]


def _kill_below(family: Family, above: str, signal: Signal) -> Iterator[Command]:
    waiting = [above]
    while waiting:
        parent = waiting.pop()
        for child in [c for c, its_parent in family.parents.items() if its_parent == parent]:
            if child not in family.killed:
                yield _kill_with(family, child, above, signal)
                waiting.append(child)


def _kill_with(family: Family, session: str, above: str, signal: Signal) -> Command:
    why = family.killed[above]
    family.killed[session] = why
    return kill_of(
        session,
        code="session_killed_with_parent",
        reason=f"descends from {above}, which was killed: {why}",
        because=above,
        time_ms=signal.time,
    )


def _ancestors(family: Family, session: str) -> Iterator[str]:
    seen = {session}
    above = family.parents.get(session)
    while above is not None and above not in seen:
        yield above
        seen.add(above)
        above = family.parents.get(above)


def _tell_fleet(untold: Untold, signal: Signal) -> Iterator[Signal]:
    """Yield the first signal at once, and combine those of the next seconds into the next one within a minute."""
    if signal.kind not in _TO_FLEET:
        return
    kind = signal.kind
    told_ms = untold.told_ms.get(kind)
    if told_ms is not None and signal.time - told_ms > _COUNTS_FOR_MS:
        untold.counts.pop(kind, None)  # of a past minute
    untold.counts[kind] = untold.counts.get(kind, 0) + 1
    if told_ms is not None and 0 <= signal.time - told_ms < TELL_FLEET_EVERY_MS:
        return
    untold.told_ms[kind] = signal.time
    count = untold.counts.pop(kind)
    yield signal.model_copy(
        update={
            "signal_id": digest("fleet", signal.signal_id),
            "scope": SignalScope.FLEET.value,
            "id": FLEET_ID,
            "amounts": {COUNT: float(count)},
        }
    )
