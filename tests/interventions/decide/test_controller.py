import pytest

from haltline.interventions.decide.controller import Controller, SessionControl
from haltline.interventions.state.control_record import control_record
from haltline.schemas.control import Command, CommandKind, ControlState, Feedback, Stage
from haltline.schemas.decisions import Level, Mode, ScopeKind
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Evidence, Finding, Severity
from haltline.schemas.policy import Policy, Rule

T0_MS = 1_750_000_000_000


def proposed(second: float = 0, *, await_verdict: bool = False) -> ActionEvent:
    return ActionEvent(
        event_id=f"e@{second}",
        kind=Kind.PROPOSED,
        session_id="s1",
        agent_id="a1",
        time=T0_MS + int(second * 1000),
        call_id=f"c@{second}",
        action="delete_asset",
        await_verdict=await_verdict,
    )


def finding(severity: Severity, detector: str = "destructive_repeat", *, target: str | None = None) -> Finding:
    return Finding(
        detector=detector,
        code="loop_detected",
        severity=severity,
        reason="seen too often",
        evidence=(Evidence(event_id="e@first"), Evidence(event_id="e@last")),
        target=target,
    )


def decide(  # the arguments of a case, in the order of reading
    *findings: Finding,
    standing: SessionControl | None = None,
    event: ActionEvent | None = None,
    rule: Rule | None = None,
    policy: Policy | None = None,
) -> tuple[Level, str] | None:
    decision, _ = Controller(policy or Policy()).decide(
        standing if standing is not None else SessionControl(),
        event or proposed(),
        findings,
        {f.detector: rule or Rule() for f in findings},
        dict,
    )
    return None if decision is None else (decision.level, decision.code)


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        pytest.param(Severity.LOW, (Level.NUDGE, "loop_detected"), id="a low finding of the loop guard nudges"),
        pytest.param(Severity.HIGH, (Level.PAUSE, "loop_detected"), id="a high one pauses"),
        pytest.param(Severity.CRITICAL, (Level.KILL, "session_killed_loop_guard"), id="a critical one kills"),
    ],
)
def test_severity_leads_to_a_level(severity: Severity, expected: tuple[Level, str]) -> None:
    assert decide(finding(severity)) == expected


def test_nothing_found_and_nothing_awaited_says_nothing() -> None:
    assert decide() is None


def test_nothing_found_and_a_verdict_awaited_allows() -> None:
    assert decide(event=proposed(await_verdict=True)) == (Level.ALLOW, "allowed")


@pytest.mark.parametrize("turned", [False, True], ids=["softer first", "harder first"])
def test_the_harder_of_one_batch_wins_in_any_order(turned: bool) -> None:
    findings = [finding(Severity.LOW, "error_repetition"), finding(Severity.CRITICAL)]
    assert decide(*(reversed(findings) if turned else findings)) == (Level.KILL, "session_killed_loop_guard")


def test_of_two_equal_kills_the_one_that_names_a_target_is_reported() -> None:
    standing = SessionControl()
    decide(
        finding(Severity.CRITICAL, "destructive_volume"),
        finding(Severity.CRITICAL, target="asset_id=x"),
        standing=standing,
    )
    assert standing.killed is not None
    assert standing.killed.by == "haltline"


@pytest.mark.parametrize(
    ("mode", "level", "would"),
    [
        pytest.param(Mode.SHADOW, Level.ALLOW, Level.KILL, id="shadow only records"),
        pytest.param(Mode.WARN, Level.NUDGE, Level.KILL, id="warn nudges at most"),
        pytest.param(Mode.ENFORCE, Level.KILL, None, id="enforce does it"),
    ],
)
def test_a_mode_holds_a_level_back(mode: Mode, level: Level, would: Level | None) -> None:
    standing = SessionControl()
    decided, shadow = Controller(Policy()).decide(
        standing, proposed(), [finding(Severity.CRITICAL)], {"destructive_repeat": Rule(mode=mode)}, dict
    )
    decision = shadow if mode is Mode.SHADOW else decided
    assert decision is not None
    assert decided is None or shadow is None
    assert (decision.level, decision.would, standing.killed is not None) == (level, would, level is Level.KILL)


