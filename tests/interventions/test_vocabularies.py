from typing import Any

import pytest

from haltline.interventions.vocabularies import acgp, agent_sentinel, pipeline, render, tappass
from haltline.interventions.vocabularies.agent_sentinel import prevented_usd, record_of, type_of
from haltline.schemas.decisions import Decision, Level, Mode, ScopeKind
from haltline.schemas.events import Kind
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Vocabulary
from haltline.schemas.intervention_records import RecordOutcome, RecordType
from haltline.schemas.payloads import Rollback
from haltline.schemas.policy import Policy, Rule
from tests.builders import T0_MS, event, some
from tests.interventions.cases import Story, found, proposed

LOW, MEDIUM, HIGH, CRITICAL = Severity


def decision(level: Level = Level.BLOCK, rule: str = "scope_creep", **more: Any) -> Decision:
    ids = {"decision_id": "d1", "session_id": "s1", "agent_id": "a1", "event_id": "e1", "time": T0_MS}
    texts = {"code": rule, "detector": rule, "reason": "seen too often", "message": "Stop."}
    by = {"severity": HIGH, "policy": "default", "policy_version": 3}
    return Decision(**({"level": level} | ids | texts | by | more))


WARNED, BLOCKED, MODIFIED = ("warning", "warned"), ("hard_block", "blocked"), "modified"
LEVELS = {
    Level.ALLOW: ((None, "allow"), "ok", WARNED, "allow"),
    Level.NUDGE: (("soft_correction", "warn"), "nudge", WARNED, "allow"),
    Level.REINFORCE: (("context_reinforcement", "warn"), "nudge", WARNED, "allow"),
    Level.THROTTLE: (("resource_throttling", "modify"), "nudge", ("rate_limited", MODIFIED), "allow"),
    Level.PAUSE: (("manual_intervention", "block"), "escalate", ("approval_required", "escalated"), "deny"),
    Level.BLOCK: ((None, "block"), "block", BLOCKED, "deny"),
    Level.ROLLBACK: (("checkpoint_rollback", "block"), "block", ("downgrade", MODIFIED), "deny"),
    Level.KILL: (("emergency_stop", "block"), "halt", BLOCKED, "deny"),
}
"""In the words of the pipeline, of ACGP, of Agent Sentinel and of TapPass."""


@pytest.mark.parametrize("level", Level)
def test_every_level_in_four_vocabularies(level: Level) -> None:
    result = decision(level, limits={"max_tokens": 5} if level is Level.THROTTLE else None)
    ours, record = pipeline.render(result), some(agent_sentinel.render(result))
    assert ours.allows_continuation is (level < Level.ROLLBACK)
    assert (
        (ours.intervention_type, ours.decision),
        acgp.render(result).intervention,
        (record.type, record.outcome),
        tappass.render(result).decision,
    ) == LEVELS[level]
    for vocabulary in Vocabulary:
        rendered = some(render(decision(level), vocabulary))
        assert type(rendered).model_validate_json(rendered.to_json()) == rendered


def test_the_kill_of_more_than_a_session() -> None:
    switches = {"session": "run", "agent": "agent", "mission": "mission", "fleet": "fleet"}
    kills = {scope: decision(Level.KILL, scope=ScopeKind(scope)) for scope in switches}
    assert {s: some(agent_sentinel.render(kill)).context["kill_switch"] for s, kill in kills.items()} == switches
    assert [pipeline.render(kill).intervention_type for kill in kills.values()] == ["emergency_stop", *[None] * 3]
    assert {acgp.render(kill).intervention for kill in kills.values()} == {"halt"}


TYPES = [
    (decision(Level.BLOCK), RecordType.HARD_BLOCK),
    (decision(Level.PAUSE), RecordType.APPROVAL_REQUIRED),
    (decision(Level.THROTTLE), RecordType.RATE_LIMITED),
    (decision(Level.BLOCK, "resource_growth"), RecordType.RATE_LIMITED),
    (decision(Level.BLOCK, "budget"), RecordType.BUDGET_EXCEEDED),
    (decision(Level.NUDGE, arguments={"limit": 1}), RecordType.DOWNGRADE),
    (decision(Level.ROLLBACK), RecordType.DOWNGRADE),
    (decision(Level.NUDGE), RecordType.WARNING),
    (decision(Level.NUDGE, "budget"), RecordType.BUDGET_WARNING),
    (decision(Level.NUDGE, "author_rules", code="budget_warning"), RecordType.BUDGET_WARNING),
    (decision(Level.BLOCK, "author_rules", code="stale_evidence"), RecordType.MISSING_EVIDENCE),
    (decision(Level.BLOCK, "hallucination"), RecordType.MISSING_EVIDENCE),
    (decision(Level.BLOCK, "correlation_pii_blocked"), RecordType.PII_BLOCKED),
    (decision(Level.BLOCK, code="critical_path"), RecordType.CONTENT_BLOCKED),
    (decision(Level.BLOCK, "repetition"), RecordType.LOOP_DETECTED),
    (decision(Level.KILL, "destructive_repeat", code="session_killed_loop_guard"), RecordType.LOOP_DETECTED),
    (decision(Level.BLOCK, "repetition", code="no_visible_effect"), RecordType.IDEMPOTENT_REPLAY),
]


def test_all_twelve_types_and_every_outcome() -> None:
    assert [type_of(result) for result, _ in TYPES] == [kind for _, kind in TYPES]
    assert {kind for _, kind in TYPES} == set(RecordType)
    result = [record_of(decision(level)) for level in (Level.NUDGE, Level.THROTTLE, Level.PAUSE, Level.BLOCK)]
    result += [record_of(decision(Level.PAUSE), resolution=outcome) for outcome in list(RecordOutcome)[2:4]]
    assert {one.outcome for one in result if one is not None} == set(RecordOutcome)


