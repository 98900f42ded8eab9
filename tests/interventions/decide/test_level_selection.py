from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.decide.controller import SessionControl
from haltline.interventions.state.intervention_history import MAX_ENTRIES, MAX_ISSUES
from haltline.schemas.decisions import Mode
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Policy, Rule
from tests.builders import some
from tests.interventions.cases import Story, found

LOW, MEDIUM, HIGH, CRITICAL = Severity


def story(cooldown_s: float = 30.0, **interventions: Any) -> Story:
    return Story(Policy.model_validate({"cooldown_s": cooldown_s, "interventions": interventions}))


def levels(session: Story, *seconds: float, **fields: Any) -> list[str | None]:
    return [session.level(second, found(MEDIUM, **fields)) for second in seconds]


def test_scored_three_times_the_same_issue() -> None:
    # 0.30; 0.30 + 0.3 as the first did not help; 0.30 + 0.6, and it is the third of its kind.
    assert levels(story(strategy="scored"), 0, 31, 62, confidence=0.6) == ["REINFORCE", "THROTTLE", "KILL"]
    old = levels(story(strategy="scored"), 0, 301, confidence=0.6)
    assert old == ["REINFORCE", "REINFORCE"], "what is older than the recent history does not escalate"
    cool = levels(story(strategy="scored", escalate_after=0), 0, 5, 10, 31, confidence=0.6)
    assert cool == ["REINFORCE", None, None, "THROTTLE"], "what comes within the cooldown says nothing of the first"


def test_progressive_goes_up_while_nothing_helps_and_down_when_something_did_after_the_delay() -> None:
    session = story(strategy="progressive", after_warnings=0, history_s=3600)
    assert levels(session, 0, 31, 62) == ["NUDGE", "REINFORCE", "THROTTLE"]
    # Ten quiet actions: the throttling helped, but of all three only a third did.
    assert session.level(200, found(MEDIUM), actions=10) == "ROLLBACK"
    session = story(strategy="progressive", history_s=10_000)
    assert levels(session, 0, 31)[1] == "REINFORCE", "as the nudge did not help"
    assert session.level(4000, found(MEDIUM), actions=10) == "THROTTLE"  # one of two helped: 0.5
    assert session.level(8000, found(MEDIUM), actions=10) == "REINFORCE"  # two of three


def test_a_strategy_for_the_rule_itself_may_soften_what_is_critical_and_one_for_all_may_not() -> None:
    of_all, of_the_rule = story(strategy="progressive"), story(strategies={"destructive_repeat": "progressive"})
    critical = found(CRITICAL, "destructive_repeat")
    assert [session.level(0, critical) for session in (of_all, of_the_rule)] == ["KILL", "NUDGE"]


@pytest.mark.parametrize(
    ("seconds", "actions", "levels"),
    [
        pytest.param((0, 31, 62), (1, 10, 1), ["NUDGE", "NUDGE", "NUDGE"], id="one that helped for 10 actions"),
        pytest.param((0, 31, 62), (1, 9, 1), ["NUDGE", "NUDGE", "PAUSE"], id="9 quiet actions are not enough"),
        pytest.param((0, 10, 20, 31), (1, 1, 1, 1), ["NUDGE", None, None, "NUDGE"], id="within the cooldown"),
    ],
)
def test_what_counts_as_a_warning_in_vain(
    seconds: tuple[float, ...], actions: tuple[int, ...], levels: list[str | None]
) -> None:
    session = story(after_warnings=2)
    assert [session.level(s, found(MEDIUM), actions=n) for s, n in zip(seconds, actions, strict=True)] == levels


def test_warnings_of_another_rule_do_not_count() -> None:
    session = story(after_warnings=2)
    rules = ("error_repetition", "repetition", "cycle", "polling")
    assert [session.level(31 * n, found(MEDIUM, rule)) for n, rule in enumerate(rules)] == ["NUDGE"] * 4


def test_an_attempt_of_one_type_gives_way_to_the_next_and_that_to_a_stop() -> None:
    expected = ["NUDGE"] * 3 + ["REINFORCE"] * 2 + ["PAUSE"] * 2
    assert levels(story(), *range(0, 31 * 7, 31)) == expected


