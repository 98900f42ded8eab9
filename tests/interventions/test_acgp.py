from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.acgp import scores
from haltline.interventions.acgp.scores import TIERS, Dimension, Intervention, TrustLevel
from haltline.interventions.state.intervention_history import Trust
from haltline.schemas.decisions import Decision, Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import WEIGHTS, Governed, TrustDebt
from haltline.schemas.payloads import Governance
from haltline.schemas.policy import Policy, Rule
from tests.builders import T0_MS, cases, some
from tests.interventions.cases import Story, Told, found, proposed

LOW, MEDIUM, HIGH, CRITICAL = Severity
HOUR_S = 3600


def test_the_published_thresholds_of_tier_2() -> None:
    published = {0.0: "ok", 0.25: "ok", 0.250001: "nudge", 0.40: "nudge", 0.55: "escalate", 0.56: "block", 1.0: "block"}
    assert {risk: scores.by_risk(risk, TIERS[2]) for risk in published} == published
    for score, expected in ((1.0, "ok"), (0.5, "escalate")):
        assert scores.ctq(dict.fromkeys(Dimension, score)) == score
        assert scores.by_risk(round(1 - score, 9), TIERS[2]) == expected


@given(st.floats(0, 1))
def test_a_higher_tier_is_never_more_lenient_and_none_halts(risk: float) -> None:
    by_tier = [scores.by_risk(risk, TIERS[tier]) for tier in range(6)]
    assert by_tier == sorted(by_tier)
    assert Intervention.HALT not in by_tier


def test_the_weights_are_the_published_ones_and_sum_to_1() -> None:
    assert WEIGHTS == {"reasoning": 0.25, "grounding": 0.2, "ethical": 0.2, "tool_safety": 0.2, "context": 0.15}
    with pytest.raises(ValueError, match="expected weights that sum to 1, got"):
        Governed(weights=WEIGHTS | {"reasoning": 0.3})


def test_what_the_agents_side_says_of_itself_lowers_a_score_and_never_raises_it() -> None:
    said = {"grounding": 1.0, "ethical": 0.4, "unknown": 0.0, "context": True}
    expected = dict.fromkeys(Dimension, 1.0) | {"grounding": 0.2, "ethical": 0.4}
    assert scores.scores_of([found(HIGH, "hallucination")], said) == expected


# Trust debt

DEBT = TrustDebt()


@cases(
    "interventions, debt, standing",
    {
        "three blocks: restricted mode": (["block"] * 3, 6.0, TrustLevel.RESTRICTED),
        "five blocks: review of the tier": (["block"] * 5, 10.0, TrustLevel.REVIEW),
        "a halt: elevated monitoring": (["halt"], 5.0, TrustLevel.ELEVATED),
        "what is ok adds nothing": (["ok"] * 100, 0.0, TrustLevel.NORMAL),
    },
)
def test_debt_adds_up(interventions: list[str], debt: float, standing: TrustLevel) -> None:
    state = Trust(at_ms=T0_MS)
    for one in interventions:
        scores.add(state, scores.added(Intervention(one), None, DEBT), T0_MS, DEBT)
    assert (state.debt, scores.trust_level(state.debt, DEBT)) == (debt, standing)


def test_debt_of_2_is_1_1975_after_ten_hours_and_a_clock_that_goes_back_adds_none() -> None:
    state = Trust(debt=2.0, at_ms=T0_MS)
    assert round(scores.debt_at(state, T0_MS + 10 * HOUR_S * 1000, DEBT), 4) == 1.1975
    assert scores.debt_at(state, T0_MS - 9_000_000, DEBT) == 2.0


def governed(**fields: Any) -> Story:
    return Story(Policy.model_validate({"interventions": {"acgp": [fields]}}))


def told(**fields: Any) -> Told:
    return Told(interventions={"acgp": [fields]})


WIRE = {"id": "large", "kind": "financial", "when": {"tool": "transfer"}, "condition": "args.amount > 500"}
HALT = {**WIRE, "on_fail": {"decision": "halt", "reason": "more than the agent may move"}}


def transfer(amount: float | None, second: float = 0, **more: Any) -> dict[str, Any]:
    return {"second": second, "action": "transfer", "args": {} if amount is None else {"amount": amount}, **more}


@cases(
    "wire, amount, level",
    {
        "halt": (HALT, 501, Level.KILL),
        "the threshold itself is not above it": (HALT, 500, None),
        "nudge": ({**WIRE, "on_fail": {"decision": "nudge"}}, 501, Level.NUDGE),
        "escalate": ({**WIRE, "on_fail": {"decision": "escalate"}}, 501, Level.PAUSE),
        "block, where nothing is said": (WIRE, 501, Level.BLOCK),
        "what cannot be evaluated fails closed, but does not halt": (HALT, None, Level.BLOCK),
    },
)
def test_tripwires(wire: dict[str, Any], amount: float | None, level: Level | None) -> None:
    result = told(tripwires=[wire]).tell(**transfer(amount))
    assert (None if result is None else result.level) is level
    if result is not None:
        code = "session_killed_tripwire_large" if level is Level.KILL else "tripwire_large"
        assert (result.code, governance(result).tripwire) == (code, "large")


def governance(decision: Decision | None) -> Governance:
    return some(some(decision).governance)