def test_what_a_pause_prevented_depends_on_a_persons_word() -> None:
    prevented = {
        None: 0.0,  # while it waits
        RecordOutcome.APPROVED_AFTER_REVIEW: 0.0,
        RecordOutcome.REJECTED_AFTER_REVIEW: 7.5,
        RecordOutcome.BLOCKED: 7.5,  # as it expired
    }
    paused = decision(Level.PAUSE, estimated_cost_usd=7.5, cost_prevented_usd=7.5)
    records = {resolution: some(record_of(paused, resolution=resolution)) for resolution in prevented}
    assert {resolution: record.cost_prevented_usd for resolution, record in records.items()} == prevented
    assert {record.estimated_cost_usd for record in records.values()} == {7.5}


def test_a_plain_verdict_is_no_intervention_and_a_shadow_one_is_a_warning() -> None:
    assert record_of(decision(Level.ALLOW, rule="")) is None
    shadow = some(record_of(decision(Level.ALLOW, mode=Mode.SHADOW, would=Level.KILL, cost_prevented_usd=5.0)))
    assert (shadow.type, shadow.outcome, shadow.cost_prevented_usd) == ("warning", "warned", 0.0)
    assert shadow.context == {"level": "ALLOW", "mode": "shadow", "would": "KILL"}


def test_a_record_has_every_field_of_the_published_list() -> None:
    policy = Policy.model_validate({"interventions": {"prices": [{"action": "drop_*", "usd": 40}]}})
    reported, rule = Story(policy), Rule(levels={CRITICAL: Level.BLOCK})
    proposal = proposed(0, "drop_table", args={"database": "production", "table": "customers"}, mission_id="m1")
    finding = found(CRITICAL, "severe_destruction", target="table=customers")
    decisions = [some(reported.tell(second, finding, rule=rule, event=proposal)) for second in range(3)]
    records = [some(record_of(one, proposal, intent="Cleanup old test data")) for one in decisions]
    assert (prevented_usd(records), [record.attempt for record in records]) == (40, [1, 2, 3])
    written = records[0].model_dump(mode="json")
    assert {name: written[name] for name in written if name not in ("id", "timestamp", "context", "created_at")} == {
        "type": "hard_block",
        "outcome": "blocked",
        "action_name": "drop_table",
        "description": "severe_destruction by severe_destruction on table=customers",
        "agent_id": "a1",
        "run_id": "s1",
        "mission_id": "m1",
        "task_id": "c@0",
        "policy_id": "severe_destruction",
        "policy_name": "default version 1",
        "risk_level": "critical",
        "estimated_cost_usd": 40.0,
        "actual_cost_usd": 0.0,
        "cost_prevented_usd": 40.0,
        "attempt": 1,
        "blast_radius": "drop_table (read)",
        "reason": "seen too often",
        "agent_intent": "Cleanup old test data",
        "original_inputs": {"database": "production", "table": "customers"},
        "modified_inputs": None,
        "remediation_payload": {
            "reason_code": "DENIED_ACTION",
            "missing_requirements": [],
            "required_prior_actions": [],
            "retry_guidance": "Do not repeat the call, or another one with the same effect.",
            "safe_alternatives": ["Report what you wanted to do and why."],
            "stale_evidence": [],
            "argument_violations": [],
            "retry_after_seconds": None,
        },
    }


def test_changed_arguments_are_the_modified_inputs() -> None:
    proposal = proposed(0, "export", args={"limit": 9000, "overwrite": True, "q": "x"})
    changed = decision(Level.NUDGE, arguments={"limit": 100}, without_arguments=("overwrite",))
    record = some(record_of(changed, proposal))
    assert (record.type, record.outcome) == ("downgrade", "modified")
    assert record.modified_inputs == {"limit": 100, "q": "x"}


def test_a_policy_chooses_the_vocabulary_by_agent_and_session() -> None:
    vocabularies = [{"agent": "trader-*", "vocabulary": "acgp"}, {"session": "night-*", "vocabulary": "tappass"}]
    policy = Policy.model_validate({"interventions": {"vocabularies": vocabularies}})
    chosen = []
    for agent, session in (("trader-1", "night-1"), ("other", "night-1"), ("other", "day-1")):
        result = some(Story(policy).tell(0, found(HIGH), event=proposed(0, agent_id=agent, session_id=session)))
        chosen.append(result.vocabulary)
    assert chosen == ["acgp", "tappass", None]


def test_rollbacks_reviews_and_events_that_are_none_of_an_action_are_rendered() -> None:
    result = decision(Level.ROLLBACK, rollback=Rollback(recovery_needed=True, why="none"))
    assert pipeline.render(result).result == "recovery_needed"
    assert pipeline.render(decision(Level.KILL)).result == "stop"
    metadata = {"type": "intervention", "intervention_type": "soft_correction", "issue_type": "scope_creep"}
    assert pipeline.render(decision(Level.NUDGE)).message == pipeline.Injected(content="Stop.", metadata=metadata)
    plain = [pipeline.review_of(decision(level)) for level in (Level.ALLOW, Level.NUDGE)]
    changed = [pipeline.review_of(decision(level, arguments={"limit": 1})) for level in (Level.NUDGE, Level.BLOCK)]
    assert plain + changed == ["allow", "warn", "modify", "block"]
    result = some(Story().tell(0, found(HIGH), event=event(0, "", kind=Kind.HEARTBEAT, outcome=None)))
    assert all(render(result, vocabulary) is not None for vocabulary in Vocabulary)
