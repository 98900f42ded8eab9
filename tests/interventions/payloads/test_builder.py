import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.payloads import rollback
from haltline.interventions.payloads.throttle import factor_of, lowered, throttle
from haltline.interventions.state import texts
from haltline.interventions.state.context import note_of
from haltline.interventions.state.intervention_history import Checkpoints, History
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import Effect, Kind, Outcome, Task
from haltline.schemas.findings import Evidence, Severity
from haltline.schemas.intervening import RollbackLimits, Throttle
from haltline.schemas.payloads import Checkpoint, Strength
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, Position, SessionState
from tests.builders import call, cases, event, some
from tests.interventions.cases import Loss, Session, Story, found, proposed

LOW, MEDIUM, HIGH, CRITICAL = Severity
TASK = Task(goal="Fix the login test", expected_paths=["src/login/**"], limits={"tokens": 9000})


def at_level(level: Level, rule: str = "error_repetition", **more: Any) -> Decision:
    reported = Story(more.pop("policy", Policy()))
    reported.session = more.pop("session", reported.session)
    finding = found(HIGH, rule, **more.pop("finding", {}))
    decision = some(reported.tell(0, finding, rule=Rule(levels={HIGH: level}), **more))
    assert decision.level is level
    return decision


def test_the_published_reductions_of_a_limit_of_100() -> None:
    published = {2.5: 50, 2.0: 70, 1.6: 70, 1.5: 85, 1.3: 85, 1.2: 100, 1.1: 100}
    assert {growth: lowered(100, factor_of(growth, Throttle())) for growth in published} == published


def test_only_what_grew_is_lowered_and_batches_are_halved_and_a_second_time_from_there_on() -> None:
    values = {"resource": "tokens", "mean_growth": 2.5}
    decision = at_level(Level.THROTTLE, "resource_growth", finding={"values": values})
    limits = {"max_file_operations": 100, "max_memory_mb": 512, "max_tokens": 50_000, "max_execution_time_s": 300}
    assert decision.limits == limits | {"batch_size": 16}
    throttling = some(decision.throttling)
    assert (throttling.resource, throttling.growth, throttling.factor) == ("tokens", 2.5, 0.5)
    reported = Story(Policy(cooldown_s=0))
    grown = found(HIGH, "resource_growth", values={"resource": "file_ops", "mean_growth": 3.0})
    again = [some(some(reported.tell(second, grown)).limits)["max_file_operations"] for second in range(2)]
    assert again == [50, 25]


@given(st.integers(1, 500), st.sampled_from(Severity))
def test_limits_never_fall_below_1_however_often_they_are_lowered(times: int, severity: Severity) -> None:
    history = History()
    for _ in range(times):
        limits, _ = throttle(history, found(severity), Throttle())
    assert all(limit >= 1 and limit == int(limit) for limit in limits.values())


@pytest.mark.parametrize(
    ("strength", "constraints", "boundaries"), [("light", 0, 0), ("medium", 3, 0), ("strong", 3, 2)]
)
def test_the_task_is_repeated(strength: str, constraints: int, boundaries: int) -> None:
    policy = Policy.model_validate({"interventions": {"reinforcement": strength}})
    decision = at_level(Level.REINFORCE, "scope_creep", policy=policy, session=Session(task=note_of(TASK)))
    result = some(decision.reinforcement)
    assert (result.strength, result.goal) == (Strength(strength), "Fix the login test")
    assert (len(result.constraints), len(result.boundaries)) == (constraints, boundaries)
    assert "Fix the login test" in decision.message
    assert all(line in decision.message for line in result.constraints)
    assert any(line.startswith("IMPORTANT") for line in result.constraints) is (strength == "strong")