def test_of_several_tripwires_the_strictest_counts_and_the_model_hears_neither_condition_nor_reason() -> None:
    wires = [{**WIRE, "id": "mild", "on_fail": {"decision": "nudge"}}, HALT, {**WIRE, "id": "last"}]
    result = some(told(tripwires=wires).tell(**transfer(501)))
    assert (result.level, result.reason) == (Level.KILL, "tripwire large: more than the agent may move")
    assert governance(result).steps[0] == "rules: halt"
    assert some(governance(result).ticket).kind == "halt"
    message = some(told(tripwires=[WIRE]).tell(**transfer(501))).message
    assert message.startswith("haltline refused this call. Do not try")


def test_the_quality_that_an_agents_side_reports() -> None:
    for score, level in ((1.0, None), (0.7, Level.NUDGE), (0.5, Level.PAUSE), (0.1, Level.BLOCK)):
        decision = governed().tell(0, event=proposed(0, ctq=dict.fromkeys(Dimension, score)))
        assert (decision and decision.level) is level


def test_a_kill_of_a_rule_that_is_no_tripwire_blocks_and_the_loop_guards_is_one() -> None:
    rule = Rule(levels={CRITICAL: Level.KILL})
    result = some(governed().tell(0, found(CRITICAL, "repetition"), rule=rule))
    assert (result.level, result.detector) == (Level.BLOCK, "repetition")
    assert some(result.choice).why == "acgp: only a halting rule halts: BLOCK"
    reported = governed()
    result = some(reported.tell(0, found(CRITICAL, "destructive_repeat")))
    assert (result.level, governance(result).tripwire) == (Level.KILL, "destructive_repeat")
    assert reported.standing.killed is not None


@pytest.mark.parametrize(("severity", "flagged"), [(MEDIUM, None), (HIGH, HIGH), (CRITICAL, CRITICAL)], ids=str)
def test_the_flag(severity: Severity, flagged: Severity | None) -> None:
    result = some(governed().tell(0, found(severity, "repetition"), rule=Rule(levels={severity: Level.NUDGE})))
    assert (result.level, result.flag_severity) == (Level.NUDGE, flagged)
    assert (governance(result).flagged, governance(result).ticket is None) == (flagged is not None, flagged is None)


def test_a_flag_makes_a_ticket_and_debt_harder_decisions_but_never_a_halt() -> None:
    result = some(governed().tell(0, found(HIGH, "repetition", 0.1), rule=Rule(levels={HIGH: Level.ALLOW})))
    assert (result.level, governance(result).intervention, result.flag) == (Level.ALLOW, "ok", True)
    assert governance(result).ticket is not None
    reported = told(tripwires=[{**WIRE, "on_fail": {"decision": "escalate"}}], flag_from="critical")
    decisions = [reported.tell(**transfer(501, 60 * n)) for n in range(12)]
    history = [(some(one).level.value, governance(one).standing) for one in decisions]
    assert history[:4] == [("PAUSE", "normal")] * 3 + [("PAUSE", "elevated_monitoring")]
    assert ("BLOCK", "restricted_mode") in history
    assert history[-1] == ("BLOCK", "re_tiering_review")
    assert reported.state.control.killed is None
    reported = told(tripwires=[WIRE])
    tickets = [governance(reported.tell(**transfer(501, n))).ticket for n in range(8)]
    assert [ticket.kind for ticket in tickets if ticket is not None].count("re_tiering") == 1


def test_who_is_not_governed_is_decided_as_always_and_leaving_out_ones_name_does_not_help() -> None:
    reported = told(agent="trader-*", tripwires=[HALT])
    assert reported.tell(**transfer(501)) is None
    reported.tell(1, action="look", agent_id="trader-7")
    assert some(reported.tell(**transfer(501, 2, agent_id="unknown"))).level is Level.KILL


def test_in_shadow_it_only_records_what_it_would_do_and_shadow_rules_count_for_nothing() -> None:
    reported = told(mode="shadow", tripwires=[HALT])
    result = some(reported.tell(**transfer(501)))
    assert (result.level, result.would, result.mode) == (Level.ALLOW, Level.KILL, Mode.SHADOW)
    assert result.would_do == "the session stopped"
    assert reported.state.control.killed is None
    result = some(governed().tell(0, found(CRITICAL, "repetition"), rule=Rule(mode=Mode.SHADOW)))
    assert (result.level, governance(result).ctq, governance(result).trust_debt) == (Level.ALLOW, 1.0, 0.0)


FOUND = st.lists(st.builds(found, st.sampled_from(Severity), st.sampled_from(["cycle", "budget"])), max_size=2)


@given(st.lists(st.tuples(st.integers(0, 900), FOUND, st.floats(0, 1)), max_size=25))
def test_without_a_tripwire_nothing_is_ever_halted(steps: list[tuple[int, list[Any], float]]) -> None:
    reported, second = governed(agent_acl_tier=5), 0
    for wait, findings, score in steps:
        second += wait
        once = {finding.detector: finding for finding in findings}.values()
        event = proposed(second, ctq=dict.fromkeys(Dimension, score))
        rule = Rule(levels=dict.fromkeys(Severity, Level.KILL))
        result = reported.tell(second, *once, event=event, rule=rule, effect=Effect.DESTRUCTIVE)
        assert result is None or result.level < Level.KILL
        assert result is None or result.governance is None or result.governance.intervention != "halt"
