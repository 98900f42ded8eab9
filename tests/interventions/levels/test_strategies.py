from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.levels.strategies import (
    IMPACT,
    Case,
    PatternSpecific,
    Progressive,
    by_severity,
    combined_score,
    level_of,
    next_step,
)
from haltline.schemas.decisions import Level
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from tests.builders import cases
from tests.interventions.cases import found

_, MEDIUM, HIGH, CRITICAL = Severity


@cases(
    "severity, confidence, escalation, score, level",
    {
        "3 errors: 0.30, context reinforcement": (MEDIUM, 0.6, 0, 0.30, Level.REINFORCE),
        "4 errors: 0.64, throttling": (HIGH, 0.8, 0, 0.64, Level.THROTTLE),
        "5 errors: 1.0, emergency stop": (CRITICAL, 1.0, 0, 1.0, Level.KILL),
        "3 errors, one intervention in vain: throttling": (MEDIUM, 0.6, 1, 0.60, Level.THROTTLE),
        "4 errors, one in vain: emergency stop": (HIGH, 0.8, 1, 0.94, Level.KILL),
        "5 errors, one in vain: emergency stop": (CRITICAL, 1.0, 1, 1.3, Level.KILL),
        "3 errors, two in vain: 0.9 and not a little below": (MEDIUM, 0.6, 2, 0.90, Level.KILL),
        "scope ratio 0.35: 0.28, soft correction": (HIGH, 0.35, 0, 0.28, Level.NUDGE),
        "scope ratio 1.0: 0.80, rollback": (HIGH, 1.0, 0, 0.80, Level.ROLLBACK),
        "goal drift with mean 0.4: context reinforcement": (MEDIUM, 0.6, 0, 0.30, Level.REINFORCE),
    },
)
def test_the_published_scores(
    severity: Severity, confidence: float, escalation: int, score: float, level: Level
) -> None:
    combined = combined_score(severity, confidence, 0.0, escalation)
    assert (combined, level_of(combined)) == (score, level)


@given(
    st.sampled_from(Severity), st.sampled_from(Severity), st.floats(0, 1), st.sampled_from(Effect), st.integers(0, 9)
)
def test_worse_is_harder(one: Severity, other: Severity, confidence: float, effect: Effect, escalation: int) -> None:
    mild, bad = sorted((one, other))
    softer = level_of(combined_score(mild, confidence, IMPACT[effect], escalation))
    assert softer <= level_of(combined_score(bad, confidence, IMPACT[effect], escalation))
    assert softer <= level_of(combined_score(mild, confidence, IMPACT[effect], escalation + 1))
    assert softer <= level_of(combined_score(mild, confidence, 1.0, escalation))


def case(severity: Severity = MEDIUM, **fields: object) -> Case:
    rule = str(fields.pop("rule", "error_repetition"))
    confidence = float(str(fields.pop("confidence", 0.6)))
    return Case(finding=found(severity, rule, confidence), by_rule=Level.NUDGE, **fields)  # type: ignore[arg-type]  # by name


@cases(
    "current, effectiveness, may_soften, expected",
    {
        "in vain: the next one": (Level.NUDGE, 0.0, True, Level.REINFORCE),
        "there is none after the stop": (Level.KILL, 0.0, True, Level.KILL),
        "below the configured 0.6 is in vain": (Level.THROTTLE, 0.59, True, Level.ROLLBACK),
        "it helped, long ago: the one before": (Level.THROTTLE, 0.6, True, Level.REINFORCE),
        "it helped, a moment ago: the same": (Level.THROTTLE, 0.6, False, Level.THROTTLE),
        "there is none before the first": (Level.NUDGE, 1.0, True, Level.NUDGE),
        "not known yet: the same": (Level.THROTTLE, None, True, Level.THROTTLE),
    },
)
def test_progression(current: Level, effectiveness: float | None, may_soften: bool, expected: Level) -> None:
    assert next_step(current, effectiveness, effective=0.6, may_soften=may_soften) is expected


def test_progression_begins_softly_and_goes_on_from_what_is_no_step() -> None:
    chosen = [Progressive().choose(case(last=last, effectiveness=0.0)) for last in (None, Level.PAUSE, Level.BLOCK)]
    assert chosen == [Level.NUDGE, Level.ROLLBACK, Level.ROLLBACK], "of a step that another strategy chose"


def test_the_published_list_of_repetitive_errors_and_a_policys_own_before_it() -> None:
    own = PatternSpecific({"error_repetition": (Level.NUDGE, Level.KILL)})
    published = [Level.NUDGE, Level.REINFORCE, Level.ROLLBACK, Level.ROLLBACK]
    assert [PatternSpecific({}).choose(case(severity)) for severity in Severity] == published
    assert [own.choose(case(severity)) for severity in Severity] == [Level.NUDGE, Level.KILL, Level.KILL, Level.KILL]
    assert {by_severity([Level.BLOCK], severity) for severity in Severity} == {Level.BLOCK}, "a list of one entry"