def test_a_task_is_kept_cut_and_without_one_there_is_still_something_to_keep_to() -> None:
    long = Task(goal="word " * 1000, expected_paths=["p" * 500] * 50, limits={f"l{n}": 1.0 for n in range(50)})
    assert len(orjson.dumps(note_of(long))) < 2000
    said = at_level(Level.REINFORCE).message
    assert said.endswith("- Do not repeat a failed call before you know why it failed.")


BEGAN = found(evidence=(Evidence(event_id="first", topic="t", partition=0, offset=9), Evidence(event_id="last")))


def checkpoints(*steps: str | tuple[str, float]) -> Checkpoints:
    """`c` a checkpoint, `+` a call that succeeded, `-` one that failed: ten seconds apart, at offsets 0, 1, 2..."""
    state = Checkpoints()
    for offset, step in enumerate(steps):
        happened = event(offset * 10, "look", outcome=Outcome.ERROR if step == "-" else Outcome.OK)
        if step in ("+", "-"):
            rollback.note_result(state, happened)
        else:
            rollback.note_checkpoint(state, Checkpoint(id=str(step)), happened, offset, offset)
    return state


@cases(
    "steps, chosen, depth",
    {
        "the newest one before the issue began": ("a+b+", "b", 1),
        "not one that was taken after it began": ("a+++++++++b", "a", 2),
        "not one with an error in the 60 s before it": ("a++++++-b", "a", 2),
        "what failed after it does not count against it": ("a-------", "a", 1),
        "none: recovery needed": ("", None, 0),
    },
)
def test_the_choice_of_a_checkpoint(steps: str, chosen: str | None, depth: int) -> None:
    result = rollback.choose(checkpoints(*steps), proposed(120), BEGAN, RollbackLimits())
    assert (result.checkpoint, result.depth, result.recovery_needed) == (chosen, depth, chosen is None)
    assert bool(result.plan) is (chosen is None)


def test_a_checkpoint_must_be_near_enough() -> None:
    too_far, too_old, near = (
        rollback.choose(checkpoints(*"a++-b"), proposed(120), BEGAN, limits)
        for limits in (RollbackLimits(max_depth=1), RollbackLimits(retention_s=60), RollbackLimits())
    )
    assert [too_far.checkpoint, too_old.checkpoint, near.checkpoint] == [None, None, "a"]
    assert "is safe, but 2 back: expected at most 1" in too_far.why
    assert "is older than 60 s" in too_old.why


def test_one_with_too_few_successes_before_it_is_not_safe() -> None:
    state = checkpoints("a", "+", "+", "+", "-", "+", "b")
    state.kept[-1].quiet_ms = None  # the error is long ago
    assert state.kept[-1].rate == 0.8
    limits = [RollbackLimits(min_success_rate=rate) for rate in (0.8, 0.81)]
    assert [rollback.choose(state, proposed(120), BEGAN, one).checkpoint for one in limits] == ["b", "a"]


def test_where_offsets_are_not_known_an_issue_may_have_begun_five_minutes_before() -> None:
    state = Checkpoints()
    for second in (0, 200):
        rollback.note_checkpoint(state, Checkpoint(id=f"at {second}"), event(second), -1, 0)
    finding = found(evidence=(Evidence(event_id="only"),))
    chosen = [rollback.choose(state, proposed(s), finding, RollbackLimits()).checkpoint for s in (290, 400, 501)]
    assert chosen == [None, "at 0", "at 200"]
    many = checkpoints(*(f"c{n}" for n in range(100)))
    assert [kept.id for kept in many.kept] == [f"c{n}" for n in range(84, 100)], "they are bounded"


