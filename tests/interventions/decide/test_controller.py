from typing import Any

from haltline.interventions.decide.controller import Controller, SessionControl
from haltline.interventions.state.session_control import Kill
from haltline.schemas.control import Feedback, Stage
from haltline.schemas.decisions import Decision, Level, Mode
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Policy, Rule
from tests.builders import T0_MS, cases, some
from tests.interventions.cases import Story, found, proposed

LOW, HIGH, CRITICAL = Severity.LOW, Severity.HIGH, Severity.CRITICAL
KILLED = (Level.KILL, "session_killed_loop_guard")
GUARD, OTHER = "destructive_repeat", "error_repetition"


def looping(severity: Severity, **fields: Any) -> Finding:
    return found(severity, GUARD, code="loop_detected", **fields)


def said(decision: Decision | None) -> tuple[Level, str] | None:
    return None if decision is None else (decision.level, decision.code)


def awaited(second: float = 0) -> Any:
    return proposed(second, await_verdict=True)


def decide(*findings: Finding, rules: dict[str, Rule], event: Any = None) -> tuple[Decision | None, Decision | None]:
    near = dict.fromkeys(rules, 1.0)
    return Controller(Policy()).decide(SessionControl(), event or proposed(), findings, rules, lambda: near)


def killed() -> tuple[SessionControl, Kill]:
    story = Story()
    story.tell(0, looping(CRITICAL))
    return story.standing, some(story.standing.killed)


def test_the_harder_of_one_batch_wins_in_any_order_with_the_same_id() -> None:
    findings = [found(LOW, OTHER), looping(CRITICAL)]
    one, other = some(Story().tell(0, *findings)), some(Story().tell(0, *reversed(findings)))
    assert said(one) == said(other) == KILLED
    assert one.decision_id == other.decision_id


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
        "it is after the cooldown": ((0, 30), (LOW, LOW), [True, True]),
        "a harder one does not wait": ((0, 10), (LOW, HIGH), [True, True]),
        "a refusal is said each time": ((0, 10), (HIGH, HIGH), [True, True]),
    },
)
def test_cooldown(seconds: tuple[float, ...], severities: tuple[Severity, ...], result: list[bool]) -> None:
    story = Story()
    decisions = [story.tell(at, looping(severity)) for at, severity in zip(seconds, severities, strict=True)]
    assert [decision is not None for decision in decisions] == result


def test_a_hint_held_back_by_the_cooldown_still_answers_who_awaits() -> None:
    story = Story()
    story.tell(0, looping(LOW))
    assert said(story.tell(1, looping(LOW), event=awaited(1))) == (Level.ALLOW, "allowed")


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
    assert [Controller.acknowledge(standing, answer) for answer in answers] == [done, False]
    assert kill.time_to_stop_ms == (40 if done else None)


def test_a_stop_that_comes_before_its_kill_is_not_forgotten() -> None:
    story, (_, twin) = Story(), killed()
    for decision_id in ("x1", "x2", "x3", "x4", twin.decision_id):
        assert not Controller.acknowledge(story.standing, feedback(Stage.STOPPED, decision_id))
    assert list(story.standing.stopped_early) == ["x2", "x3", "x4", twin.decision_id]
    story.tell(0, looping(CRITICAL))
    assert (some(story.standing.killed).stopped_at_ms, some(story.standing.killed).time_to_stop_ms) == (T0_MS + 40, 0)
