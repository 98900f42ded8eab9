"""Decisions on findings across sessions: pure, on the clock of the signals.

A level means the same as for a session, except for those that stop:

| reach | PAUSE, BLOCK, ROLLBACK | KILL |
| --- | --- | --- |
| session | the session of the last event gets it | that session is killed |
| agent, mission | frozen: nothing of it is executed until an operator releases it | killed, with all its sessions |
| target | frozen: no call that names it is executed until an operator releases it | the same |
| fleet | flagged for an operator; nothing is stopped | the same: two people stop a fleet |

The reach depends on rule and severity, as below. For a tree the first session is stopped, with its descendants. The
rules on agents that start agents have the tree as their target, and freeze it; their BLOCK only refuses calls that
start agents, until an operator or the rule itself lifts it; their KILL is one of the first session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from haltline.interventions.levels.default_levels import OF_TREE, kill_code
from haltline.interventions.levels.strategies import held_back
from haltline.interventions.state.open_incident import OpenIncident
from haltline.interventions.state.records import found, under
from haltline.interventions.state.session_control import Given, RepeatedCommand, digest
from haltline.interventions.state.texts import NO_AGENTS, TREE_FROZEN, hint, told
from haltline.schemas.control import HALTLINE, Command, CommandKind, ControlRecord, ControlState
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.signals import Signal, SignalScope

_REACH: Mapping[str, Mapping[Severity, ScopeKind]] = {
    # First the session that continues, then the one that restarts it.
    "agent_destruction": {Severity.MEDIUM: ScopeKind.SESSION, Severity.HIGH: ScopeKind.SESSION},
    "mission_destruction": {Severity.MEDIUM: ScopeKind.SESSION, Severity.HIGH: ScopeKind.SESSION},
    "respawn": {Severity.HIGH: ScopeKind.SESSION},
}
_MAX_GIVEN = 64
_OF_SCOPE: Mapping[SignalScope, ScopeKind] = {
    SignalScope.AGENT: ScopeKind.AGENT,
    SignalScope.MISSION: ScopeKind.MISSION,
    SignalScope.TARGET: ScopeKind.TARGET,
    SignalScope.ROOT: ScopeKind.SESSION,
    SignalScope.FLEET: ScopeKind.FLEET,
}


@dataclass
class ScopeControl:
    """The restriction of an agent, a mission or a target."""

    state: str
    since_ms: int
    code: str
    reason: str = ""
    by: str = "haltline"
    decision_id: str = ""
    from_depth: int = 0
    """For a tree whose sessions start no more agents: generations below the first from which on."""
    spared: list[str] = field(default_factory=list)
    """Sessions that were released from it."""

    def as_record(self, scope: ScopeKind, scope_id: str, agent_id: str = "unknown") -> ControlRecord:
        """Return the record for the control topic."""
        return ControlRecord(
            scope=scope,
            id=scope_id,
            state=ControlState(self.state),
            code=self.code,
            reason=self.reason,
            decision_id=self.decision_id or digest("stands", scope, scope_id, self.code),
            agent_id=agent_id,
            by=self.by,
            since=self.since_ms,
            from_depth=self.from_depth or None,
            spared=self.spared or None,
        )


@dataclass
class ScopeStatus:
    """The decisions about one agent, mission, target, tree or the fleet. Plain JSON values."""

    stands: ScopeControl | None = None
    asked: RepeatedCommand | None = None
    """A command of one operator that needs a second operator."""
    given: dict[str, Given] = field(default_factory=dict)
    incidents: dict[str, OpenIncident] = field(default_factory=dict)
    """Open incidents by cause; the one that counted longest ago first."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures for a finding."""

    decision: Decision | None
    """None: it was decided before, and is only in force again."""
    control: ControlRecord | None = None
    kill: Command | None = None
    """The kill of one session, through the worker that has it."""