def test_the_agents_side_reports_checkpoints_and_gets_one_back() -> None:
    core = Core(Policy(rules={"repetition": Rule(levels=dict.fromkeys(Severity, Level.ROLLBACK))}))
    state: SessionState | None = None
    decisions = []
    events = [event(0, "", kind=Kind.HEARTBEAT, outcome=None, checkpoint={"id": "before the work"})]
    for number in range(8):
        events += call(10 + number * 10, "look_up", "table=facts", output_digest="same", args={"id": 7})
    for offset, happened in enumerate(events):
        outcome = core.on_event(state, happened, Position("haltline.actions", 0, offset))
        state = outcome.state
        decisions += [outcome.decision] if outcome.decision is not None else []
    assert (decisions[0].level, decisions[0].checkpoint) == (Level.ROLLBACK, "before the work")
    assert not some(decisions[0].rollback).recovery_needed


def test_an_emergency_stop_has_a_report_with_everything_that_is_asked_for() -> None:
    reported = Story(session=Session(task=note_of(TASK)))
    reported.tell(0, found(LOW, "repetition"))
    findings = found(CRITICAL, "destructive_repeat", target="table=fact_sales"), found(MEDIUM, "cycle")
    near = {"destructive_repeat": 1.0, "cycle": 1.0, "budget": 0.5}
    losses = [Loss("drop_table", "table=fact_sales")]
    report = some(some(reported.tell(40, *findings, losses=losses, near=lambda: near)).incident)
    assert re.fullmatch(r"inc_[0-9a-f]{12}", report.incident_id)
    assert report.summary == "Emergency stop triggered due to destructive_repeat: seen too often"
    assert [moment.what for moment in report.timeline] == [
        "evidence: event e@first",
        "NUDGE for repetition (low)",
        "KILL at event e@40: destructive_repeat",
    ]
    assert report.root_cause == "destructive_repeat by delete_asset on table=fact_sales"
    assert report.contributing_factors == ("cycle: seen too often", "budget was 50% of the way to a finding")
    assert report.impact.things == ("drop_table table=fact_sales",)
    options = [option.option for option in report.recovery_options]
    assert options == ["resume_with_limits", "manual_intervention", "abort"]
    assert all((said.immediate, said.preventive, said.configuration) for said in [report.recommendations])
    assert report.snapshot["interventions"] == 1


def test_a_report_offers_a_safe_checkpoint_where_there_is_one() -> None:
    reported = Story(session=Session(checkpoints=checkpoints("a", "+")))
    decision = some(reported.tell(40, found(CRITICAL, "destructive_repeat")))
    (option,) = (o for o in some(decision.incident).recovery_options if o.option == "rollback_and_retry")
    assert option.checkpoint == "a"


@pytest.mark.parametrize(
    ("error", "situation", "ways", "attempts"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x'", "file_not_found", ("automatic", "guided"), 3),
        ("PermissionError: [Errno 13] Permission denied", "permission_denied", ("collaborative",), 1),
        ("SyntaxError: invalid syntax", "syntax_error", ("self_healing", "guided"), 2),
        ("ModuleNotFoundError: No module named 'x'", "import_error", ("self_healing", "guided"), 2),
        ("TimeoutError: timed out", "connection_timeout", ("automatic", "collaborative"), 3),
        ("HTTP 429 Too Many Requests", "rate_limit_exceeded", ("automatic", "guided"), 3),
        (None, "stuck_in_loop", ("guided", "checkpoint"), 2),
    ],
)
def test_each_failure_has_its_recovery(error: str | None, situation: str, ways: tuple[str, ...], attempts: int) -> None:
    result = some(at_level(Level.REINFORCE, event=proposed(0, error=error)).recovery)
    assert (result.situation, result.ways, result.attempts) == (situation, ways, attempts)
    assert result.steps
    assert (result.wait_s is None) is ("automatic" not in ways or situation == "file_not_found")


MODIFY = [
    {"action": "export_*", "cap": {"limit": 100}, "put": {"dry_run": True}, "remove": ["overwrite"]},
    {"action": "delete_*", "rules": ["step_review"], "put": {"soft": True}},
]


