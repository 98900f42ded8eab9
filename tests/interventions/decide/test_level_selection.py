from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.control import kills
from haltline.interventions.decide.level_selection import LevelSelection
from haltline.interventions.levels.experiment import arm_of
from haltline.interventions.state.intervention_history import MAX_ENTRIES, MAX_ISSUES
from haltline.interventions.state.session_control import Kill, SessionControl
from haltline.schemas.control import Feedback, Stage
from haltline.schemas.decisions import Arm, Decision, Level, Mode
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Experiment, Policy, Rule
from haltline.streams.engine.core import Core
from tests.builders import T0_MS, cases, some
from tests.interventions.cases import Story, found, proposed

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


@cases(
    "seconds, actions, levels",
    {
        "one that helped for 10 actions": ((0, 31, 62), (1, 10, 1), ["NUDGE", "NUDGE", "NUDGE"]),
        "9 quiet actions are not enough": ((0, 31, 62), (1, 9, 1), ["NUDGE", "NUDGE", "BLOCK"]),
        "within the cooldown": ((0, 10, 20, 31), (1, 1, 1, 1), ["NUDGE", None, None, "NUDGE"]),
    },
)
def test_what_counts_as_a_warning_in_vain(
    seconds: tuple[float, ...], actions: tuple[int, ...], levels: list[str | None]
) -> None:
    session = story(after_warnings=2)
    assert [session.level(s, found(MEDIUM), actions=n) for s, n in zip(seconds, actions, strict=True)] == levels


def test_an_attempt_of_one_type_gives_way_to_the_next_and_that_to_a_stop() -> None:
    expected = ["NUDGE"] * 3 + ["REINFORCE"] * 2 + ["BLOCK", None]
    assert levels(story(), *range(0, 31 * 7, 31)) == expected


def test_an_experiment_holds_back_hints_of_its_rule_alone_and_nothing_else() -> None:
    heard = {}
    for silent in (0, 1):
        experiment = Experiment(rule="error_repetition", silent=silent)
        session = Story(story(after_warnings=2).policy.model_copy(update={"experiment": experiment}))
        told = [some(session.tell(second, found(MEDIUM))) for second in (0, 31, 62)]
        heard[silent] = [(one.level.value, one.would, one.experiment, bool(one.message)) for one in told]
        assert session.level(70, found(MEDIUM, "cycle")) == "NUDGE", "the hint of another rule"
        assert some(session.standing.history).hints == 3, "as many as it would have heard"
    assert heard[0] == [("NUDGE", None, "told", True)] * 2 + [("BLOCK", None, None, True)]
    assert heard[1] == [("ALLOW", "NUDGE", "silent", False)] * 2 + [("BLOCK", None, None, True)]
    arms = [arm_of(Experiment(rule="cycle"), f"s{number}") for number in range(1000)]
    assert (arms[:4], 450 < arms.count(Arm.SILENT) < 550) == (["silent", "told", "silent", "silent"], True)
    with pytest.raises(ValueError, match=r"experiment\.rule: expected one of"):
        Core(Policy.model_validate({"experiment": {"rule": "cycles"}}))


def test_a_session_hears_no_more_hints_than_it_may_and_a_person_hears_of_it() -> None:
    session = story(max_interventions=2, after_warnings=0)
    rules = ("error_repetition", "repetition", "cycle")
    result = [session.tell(n, found(MEDIUM, rule)) for n, rule in enumerate(rules)]
    assert [None if d is None else (d.level.value, d.flag) for d in result] == [("NUDGE", False), ("NUDGE", True), None]
    assert session.level(4, found(CRITICAL, "cycle")) == "BLOCK"


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


GUARD, OTHER = "destructive_repeat", "error_repetition"


def looping(severity: Severity, **fields: Any) -> Finding:
    return found(severity, GUARD, code="loop_detected", **fields)


def said(decision: Decision | None) -> tuple[Level, str] | None:
    return None if decision is None else (decision.level, decision.code)


def awaited(second: float = 0) -> Any:
    return proposed(second, await_verdict=True)


