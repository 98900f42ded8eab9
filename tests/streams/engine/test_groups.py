"""Rules in shadow have byte-identical results in one group with all rules and in a group of their own."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import pytest

from benchmarks.runaways import FAMILIES
from haltline.detectors.cross_session import ACROSS
from haltline.schemas.control import Command, CommandKind, ControlRecord, ControlState
from haltline.schemas.decisions import Level, Mode, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Usage
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Exemption, Operations, Override, Policy, ProbationRules, Rule
from haltline.schemas.signals import Signal, SignalKind
from haltline.streams.engine.core import Core, Effects
from haltline.streams.engine.cross_session import ScopeEffects
from haltline.streams.engine.groups import Runs
from haltline.streams.engine.local_fleet import Fleet, Followed, decisions_of
from haltline.streams.sessions import state_codec
from tests.builders import at, call, cases
from tests.streams.grouped import TOPICS, Input, Log

SHADOW = Rule(mode=Mode.SHADOW)
TRIED = ("goal_drift", "step_review", "combination")
IN_SHADOW = dict.fromkeys(TRIED, SHADOW)
LOOP_GUARD = ("destructive_repeat", "destructive_volume")


def exempt(until_s: float, **result: object) -> Override:
    exemption = Exemption(by="ada", reason="tried elsewhere", expires=at(until_s))
    return Override.model_validate({"exemption": exemption, **result})


ALWAYS = {"id": "b", "condition": "session.actions > 3"}
POLICIES = {
    "what stops most sessions, and all across sessions, in shadow": Policy(
        rules=IN_SHADOW | dict.fromkeys(("repetition", *LOOP_GUARD, *(p.id for p in ACROSS)), SHADOW)
    ),
    "an enforced rule that goes by rules in shadow": Policy(
        rules=IN_SHADOW | {"combination": Rule(mode=Mode.ENFORCE, levels={Severity.HIGH: Level.PAUSE})}
    ),
    "an exemption that ends in the middle": Policy(
        overrides=(exempt(40, rules=dict.fromkeys((*LOOP_GUARD, "error_repetition"), SHADOW)),)
    ),
    "a probation that enforces a rule in shadow": Policy(
        rules=IN_SHADOW | {"repetition": SHADOW},
        operations=Operations(probation=ProbationRules(actions=6, rules={"repetition": Rule(mode=Mode.ENFORCE)})),
    ),
    "sessions evaluated in shadow by ACGP": Policy.model_validate(
        {
            "rules": {"error_repetition": {"mode": "shadow"}},
            "author_rules": [{"loop_rules": [{}], "tripwires": [{"id": "a", "condition": "effect == 'destructive'"}]}],
            "interventions": {"acgp": [{"flag_from": "low", "mode": "shadow", "tripwires": [ALWAYS]}]},
        }
    ),
}


def disturbed(story: Sequence[ActionEvent], *, every: int = 7) -> Iterable[Input]:
    """The story, with verdicts that are awaited, and operators who kill and release again."""
    for number, one in enumerate(story):
        awaits = one.kind is Kind.PROPOSED and number % 2 == 0
        yield one.model_copy(update={"await_verdict": True}) if awaits else one
        if number % every == every - 1:
            kind = CommandKind.KILL if number % (2 * every) == every - 1 else CommandKind.RESET
            yield Command(
                command_id=f"k{number}", kind=kind, id=one.session_id, by="ada", reason="as agreed", time=one.time
            )


@cache
def synthetic() -> tuple[ActionEvent, ...]:
    """The beginnings of some of all synthetic sessions, helpers without end among them, long enough to show it."""
    return tuple(event for family in FAMILIES[::17] for event in family.case(1).events[:40])


def difference(one: Log, two: Log) -> dict[str, list[str]]:
    was, now = one.written(), two.written()
    return {"missing": sorted((was - now).elements())[:3], "more": sorted((now - was).elements())[:3]}


NONE: dict[str, list[str]] = {"missing": [], "more": []}


@cases("policy", POLICIES)
def test_two_groups_write_together_what_one_writes_though_they_start_again_from_their_changelogs(
    policy: Policy,
) -> None:
    story = list(disturbed(synthetic()))
    one, two = Log(policy, Runs.ALL).run(story), Log(policy, Runs.ENFORCED, Runs.SHADOW).run(story, restart_every=9)
    assert difference(one, two) == NONE
    assert one.of(TOPICS.detections)
    assert {d["mode"] for d in two.of(TOPICS.detections, 1)} <= {"shadow"}
    assert {topic for topic, _, _ in two.groups[1].written} <= {TOPICS.detections, TOPICS.interventions}
    assert "shadow" not in {d["mode"] for d in two.of(TOPICS.detections)}


@cases(
    "policy, idle",
    {
        "the default policy has no rule in shadow that can find anything": (Policy(), True),
        "a rule that is in shadow by itself": (Policy(rules={"goal_drift": Rule()}), False),
        "an exemption into shadow": (Policy(overrides=(exempt(9, rules={"cycle": SHADOW}),)), False),
        "an override that is not heard": (Policy(overrides=(Override(rules={"cycle": SHADOW}),)), True),
        "a rule across sessions": (Policy(rules={"respawn": SHADOW}), False),
        "one that runs on probation": (
            Policy(operations=Operations(probation=ProbationRules(rules={"goal_drift": Rule(enabled=True)}))),
            False,
        ),
    },
)
def test_a_group_for_rules_in_shadow_rests_while_there_is_none(policy: Policy, idle: bool) -> None:
    assert Core(policy, runs=Runs.SHADOW).idle is idle
    assert not Core(policy, runs=Runs.ENFORCED).idle
    group = Log(policy, Runs.ENFORCED, Runs.SHADOW).run(synthetic()[:50]).groups[1]
    assert (not group.values) is idle


def deletes(session: str, *seconds: float) -> list[ActionEvent]:
    return list(chain.from_iterable(call(s, "delete_asset", f"asset_id={session}", session=session) for s in seconds))


def test_what_was_begun_is_continued_and_nothing_else_is_while_no_rule_is_in_shadow() -> None:
    tried, plain = Policy(rules=dict.fromkeys(LOOP_GUARD, SHADOW), version=1), Policy(version=2)
    story = [*deletes("a", 0, 6), *deletes("b", 10), *deletes("a", 20), *deletes("b", 30)]
    log = Log(tried, Runs.ENFORCED, Runs.SHADOW).run(story, change={4: plain})
    assert set(log.groups[1].values) >= {b"a"}
    assert b"b" not in log.groups[1].values
    assert b"b" in log.groups[0].values


TABLE = "asset_id=fact_sales"


def event(seconds: float, session: str, kind: Kind = Kind.PROPOSED, **fields: Any) -> ActionEvent:
    result = {"event_id": f"{session}@{seconds:g}", "kind": kind, "session_id": session, "agent_id": "cleaner"}
    return ActionEvent.model_validate(result | {"time": at(seconds)} | fields)


def delete(seconds: float, session: str, target: str = TABLE, **fields: Any) -> ActionEvent:
    return event(seconds, session, call_id=f"c{seconds:g}", action="delete_asset", targets=[target], **fields)


def begins(seconds: float, session: str, parent: str | None = None, root: str | None = None) -> ActionEvent:
    return event(seconds, session, Kind.SESSION_STARTED, parent_session_id=parent, root_session_id=root)


class Restarted(Fleet):
    """A fleet whose worker is started anew after every step."""

    def event(self, event: ActionEvent, *_: Any) -> list[Followed]:
        followed = super().event(event)
        self._restart()
        return followed

    def command(self, command: Command) -> list[Followed]:
        followed = super().command(command)
        self._restart()
        return followed

    def _restart(self) -> None:
        self.sessions = {name: state_codec.decode(state_codec.encode(s)) for name, s in self.sessions.items()}
        self.scopes = {name: state_codec.decode_scope(state_codec.encode(s)) for name, s in self.scopes.items()}

    @property
    def killed(self) -> list[str]:
        return sorted(name for name, state in self.sessions.items() if state.control.killed is not None)


def fleet(**rules: Rule) -> Restarted:
    return Restarted(Core(Policy(rules=rules)))


def decided(followed: list[Followed]) -> list[str]:
    told = (d for one in followed for d in decisions_of(one) if d.level is not Level.ALLOW or d.flag)
    return [f"{d.level.value} {d.scope.value} {d.scope_id or d.session_id}: {d.code}" for d in told]


def controls(followed: list[Followed]) -> list[ControlRecord]:
    return [c for one in followed if isinstance(one, ScopeEffects) for c in one.controls]


def operator(kind: CommandKind, scope: ScopeKind, scope_id: str, seconds: float = 0) -> Command:
    return Command(
        command_id=f"k{seconds:g}", kind=kind, scope=scope, id=scope_id, by="ada", reason="agreed", time=at(seconds)
    )


def test_a_killed_agent_that_goes_on_and_what_a_killed_session_started_are_killed() -> None:
    going_on = fleet()
    going_on.command(operator(CommandKind.KILL, ScopeKind.AGENT, "cleaner"))
    assert decided(going_on.event(begins(5, "within the grace time"))) == []
    followed = going_on.event(begins(60, "new"))
    found = [d.finding.code for one in followed for d in one.detections]
    assert (found, going_on.killed) == (["activity_after_kill"], ["new"])
    going_on.command(operator(CommandKind.RESET, ScopeKind.AGENT, "cleaner", 70))
    assert decided(going_on.event(begins(100, "newer"))) == []
    assert going_on.killed == ["new"]
    family = fleet()
    for number, (session, parent) in enumerate([("root", None), ("a", "root"), ("b", "a"), ("c", "root")]):
        family.event(begins(number, session, parent, "root"))
    family.command(operator(CommandKind.KILL, ScopeKind.SESSION, "a", 10))
    assert family.killed == ["a", "b"]
    family.event(begins(20, "d", "b", "root"))
    family.event(begins(21, "e", "c", "root"))
    assert family.killed == ["a", "b", "d"]
    standing = family.sessions["d"].control.killed
    assert standing is not None
    assert (standing.code, standing.by) == ("session_killed_with_parent", "haltline")
    assert standing.reason == "descends from b, which was killed: killed by ada: agreed"
    family.command(operator(CommandKind.RESET, ScopeKind.SESSION, "a", 40))
    family.event(begins(50, "new", "a", "root"))
    assert family.killed == ["b", "d"], "who was released may start others again, and its descendants stay killed"


def spends(seconds: float, session: str, cost_usd: float, **fields: Any) -> ActionEvent:
    return event(seconds, session, Kind.MODEL_TURN, usage=Usage(cost_usd=cost_usd), **fields)


def test_a_budget_is_shared_reported_in_sums_and_holds_for_the_agents_that_an_override_names() -> None:
    shared = fleet(agent_budget=Rule(settings={"limits": {"cost_usd": 10.0}}))
    assert decided(shared.event(spends(0, "a", 5))) == []
    assert decided(shared.event(spends(1, "b", 4))) == ["NUDGE agent cleaner: budget_warning"]
    last = shared.event(spends(2, "c", 2))
    assert decided(last) == ["BLOCK agent cleaner: agent_frozen_agent_budget"]
    assert [(c.key, c.state) for c in controls(last)] == [("agent:cleaner", ControlState.FROZEN)]
    assert decided(shared.event(spends(3, "c", 5))) == []  # it stands
    shared = fleet(mission_budget=Rule(settings={"limits": {"cost_usd": 10.0}}))
    followed = [one for n in range(50) for one in shared.event(spends(n, "a", 0.03, mission_id="m"))]
    signals = [signal for one in followed if isinstance(one, Effects) for signal in one.signals]
    reported = [signal for signal in signals if signal.kind == SignalKind.SPENT]
    assert [(s.scope, s.id) for s in reported] == [("mission", "m")] * 12
    assert sum(signal.amount("cost_usd") for signal in reported) == pytest.approx(12 * 0.12)
    limits = Rule(settings={"limits": {"cost_usd": 10.0}})
    named = Restarted(Core(Policy(overrides=[Override(agent="clean*", rules={"agent_budget": limits})])))
    assert decided(named.event(spends(0, "a", 5))) == []
    assert decided(named.event(spends(1, "b", 6))) == ["BLOCK agent cleaner: agent_frozen_agent_budget"]
    others = [named.event(spends(n, f"{n}", 6, agent_id="writer")) for n in (2, 3)]
    assert [decided(one) for one in others] == [[], []]


def test_a_signal_that_comes_twice_counts_once_and_one_that_is_not_known_is_passed_over() -> None:
    core = Core(Policy(rules={"agent_budget": Rule(settings={"limits": {"calls": 100.0}})}))
    about = {"signal_id": "g", "kind": "spent", "scope": "agent", "id": "a", "session_id": "s", "event_id": "e"}
    signal = Signal.model_validate(about | {"time": at(0), "amounts": {"calls": 9.0}})
    state = core.on_signal(None, signal).state
    assert core.on_signal(state, signal).applied is False
    assert state.detectors["agent_budget"].used == {"calls": 9.0}
    for unknown in ({"kind": "sneezed"}, {"scope": "galaxy"}):
        later = core.on_signal(None, signal.model_copy(update=unknown))
        assert (later.applied, [*later.detections, *later.failures]) == (True, [])