@cases(
    "action, args, put, removed",
    {
        "capped": ("export_all", {"limit": 5000, "q": "x"}, {"limit": 100, "dry_run": True}, None),
        "what is within the cap stays": ("export_all", {"limit": 5}, {"dry_run": True}, None),
        "left out": ("export_all", {"overwrite": 1}, {"dry_run": True}, ("overwrite",)),
        "nothing to change": ("export_all", {"dry_run": True}, None, None),
        "another tool": ("look_up", {"limit": 5000}, None, None),
    },
)
def test_arguments_are_changed_as_the_policy_says(
    action: str, args: dict[str, Any], put: dict[str, Any] | None, removed: tuple[str, ...] | None
) -> None:
    policy = Policy.model_validate({"interventions": {"modifications": MODIFY}})
    decision = at_level(Level.NUDGE, policy=policy, event=proposed(0, action, args=args))
    assert (decision.arguments, decision.without_arguments) == (put, removed)


def test_what_a_refused_call_would_have_cost_is_counted_once_however_often_it_is_tried() -> None:
    policy = Policy.model_validate({"interventions": {"prices": [{"action": "send_*", "usd": 12.5}]}})
    reported = Story(policy)
    result = []
    for second in (0, 1, 2, 3599, 3601):
        mail = proposed(second, "send_mail")
        decision = some(reported.tell(second, found(HIGH), rule=Rule(levels={HIGH: Level.BLOCK}), event=mail))
        result.append((decision.attempt, decision.estimated_cost_usd, decision.cost_prevented_usd))
    assert result == [(1, 12.5, 12.5), (2, 12.5, 0), (3, 12.5, 0), (4, 12.5, 0), (1, 12.5, 12.5)]


def test_a_refusal_says_what_would_have_been_taken_away() -> None:
    losses = [Loss("rm", f"path=/data/{n}") for n in range(5)]
    assert at_level(Level.BLOCK, losses=losses).blast_radius == (
        "would have taken away: rm path=/data/0, rm path=/data/1, rm path=/data/2 and 2 more"
    )
    plain = at_level(Level.BLOCK, effect=Effect.EXEC, event=proposed(0, "bash", targets=["path=/x"]))
    assert plain.blast_radius == "bash (exec) on path=/x"


def test_a_hint_is_in_a_policys_own_words_and_a_refusal_is_not() -> None:
    words = {"messages": {"error_repetition": "Ask Ada before you touch {target} {again}."}}
    policy = Policy.model_validate({"interventions": words})
    hint, refusal = (at_level(one, policy=policy, finding={"target": "table=x"}) for one in (Level.NUDGE, Level.BLOCK))
    assert hint.message.startswith('Ask Ada before you touch "table=x" {again}.')
    assert "Ada" not in texts.of_decision(refusal)


@pytest.mark.parametrize("rule", ["destructive_volume", "budget", "step_review", "evasion", "scope_creep"])
@pytest.mark.parametrize("level", [level for level in Level if level is not Level.ALLOW])
def test_a_hint_and_what_a_caller_may_do_name_no_threshold_and_no_rule_and_no_decision_repeats_arguments(
    level: Level, rule: str
) -> None:
    secret = "hunter2-sk-live-4242"
    decision = at_level(
        level,
        rule,
        finding={"values": {"deletes": 31, "window_s": 47}, "thresholds": {"max_deletes": 29}},
        event=proposed(0, args={"password": secret}, error=secret, output_head=secret),
    )
    assert secret not in decision.to_json().decode()
    received = (decision.message if level < Level.PAUSE else "") + (
        decision.remediation.to_json().decode() if decision.remediation is not None else ""
    )
    received += " ".join(decision.recovery.steps if decision.recovery is not None else ())
    if level >= Level.REINFORCE:
        assert some(decision.recovery).fallback == "Stay paused until a person has reviewed it."
    assert not re.search(r"\d", received)
    assert rule not in received
    assert decision.reason not in received
    assert (decision.values["deletes"], decision.thresholds["max_deletes"]) == (31, 29)