def decide(*findings: Finding, rules: dict[str, Rule], event: Any = None) -> tuple[Decision | None, Decision | None]:
    near = dict.fromkeys(rules, 1.0)
    return LevelSelection(Policy()).decide(SessionControl(), event or proposed(), findings, rules, lambda: near)


def killed() -> tuple[SessionControl, Kill]:
    story = Story()
    story.tell(0, looping(CRITICAL))
    return story.standing, some(story.standing.killed)


def test_what_is_in_shadow_changes_nothing_of_an_enforced_decision() -> None:
    shadowed = {GUARD: Rule(mode=Mode.SHADOW), OTHER: Rule()}
    decision, shadow = decide(looping(CRITICAL), found(LOW, OTHER), rules=shadowed)
    assert said(decision) == (Level.NUDGE, OTHER), "a nudge beats a shadow kill"
    assert shadow is None
    alone, _ = decide(looping(CRITICAL), rules={GUARD: Rule()})
    beside, shadow = decide(looping(CRITICAL), found(CRITICAL, OTHER), rules={GUARD: Rule(), OTHER: shadowed[GUARD]})
    assert (beside, shadow) == (alone, None)


def test_who_waits_for_a_verdict_gets_it_and_what_is_in_shadow_is_reported_beside_it() -> None:
    verdict, shadow = map(some, decide(looping(CRITICAL), rules={GUARD: Rule(mode=Mode.SHADOW)}, event=awaited()))
    assert (verdict.level, verdict.code, verdict.scope_id) == (Level.ALLOW, "allowed", None)
    # A guard takes what names a scope's id for no verdict.
    assert (shadow.level, shadow.would, shadow.scope_id) == (Level.ALLOW, Level.KILL, "s1")


@cases(
    "seconds, severities, result",
    {
        "a nudge is not repeated within the cooldown": ((0, 10), (LOW, LOW), [True, False]),
        "a harder one does not wait": ((0, 10), (LOW, HIGH), [True, True]),
        "a refusal is said each time": ((0, 10), (HIGH, HIGH), [True, True]),
    },
)
def test_cooldown(seconds: tuple[float, ...], severities: tuple[Severity, ...], result: list[bool]) -> None:
    story = Story()
    decisions = [story.tell(at, looping(severity)) for at, severity in zip(seconds, severities, strict=True)]
    assert [decision is not None for decision in decisions] == result


def feedback(stage: Stage, decision_id: str, *, after_ms: int = 40) -> Feedback:
    about = {"feedback_id": "f1", "decision_id": decision_id, "session_id": "s1", "decided_at": T0_MS}
    return Feedback(stage=stage, time=T0_MS + after_ms, **about)


@cases(
    "stage, known, done",
    {
        "stopped, by the kill's own id, is done": (Stage.STOPPED, True, True),
        "received is not done": (Stage.RECEIVED, True, False),
        "an answer to another decision is not": (Stage.STOPPED, False, False),
    },
)
def test_a_kill_is_done_when_its_stop_is_acknowledged_and_not_twice(stage: Stage, known: bool, done: bool) -> None:
    standing, kill = killed()
    decision_id = kill.decision_id if known else "another"
    answers = [feedback(stage, decision_id), feedback(stage, decision_id, after_ms=9000)]
    assert [kills.acknowledge(standing, answer) for answer in answers] == [done, False]
    assert kill.time_to_stop_ms == (40 if done else None)


def test_a_stop_that_comes_before_its_kill_is_not_forgotten() -> None:
    story, (_, twin) = Story(), killed()
    for decision_id in ("x1", "x2", "x3", "x4", twin.decision_id):
        assert not kills.acknowledge(story.standing, feedback(Stage.STOPPED, decision_id))
    assert list(story.standing.stopped_early) == ["x2", "x3", "x4", twin.decision_id]
    story.tell(0, looping(CRITICAL))
    assert (some(story.standing.killed).stopped_at_ms, some(story.standing.killed).time_to_stop_ms) == (T0_MS + 40, 0)