def test_an_enforced_nudge_beats_a_shadow_kill() -> None:
    rules = {"destructive_repeat": Rule(mode=Mode.SHADOW), "error_repetition": Rule()}
    findings = [finding(Severity.CRITICAL), finding(Severity.LOW, "error_repetition")]
    decision, shadow = Controller(Policy()).decide(SessionControl(), proposed(), findings, rules, dict)
    assert decision is not None
    assert (decision.level, decision.detector, shadow) == (Level.NUDGE, "error_repetition", None)


def test_who_waits_for_a_verdict_gets_it_and_what_is_in_shadow_is_reported_beside_it() -> None:
    rules = {"destructive_repeat": Rule(mode=Mode.SHADOW)}
    proposal = proposed().model_copy(update={"await_verdict": True})
    near = {"destructive_repeat": 1.0}
    verdict, shadow = Controller(Policy()).decide(
        SessionControl(), proposal, [finding(Severity.CRITICAL)], rules, lambda: near
    )
    assert verdict is not None
    assert shadow is not None
    assert (verdict.level, verdict.code, verdict.scope_id) == (Level.ALLOW, "allowed", None)
    # A guard takes what names a scope's id for no verdict.
    assert (shadow.level, shadow.would, shadow.scope_id) == (Level.ALLOW, Level.KILL, proposal.session_id)


def test_what_is_in_shadow_changes_nothing_of_an_enforced_decision() -> None:
    seen, other = finding(Severity.CRITICAL), finding(Severity.CRITICAL, "error_repetition")
    rules = {"destructive_repeat": Rule(), "error_repetition": Rule(mode=Mode.SHADOW)}
    near = {"destructive_repeat": 1.0, "error_repetition": 0.5}
    alone, _ = Controller(Policy()).decide(
        SessionControl(), proposed(), [seen], rules, lambda: {"destructive_repeat": near["destructive_repeat"]}
    )
    beside, shadow = Controller(Policy()).decide(SessionControl(), proposed(), [seen, other], rules, lambda: near)
    assert (beside, shadow) == (alone, None)


def test_the_policy_says_what_a_severity_leads_to() -> None:
    rule = Rule(levels={Severity.CRITICAL: Level.BLOCK})
    assert decide(finding(Severity.CRITICAL), rule=rule) == (Level.BLOCK, "loop_detected")


@pytest.mark.parametrize(
    ("seconds", "severities", "result"),
    [
        pytest.param((0, 10), "ll", [True, False], id="a nudge is not repeated within the cooldown"),
        pytest.param((0, 30), "ll", [True, True], id="it is after the cooldown"),
        pytest.param((0, 10), "lh", [True, True], id="a harder one does not wait"),
        pytest.param((0, 10), "hh", [True, True], id="a refusal is said each time"),
    ],
)
def test_cooldown(seconds: tuple[float, ...], severities: str, result: list[bool]) -> None:
    standing = SessionControl()
    by_letter = {"l": Severity.LOW, "h": Severity.HIGH}
    decisions = [
        decide(finding(by_letter[letter]), standing=standing, event=proposed(second))
        for second, letter in zip(seconds, severities, strict=True)
    ]
    assert [d is not None for d in decisions] == result


def test_a_hint_held_back_by_the_cooldown_still_answers_who_awaits() -> None:
    standing = SessionControl()
    decide(finding(Severity.LOW), standing=standing)
    again = decide(finding(Severity.LOW), standing=standing, event=proposed(1, await_verdict=True))
    assert again == (Level.ALLOW, "allowed")


def test_the_same_finding_makes_the_same_decision_id() -> None:
    ids = set()
    for _ in range(2):
        decision, _ = Controller(Policy()).decide(
            SessionControl(), proposed(), [finding(Severity.LOW)], {"destructive_repeat": Rule()}, dict
        )
        assert decision is not None
        ids.add(decision.decision_id)
    assert len(ids) == 1


