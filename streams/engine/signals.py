"""The signals of a session to the rules across sessions, for few of its events. Pure, in the order of the events."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from msgspec import field

from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.cross_session.budgets import SHARED, SharedBudget
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.usage_totals import UNKNOWN_TURNS, spent_of
from haltline.interventions.levels.default_levels import OF_TREE, is_ask
from haltline.interventions.state.session_control import digest
from haltline.schemas import expressions as re
from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.signals import (
    FAILED,
    FLEET_ID,
    LIMIT_SHARE,
    LIMITED,
    MAX_TARGETS,
    Signal,
    SignalKind,
    SignalScope,
    tree_of,
)
from haltline.schemas.stored import Stored
from haltline.schemas.tools import starts_agents, task_of_started

# Constants because they are read at every event: an attribute of the enum class is slower.
_SESSION_ENDED, _MODEL_TURN = Kind.SESSION_ENDED, Kind.MODEL_TURN

UNKNOWN = "unknown"
"""The id of an agent without a known id: nothing is added up across such agents, except destruction by host."""

_PART_OF_LIMIT = 0.01
"""The part of the least shared limit after which a session sends its usage."""
_MAX_ID = 256
_NOT_SHARED = frozenset(
    ("path", "worktree", "stash", "history", "branch", "tag", "package", "device", "crontab", "firewall", "docker",
     "image", "container", "volume", "key", "unknown")
)  # fmt: skip
"""Kinds of target that are local to a machine or a checkout, and so different in each session's sandbox."""
_LIMITED = re.compile(
    r"(?i)rate.?limit|quota|too many requests|\b429\b|(?:usage|session|weekly) limit|limit (?:reached|exceeded)"
    r"|(?:credit|insufficient) balance|insufficient credits"
)
_MAX_SAID_BYTES = 300
"""What an agent says that a limit has ended; a report of its work is longer."""
_WORD = re.compile(r"\w+")
_SAYS_AGAIN = frozenset(("again", "rerun", "restart", "resume", "retry"))


class UnsentSignals(Stored):
    """What a session has not sent yet. Plain JSON values: part of its state."""

    spent: dict[str, float] = field(default_factory=dict)
    mission: str | None = None
    """The last mission that the session named."""
    stopped_minute: int = 0
    """The last minute (event time, minutes since 1970) in which it signalled a stop."""
    starts_agents: bool = False
    """The session has called a tool that starts an agent."""
    limited: bool = False
    """Its last turn was refused by a rate limit or a quota."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of signals: an event or an operator's command, and its session."""

    event_id: str
    time_ms: int
    session_id: str
    agent_id: str = UNKNOWN
    parent_session_id: str | None = None
    root_session_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def signal(self, kind: SignalKind, scope: SignalScope, scope_id: str, **more: object) -> Signal:
        """Return a signal from this origin; `more` are fields of the signal."""
        return Signal.model_validate(
            {
                "signal_id": digest("signal", kind, scope, scope_id, self.session_id, self.event_id),
                "kind": kind.value,
                "scope": scope.value,
                "id": scope_id,
                "session_id": self.session_id,
                "agent_id": self.agent_id,
                "parent_session_id": self.parent_session_id,
                "event_id": self.event_id,
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "time": self.time_ms,
                **more,
            }
        )

    def to_agent_and_fleet(self, kind: SignalKind, **more: object) -> Iterator[Signal]:
        """Yield the same signal to the agent and the fleet.

        The agent forwards its own, so that many are combined into one.
        """
        if self.agent_id != UNKNOWN:
            yield self.signal(kind, SignalScope.AGENT, self.agent_id, **more)
        else:
            yield self.signal(kind, SignalScope.FLEET, FLEET_ID, **more)

    def to_tree(self, kind: SignalKind, **more: object) -> Signal:
        """Return the signal to the rules on agents that start agents; without a parent, the root stands for it."""
        root = self.roots[0]
        above = self.parent_session_id or root
        parent = None if above == self.session_id else above
        return self.signal(kind, SignalScope.TARGET, tree_of(root), parent_session_id=parent, **more)

    @property
    def roots(self) -> tuple[str, ...]:
        """The trees of the session: the one in which it was started, and its own."""
        above = self.root_session_id or self.parent_session_id
        return (self.session_id,) if above in {None, self.session_id} else (str(above), self.session_id)


def origin_of_command(command: Command, agent_id: str, root: str | None) -> Origin:
    """Return the origin of the signals of an operator's command to a session."""
    return Origin(command.command_id, command.time, command.id, agent_id, root_session_id=root)


def origin_of(act: Observation, agent_id: str) -> Origin:
    """Return the origin of the signals of an event."""
    event = act.event
    at = (act.topic, act.partition, act.offset) if act.topic else (None, None, None)
    return Origin(
        event.event_id, event.time, event.session_id, agent_id, event.parent_session_id, event.root_session_id, *at
    )


