"""The author's rules of a policy, applied by the core to each session. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol

from haltline.interventions.author_rules.conditions import Condition, Scope, Unknown, compiled
from haltline.interventions.author_rules.evaluation import Asked, Rules, RuleState
from haltline.interventions.author_rules.objection import UNCHECKED, Objection
from haltline.interventions.author_rules.stated import AUTHOR_RULES, Stated, of_objection, of_tripwire
from haltline.interventions.state.context import Deed
from haltline.schemas.author_rules import RUN_STARTED, AuthorRules
from haltline.schemas.decisions import Mode
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.intervening import Governed, Tripwire
from haltline.schemas.policy import Policy
from haltline.schemas.record import canonical_json

_CACHED: Final = 4096


class _Wire(NamedTuple):
    wire: Tripwire
    mode: Mode
    condition: Condition


class _Act(Deed, Protocol):
    """The event as the core observes it."""

    event: ActionEvent
    action: str
    index: int
    """The index of its call."""


class _Session(Protocol):
    agent_id: str
    events: int
    author_rules: RuleState | None


class PolicyRules:
    """The rules of one policy, by session: of all entries that match it, the stricter values."""

    def __init__(self, policy: Policy) -> None:
        """Parse every condition. Raises ValueError: one is invalid; where, what was expected and what was received."""
        self._entries = policy.author_rules or ()
        self._governed = () if policy.interventions is None else policy.interventions.acgp
        self._wires = [list(_wires(one, f"author_rules.{n}", Mode.ENFORCE)) for n, one in enumerate(self._entries)]
        self._acgp = [list(_wires(one, f"interventions.acgp.{n}", one.mode)) for n, one in enumerate(self._governed)]
        self._entries_of = lru_cache(_CACHED)(self._find)
        self._rules_of = lru_cache(_CACHED)(self._combine)

    def __bool__(self) -> bool:
        return bool(self._entries or any(self._acgp))

    @property
    def shadowed(self) -> bool:
        """Return whether some tripwire is in shadow: that of an entry of ACGP which is."""
        return any(wire.mode is Mode.SHADOW for wires in self._acgp for wire in wires)

    def on_event(
        self, session: _Session, act: _Act, failed: Callable[[str, BaseException], object]
    ) -> Sequence[Stated]:
        """Return the objections to a proposed call, and count what was made. Changes the session's counts in place."""
        rules, wires = self._rules_of(*self._entries_of(session.agent_id, act.event.session_id))
        found: list[Stated] = []
        if rules is not None:
            session.author_rules = state = session.author_rules or RuleState()
            found = [of_objection(one, act.evidence) for one in _counted(rules, state, act, failed)]
        if wires and act.is_attempt and act.event.kind is Kind.PROPOSED:
            found += _touched(wires, session, act)
        return found

    def _find(self, agent: str, session: str) -> tuple[tuple[int, ...], int | None]:
        """Return the entries that match a session, and that of ACGP: the first."""

        def matching(entries: Sequence[AuthorRules | Governed]) -> Iterator[int]:
            for number, one in enumerate(entries):
                if fnmatchcase(agent, one.agent) and fnmatchcase(session, one.session):
                    yield number

        return tuple(matching(self._entries)), next(matching(self._governed), None)

    def _combine(self, entries: tuple[int, ...], governed: int | None) -> tuple[Rules | None, Sequence[_Wire]]:
        wires = [wire for number in entries for wire in self._wires[number]]
        wires += [] if governed is None else self._acgp[governed]
        given = [self._entries[number] for number in entries]
        return Rules(*given) if given else None, wires


def _wires(holder: AuthorRules | Governed, place: str, mode: Mode) -> Iterator[_Wire]:
    for number, wire in enumerate(holder.tripwires):
        try:
            yield _Wire(wire, mode, compiled(wire.condition))
        except ValueError as error:
            raise ValueError(f"{place}.tripwires.{number}.condition: {error}") from None


def _counted(
    rules: Rules, state: RuleState, act: _Act, failed: Callable[[str, BaseException], object]
) -> Sequence[Objection]:
    """Apply the rules to a proposed call, or count what ended."""
    event = act.event
    call_id = event.call_id or f"#{act.index}"  # of a producer without ids
    usd = None if event.usage is None else event.usage.cost_usd or None
    if event.kind is Kind.PROPOSED:
        if not act.is_attempt:
            return ()  # it was proposed before
        try:
            same = partial(_same, event)
            return rules.begin(state, Asked(call_id, act.action, event.args or {}, event.time, same))
        except Exception as error:
            failed(AUTHOR_RULES, error)
            return (Objection(UNCHECKED, repr(error), blocks=rules.is_strict),)
    if act.is_result:
        if act.refused:
            rules.release(state, call_id)
        else:
            rules.end(state, call_id, act.action, event.time, ok=event.outcome is Outcome.OK, usd=usd)
    elif usd is not None and not act.refused:
        rules.spend(state, usd)
    elif event.kind is Kind.HEARTBEAT and event.action == RUN_STARTED:
        rules.begin_run(state)
    return ()


def _same(event: ActionEvent, args: Mapping[str, object]) -> bytes:
    """Return bytes that are equal for equal arguments: of whole ones, also where they were cut, their digest."""
    if event.args_digest is not None and args is event.args:
        return event.args_digest.encode()
    return canonical_json(args)


def _touched(wires: Sequence[_Wire], session: _Session, act: _Act) -> Iterator[Stated]:
    scope: Scope | None = None
    for wire, mode, condition in wires:
        if not fnmatchcase(act.action, wire.when.tool):
            continue
        scope = scope or _scope(session, act)
        missing = None
        try:
            if not condition(scope):
                continue
        except Unknown as unknown:
            missing = str(unknown)
        yield of_tripwire(wire, mode, missing, act.evidence)


def _scope(session: _Session, act: _Act) -> Scope:
    event = act.event
    return {
        "action": event.action,
        "args": event.args or {},
        "targets": list(event.targets),
        "effect": act.effect.value,
        "agent_id": session.agent_id,
        "session_id": event.session_id,
        "mission_id": event.mission_id,
        "session": {"actions": act.index, "events": session.events},
    }