def test_a_session_hears_no_more_hints_than_it_may_and_a_person_hears_of_it() -> None:
    session = story(max_interventions=2, after_warnings=0)
    rules = ("error_repetition", "repetition", "cycle")
    result = [session.tell(n, found(MEDIUM, rule)) for n, rule in enumerate(rules)]
    assert [None if d is None else (d.level.value, d.flag) for d in result] == [("NUDGE", False), ("NUDGE", True), None]
    assert session.level(4, found(CRITICAL, "cycle")) == "PAUSE"


def test_what_the_agent_did_not_hear_uses_up_none_of_its_hints_and_is_no_part_of_a_report() -> None:
    session = story(max_interventions=2, after_warnings=0)
    for number in range(5):
        session.tell(31 * number, found(MEDIUM, "goal_drift"), rule=Rule(mode=Mode.SHADOW))
    assert session.level(200, found(MEDIUM, "cycle")) == "NUDGE"
    assert session.level(201, found(MEDIUM, "polling")) == "NUDGE"
    assert session.level(202, found(MEDIUM, "repetition")) is None
    killed = some(session.tell(203, found(CRITICAL, "destructive_repeat")))
    assert some(killed.incident).snapshot["interventions"] == 2
    assert [moment.what[:9] for moment in some(killed.incident).timeline[1:]] == ["NUDGE for", "NUDGE for", "KILL at e"]


def test_a_shadow_rule_escalates_as_an_enforced_one_would_and_one_that_warns_does_not_so_more_often() -> None:
    def said(after_warnings: int, mode: Mode, finding: Finding, *seconds: float) -> list[Any]:
        session = story(after_warnings=after_warnings)
        result = [session.tell(second, finding, rule=Rule(mode=mode)) for second in seconds]
        return [d and (d.level.value, d.would and d.would.value) for d in result]

    shadow = said(2, Mode.SHADOW, found(MEDIUM), 0, 31, 62)
    assert shadow == [("ALLOW", "NUDGE"), ("ALLOW", "NUDGE"), ("ALLOW", "PAUSE")]
    warned = ("NUDGE", "PAUSE")
    assert said(0, Mode.WARN, found(CRITICAL, "cycle"), 0, 1, 29, 30) == [warned, None, None, warned]


FINDINGS = st.builds(
    found,
    st.sampled_from(Severity),
    st.sampled_from(["error_repetition", "repetition", "scope_creep", "resource_growth", "budget"]),
    st.sampled_from([0.3, 0.6, 1.0]),
)
STRATEGIES = st.sampled_from(["by_rule", "scored", "progressive", "pattern_specific"])


@given(
    STRATEGIES,
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 12), st.lists(FINDINGS, max_size=3)), max_size=40),
)
def test_any_session_is_bounded_and_survives_a_restart(strategy: str, steps: list[tuple[int, int, list[Any]]]) -> None:
    whole, restarted = story(strategy=strategy), story(strategy=strategy)
    second = 0
    for wait, actions, findings in steps:
        second += wait
        once = {f.detector: f for f in findings}.values()
        first = whole.tell(second, *once, actions=actions)
        assert first == restarted.tell(second, *once, actions=actions)
        restarted.standing = msgspec.json.decode(msgspec.json.encode(restarted.standing), type=SessionControl)
    assert restarted.standing == whole.standing
    history = whole.standing.history
    if history is not None:
        assert len(history.entries) <= MAX_ENTRIES
        assert all(len(times) <= MAX_ISSUES for times in history.issues.values())


@given(STRATEGIES, st.lists(FINDINGS, min_size=2, max_size=4, unique_by=lambda f: f.detector))
def test_a_harder_decision_beats_every_softer_one_of_the_same_batch(strategy: str, findings: list[Any]) -> None:
    alone = [story(strategy=strategy).tell(0, finding) for finding in findings]
    together = some(story(strategy=strategy).tell(0, *findings))
    assert together.level == max(d.level for d in alone if d is not None)