def stood_in(event: ActionEvent) -> str | None:
    """Return the root session of an event; None if that is its own session."""
    above = event.root_session_id or event.parent_session_id
    return None if above == event.session_id else above


class Signaller:
    """Makes the signals that the policy's patterns across sessions use."""

    def __init__(self, patterns: tuple[CrossSessionPattern[object], ...], *, alone: bool = False) -> None:
        """`patterns` may have one pattern several times, set for several agents: the least limit counts.

        `alone`: only for the rules on agents that start agents, in the process of one tree.
        """
        self._alone = alone
        patterns = tuple(p for p in patterns if p.id in OF_TREE) if alone else patterns
        consumed = {(pattern.scope, kind) for pattern in patterns for kind in pattern.consumes}
        self._started = any(kind is SignalKind.STARTED for _, kind in consumed)
        self._destructive = any(kind is SignalKind.DESTRUCTIVE for _, kind in consumed)
        self._trees = (SignalScope.ROOT, SignalKind.DESTRUCTIVE) in consumed
        self._missions = (SignalScope.MISSION, SignalKind.DESTRUCTIVE) in consumed
        self._targets = (SignalScope.TARGET, SignalKind.DESTRUCTIVE) in consumed
        budgets = [pattern for pattern in patterns if isinstance(pattern, SharedBudget) and pattern.is_limited]
        self._spawns = any(p.id in OF_TREE and (p in budgets or not isinstance(p, SharedBudget)) for p in patterns)
        self._budgets = tuple(dict.fromkeys(budget.scope for budget in budgets if budget.limits))
        self._portions: Mapping[str, float] = {
            name: _PART_OF_LIMIT * min(b.limits[name] for b in budgets if name in b.limits)
            for name in SHARED
            if any(name in b.limits for b in budgets)
        }

    def of_event(
        self, unsent: UnsentSignals, act: Observation, *, agent_id: str, first: bool, near: Callable[[], float]
    ) -> list[Signal]:
        """Return the signals of an event by itself. Changes `unsent` in place.

        `near`: the used part of the session's declared limits, if it is needed.
        """
        signals: list[Signal] = []
        if first:
            signals += self._begun(act, agent_id)
        if self._spawns:
            signals += self._of_spawns(unsent, act, agent_id, near)
        if self._destructive and act.is_attempt and not act.refused and act.losses and act.batch is None:
            signals += self._destroys(act, agent_id)
        if self._budgets:
            signals += self._spent(unsent, act, agent_id)
        return signals

    @staticmethod
    def decided(unsent: UnsentSignals, origin: Origin, decision: Decision, *, killed: bool) -> Iterator[Signal]:
        """Yield the signals of a decision on a session: of a stop once a minute, and of a kill.

        Changes `unsent` in place.
        """
        minute = origin.time_ms // 60_000
        stopped = decision.level >= Level.PAUSE and not is_ask(decision.detector, decision.level)
        if stopped and minute != unsent.stopped_minute:
            unsent.stopped_minute = minute
            yield from origin.to_agent_and_fleet(SignalKind.STOPPED, code=decision.code)
        if killed:
            yield from Signaller.of_kill(origin, SignalKind.KILLED, code=decision.code, reason=decision.reason)

    @staticmethod
    def of_kill(origin: Origin, kind: SignalKind, **more: object) -> Iterator[Signal]:
        """Yield the signals of a kill or a release of a session: to its agent, and to the sessions that it started."""
        if origin.agent_id != UNKNOWN:
            yield origin.signal(kind, SignalScope.AGENT, origin.agent_id, **more)
        for root in origin.roots:
            yield origin.signal(kind, SignalScope.ROOT, root, **more)

    def _begun(self, act: Observation, agent_id: str) -> Iterator[Signal]:
        origin = origin_of(act, agent_id)
        if self._started:
            yield from origin.to_agent_and_fleet(SignalKind.STARTED)
        if len(origin.roots) > 1:
            if not self._alone:
                yield origin.signal(SignalKind.STARTED, SignalScope.ROOT, origin.roots[0])
            if self._spawns:
                yield origin.to_tree(SignalKind.STARTED)

    @staticmethod
    def _of_spawns(
        unsent: UnsentSignals, act: Observation, agent_id: str, near: Callable[[], float]
    ) -> Iterator[Signal]:
        """Yield what the rules on agents that start agents use."""
        event = act.event
        if act.is_attempt or act.is_result:
            if not starts_agents(act.action):
                return
            call = (event.call_id or event.event_id)[:_MAX_ID]
            if act.is_attempt and not act.refused and (task := task_of_started(act.action, event.args)):
                unsent.starts_agents = True
                amounts = {LIMIT_SHARE: near()}
                origin = origin_of(act, agent_id)
                yield origin.to_tree(SignalKind.SPAWNED, target=_words_of(task), code=call, amounts=amounts)
            if act.is_result and unsent.starts_agents:
                how = {FAILED: 1.0} if act.failed else {}
                how |= {LIMITED: 1.0} if _is_limited(act) else {}
                yield origin_of(act, agent_id).to_tree(SignalKind.RETURNED, code=call, amounts=how)
        elif act.kind is _MODEL_TURN:
            unsent.limited = act.failed and _is_limited(act)
        elif act.kind is _SESSION_ENDED and stood_in(event) is not None:
            limited = unsent.limited or _is_limited(act)
            yield origin_of(act, agent_id).to_tree(SignalKind.ENDED, amounts={LIMITED: float(limited)})
        elif unsent.starts_agents and stood_in(event) is None and act.calls.is_other_task(event):
            yield origin_of(act, agent_id).to_tree(SignalKind.PROMPTED)

    def _destroys(self, act: Observation, agent_id: str) -> Iterator[Signal]:
        if self._trees:  # sessions of one tree usually share a machine
            yield from self._of_tree(act, agent_id)
        shared = [d.target for d in act.losses if d.target.partition("=")[0] not in _NOT_SHARED][:MAX_TARGETS]
        if not shared:
            return
        event = act.event
        if agent_id == UNKNOWN and event.host is not None:
            agent_id = f"{UNKNOWN}@{event.host}"[:_MAX_ID]
        origin = origin_of(act, agent_id)
        targets = [_short(target) for target in dict.fromkeys(shared)]
        more = {"action": act.action[:512], "target": targets[0], "targets": targets}
        if self._missions and event.mission_id is not None:
            yield origin.signal(SignalKind.DESTRUCTIVE, SignalScope.MISSION, event.mission_id, **more)
        yield from origin.to_agent_and_fleet(SignalKind.DESTRUCTIVE, **more)
        for target in targets if self._targets else ():
            yield origin.signal(
                SignalKind.DESTRUCTIVE, SignalScope.TARGET, target, action=act.action[:512], target=target
            )

    @staticmethod
    def _of_tree(act: Observation, agent_id: str) -> Iterator[Signal]:
        targets = [_short(loss.target) for loss in act.losses if loss.target != UNKNOWN][:MAX_TARGETS]
        if targets:
            origin = origin_of(act, agent_id)
            more = {"action": act.action[:512], "target": targets[0], "targets": targets}
            yield origin.signal(SignalKind.DESTRUCTIVE, SignalScope.ROOT, origin.roots[0], **more)

    def _spent(self, unsent: UnsentSignals, act: Observation, agent_id: str) -> Iterator[Signal]:
        spent = unsent.spent
        unsent.mission = act.event.mission_id or unsent.mission
        if act.is_attempt and not act.refused:
            spent["calls"] = spent.get("calls", 0.0) + 1
        if act.usage is not None:
            for name, amount in spent_of(act.usage):
                spent[name] = spent.get(name, 0.0) + amount
        if act.event.is_usage_unknown:
            spent[UNKNOWN_TURNS] = spent.get(UNKNOWN_TURNS, 0.0) + 1
        ended = act.event.kind is _SESSION_ENDED and bool(spent)
        if not ended and not any(spent.get(name, 0.0) >= portion for name, portion in self._portions.items()):
            return
        unsent.spent = {}
        origin = origin_of(act, agent_id)
        for scope in self._budgets:
            if scope is SignalScope.TARGET:
                yield origin.to_tree(SignalKind.SPENT, amounts=spent)
                continue
            scope_id = unsent.mission if scope is SignalScope.MISSION else agent_id
            if scope_id is not None and scope_id != UNKNOWN:
                yield origin.signal(SignalKind.SPENT, scope, scope_id, amounts=spent)


def _is_limited(act: Observation) -> bool:
    """Return whether a rate limit or a quota has ended what this event reports."""
    event = act.event
    said = event.error or event.output_head or ""
    if not act.failed and not event.error and (event.output_bytes or len(said)) > _MAX_SAID_BYTES:
        return False
    return _LIMITED.search(said[:_MAX_SAID_BYTES]) is not None


def _words_of(task: str) -> str:
    """Return a digest of the words of a task, in any order."""
    return digest(*sorted(set(_WORD.findall(task.lower())) - _SAYS_AGAIN))


def _short(target: str) -> str:
    """Return the target as an id: a long one is cut, and made unique by a digest of the whole."""
    return target if len(target) <= _MAX_ID else f"{target[: _MAX_ID - 33]}~{digest(target)}"
