"""Rules in shadow have byte-identical results in one group with all rules and in a group of their own."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.runaways import FAMILIES
from haltline.detectors.cross_session import ACROSS
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Exemption, Operations, Override, Policy, ProbationRules, Rule
from haltline.streams.engine.core import Core
from haltline.streams.engine.groups import Runs
from tests.builders import at, call
from tests.cases import cases
from tests.detectors.strategies import events
from tests.streams.grouped import TOPICS, Input, Log, both

SHADOW = Rule(mode=Mode.SHADOW)
TRIED = ("goal_drift", "step_review", "behavioral_drift", "exploration_wandering", "combination")
IN_SHADOW = dict.fromkeys(TRIED, SHADOW)
LOOP_GUARD = ("destructive_repeat", "destructive_volume")


def exempt(until_s: float, **result: object) -> Override:
    exemption = Exemption(by="ada", reason="tried elsewhere", expires=at(until_s))
    return Override.model_validate({"exemption": exemption, **result})


POLICIES = {
    "five rules in shadow": Policy(rules=IN_SHADOW),
    "what stops most sessions, and all across sessions, in shadow": Policy(
        rules=IN_SHADOW | dict.fromkeys(("repetition", *LOOP_GUARD, *(p.id for p in ACROSS)), SHADOW)
    ),
    "an enforced rule that goes by rules in shadow": Policy(
        rules=IN_SHADOW | {"combination": Rule(mode=Mode.ENFORCE, levels={Severity.HIGH: Level.PAUSE})}
    ),
    "an override that enforces a rule for some sessions": Policy(
        rules=IN_SHADOW, overrides=(Override(session="*1*", rules={"goal_drift": Rule(mode=Mode.ENFORCE)}),)
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
            "interventions": {"acgp": [{"flag_from": "low", "mode": "shadow"}]},
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
    """The beginnings of some of all synthetic sessions, long enough for what they show."""
    return tuple(event for family in FAMILIES[::18] for event in family.case(1).events[:40])


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


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events() | events("s2"), max_size=60), st.sampled_from(list(POLICIES.values())))
def test_so_they_do_on_whatever_comes(story: list[ActionEvent], policy: Policy) -> None:
    one, two = both(policy, list(disturbed(story, every=5)))
    assert difference(one, two) == NONE


@cases(
    "policy, idle",
    {
        "the default policy has no rule in shadow that can find anything": (Policy(), True),
        "a rule that is in shadow by itself": (Policy(rules={"goal_drift": Rule()}), False),
        "one that is off": (Policy(rules={"goal_drift": Rule(enabled=False)}), True),
        "one that was taken out of shadow": (Policy(rules={"goal_drift": Rule(mode=Mode.WARN)}), True),
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