def test_after_a_kill_every_proposal_is_refused_and_counted() -> None:
    standing = SessionControl()
    decide(finding(Severity.CRITICAL), standing=standing)
    assert decide(standing=standing, event=proposed(20)) == (Level.KILL, "session_killed_loop_guard")
    assert decide(standing=standing, event=proposed(21)) == (Level.KILL, "session_killed_loop_guard")
    assert standing.after_kill == 2


def command(kind: CommandKind, scope: ScopeKind = ScopeKind.SESSION, scope_id: str = "s1") -> Command:
    return Command(command_id="k1", kind=kind, scope=scope, id=scope_id, by="alice", reason="it loops", time=T0_MS)


def test_an_operators_kill_is_a_decision_once() -> None:
    standing = SessionControl()
    controller = Controller(Policy())
    first = controller.kill(standing, command(CommandKind.KILL), "a1")
    assert first is not None
    assert (first.level, first.code, first.reason) == (
        Level.KILL,
        "session_killed_by_operator",
        "killed by alice: it loops",
    )
    assert controller.kill(standing, command(CommandKind.KILL), "a1") is None


def feedback(stage: Stage, decision_id: str, *, at_ms: int = T0_MS + 40) -> Feedback:
    return Feedback(
        feedback_id="f1", decision_id=decision_id, session_id="s1", stage=stage, time=at_ms, decided_at=T0_MS
    )


@pytest.mark.parametrize(
    ("stage", "known", "done"),
    [
        pytest.param(Stage.STOPPED, True, True, id="stopped, by the kill's own id, is done"),
        pytest.param(Stage.RECEIVED, True, False, id="received is not done"),
        pytest.param(Stage.STOPPED, False, False, id="an answer to another decision is not"),
    ],
)
def test_a_kill_is_done_when_its_stop_is_acknowledged(stage: Stage, known: bool, done: bool) -> None:
    standing = SessionControl()
    decide(finding(Severity.CRITICAL), standing=standing)
    assert standing.killed is not None
    answer = feedback(stage, standing.killed.decision_id if known else "another")
    assert Controller.acknowledge(standing, answer) is done
    assert standing.killed.time_to_stop_ms == (40 if done else None)


def test_a_stop_that_comes_before_its_kill_is_not_forgotten() -> None:
    standing, twin = SessionControl(), SessionControl()
    decide(finding(Severity.CRITICAL), standing=twin)
    assert twin.killed is not None
    for decision_id in ("x1", "x2", "x3", "x4", twin.killed.decision_id):
        assert not Controller.acknowledge(standing, feedback(Stage.STOPPED, decision_id))
    assert list(standing.stopped_early) == ["x2", "x3", "x4", twin.killed.decision_id]
    decide(finding(Severity.CRITICAL), standing=standing)
    assert standing.killed is not None
    assert (standing.killed.stopped_at_ms, standing.killed.time_to_stop_ms) == (T0_MS + 40, 0)


def test_a_second_acknowledgement_changes_nothing() -> None:
    standing = SessionControl()
    decide(finding(Severity.CRITICAL), standing=standing)
    assert standing.killed is not None
    first = feedback(Stage.STOPPED, standing.killed.decision_id)
    later = feedback(Stage.STOPPED, standing.killed.decision_id, at_ms=T0_MS + 9000)
    assert [Controller.acknowledge(standing, f) for f in (first, later)] == [True, False]
    assert standing.killed.time_to_stop_ms == 40


def test_the_control_record_says_what_stands() -> None:
    standing = SessionControl()
    decide(finding(Severity.CRITICAL), standing=standing)
    assert standing.killed is not None
    record = control_record("s1", "a1", standing.killed)
    assert (record.key, record.state, record.code, record.stopped_at) == (
        "session:s1",
        ControlState.KILLED,
        "session_killed_loop_guard",
        None,
    )