def decide(policy: Policy, status: ScopeStatus, signal: Signal, finding: Finding, rule: Rule) -> Measures | None:
    """Return the measures for a finding; None for a repetition. Stores restrictions in `status`."""
    scope, would = SignalScope(signal.scope), rule.levels[finding.severity]
    kind = _reach(scope, finding, would)
    level = Level.ALLOW if kind is ScopeKind.FLEET else held_back(would, rule.mode)
    went_on = finding.session_id or signal.session_id
    about = f"{finding.code} {went_on}" if kind is ScopeKind.SESSION else finding.code
    if status.stands is not None and not _goes_beyond(status.stands, kind, would, finding):
        return None
    is_news = _is_news(policy, status.given.get(about), would, signal.time)
    if not is_news and not (finding.detector in OF_TREE and level >= Level.PAUSE):
        return None
    status.given[about] = Given(level=would.value, time_ms=signal.time)
    while len(status.given) > _MAX_GIVEN:
        del status.given[next(iter(status.given))]
    # Stop the first session of a tree; otherwise the one that continues.
    session_id = signal.id if scope is SignalScope.ROOT else went_on
    own = kind is ScopeKind.SESSION
    is_hint = Level.ALLOW < level < Level.PAUSE
    says = hint(level, finding.code, finding.detector, finding.target) if is_hint else ""
    decision = Decision(
        decision_id=digest(finding.detector, finding.code, kind, session_id if own else signal.id, signal.event_id),
        session_id=session_id,
        agent_id=signal.agent_id,
        event_id=signal.event_id,
        time=signal.time,
        level=level,
        scope=kind,
        scope_id=session_id if own else signal.id,
        code=_code(kind, level, finding),
        reason=finding.reason,
        message=says,
        flag=would >= Level.PAUSE,
        flag_severity=finding.severity if would >= Level.PAUSE else None,
        detector=finding.detector,
        confidence=finding.confidence,
        mode=rule.mode,
        would=None if would is level else would,
        **found(finding),
        **under(policy),
    )
    if level < Level.PAUSE:
        return Measures(decision)
    decision = told(decision)
    if own:
        return Measures(decision, kill=_kill(decision) if level is Level.KILL else None)
    status.stands = ScopeControl(
        _state(kind, level).value,
        decision.time,
        decision.code,
        decision.reason,
        decision_id=decision.decision_id,
        from_depth=_from_depth(finding),
    )
    control = status.stands.as_record(kind, signal.id or "*", decision.agent_id)
    return Measures(decision if is_news else None, control=control)


def kill_of(session_id: str, *, code: str, reason: str, because: str, time_ms: int) -> Command:
    """Return haltline's own command to kill a session. Its id depends on the cause, so that it counts once."""
    return Command(
        command_id=digest("kill", session_id, because),
        kind=CommandKind.KILL,
        id=session_id,
        by=HALTLINE,
        reason=reason[:4096],
        time=time_ms,
        code=code,
    )


def _kill(decision: Decision) -> Command:
    return kill_of(
        decision.session_id,
        code=decision.code,
        reason=decision.reason,
        because=decision.decision_id,
        time_ms=decision.time,
    )


def _reach(scope: SignalScope, finding: Finding, would: Level) -> ScopeKind:
    if finding.detector in OF_TREE and would is Level.KILL:
        return ScopeKind.SESSION
    return _REACH.get(finding.detector, {}).get(finding.severity, _OF_SCOPE[scope])


def _code(kind: ScopeKind, level: Level, finding: Finding) -> str:
    if level < Level.PAUSE:
        return finding.code
    if kind is ScopeKind.SESSION:
        return kill_code(finding.detector) if level is Level.KILL else finding.code
    if finding.detector in OF_TREE:
        return f"{NO_AGENTS if level is Level.BLOCK else TREE_FROZEN}{finding.detector}"
    state = "killed" if _state(kind, level) is ControlState.KILLED else "frozen"
    return f"{kind.value}_{state}_{finding.detector}"


def _state(kind: ScopeKind, level: Level) -> ControlState:
    killed = level is Level.KILL and kind is not ScopeKind.TARGET
    return ControlState.KILLED if killed else ControlState.FROZEN


def _from_depth(finding: Finding) -> int:
    return int(finding.values.get("from_depth", 0))


def _goes_beyond(stands: ScopeControl, kind: ScopeKind, would: Level, finding: Finding) -> bool:
    """Return whether it exceeds the restriction in force: a session that continues, or a kill of a frozen scope.

    Of a tree: more sessions that start no agents, or a freeze.
    """
    if kind is ScopeKind.SESSION:
        return would >= Level.PAUSE
    if stands.code.startswith(NO_AGENTS):
        return would >= Level.PAUSE and (would is not Level.BLOCK or _from_depth(finding) < stands.from_depth)
    return would is Level.KILL and stands.state != ControlState.KILLED


def _is_news(policy: Policy, last: Given | None, would: Level, time_ms: int) -> bool:
    """Return whether a finding is new: repetitions wait for the cooldown."""
    return last is None or would > Level(last.level) or time_ms - last.time_ms >= policy.cooldown_s * 1000
