"""The loop guard's scenario and its variations, and the rules that run in each group, through the pure core."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson
import pytest

from haltline.detectors import PATTERNS
from haltline.interventions.agent.novelty import SeenWords
from haltline.interventions.levels.default_levels import default_mode, is_ask
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import ActionEvent, Kind, Outcome, Task
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import MAX_SEEN, Core, Position, SessionState
from haltline.streams.engine.core import Effects as Followed
from haltline.streams.engine.local_fleet import decisions_of
from haltline.streams.policy.loader import parse_policy
from haltline.streams.sessions import state_codec
from tests.builders import at, bash, call, cases, event


def attempt(second: float, target: str = "asset_id=fact_sales", **fields: object) -> ActionEvent:
    name = f"@{second}:{target}"
    of_call = {"event_id": f"p{name}", "call_id": f"c{name}", "action": "delete_asset", "targets": [target]}
    of_session = {"session_id": "s1", "agent_id": "cleaner", "time": at(second), "await_verdict": True}
    return ActionEvent.model_validate({"kind": Kind.PROPOSED} | of_session | of_call | fields)


def result(second: float, of: ActionEvent, outcome: Outcome = Outcome.ERROR) -> ActionEvent:
    error = "asset still exists" if outcome is Outcome.ERROR else None
    of_call = {"event_id": of.event_id.replace("p@", "r@"), "call_id": of.call_id, "outcome": outcome, "error": error}
    of_session = {"session_id": of.session_id, "agent_id": of.agent_id, "time": at(second)}
    return ActionEvent.model_validate({"kind": Kind.COMPLETED} | of_session | of_call)


class Session:
    """One session through the core, its state through the real codec after every step."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.core = Core(policy)
        self.state: SessionState | None = None
        self.offset = 0

    def __call__(self, given: ActionEvent | Command) -> Followed:
        take: Callable[..., Followed] = self.core.on_event if isinstance(given, ActionEvent) else self.core.on_command
        followed = take(self.state, given, Position("haltline.actions", 0, self.offset))
        self.offset += 1
        self.state = state_codec.decode(state_codec.encode(followed.state))
        return followed

    def deletes(self, seconds: Sequence[float], targets: str) -> list[str]:
        """The verdicts on deletes at these seconds, each executed when it was allowed."""
        verdicts = []
        for second, target in zip(seconds, targets, strict=True):
            event = attempt(second, f"asset_id={target}")
            followed = self(event)
            decision = followed.decision
            assert decision is not None, "every awaited verdict is answered"
            verdicts.append(f"{decision.level.value} {decision.code}")
            refused = decision.level >= Level.PAUSE
            self(result(second + 0.2, event, Outcome.REFUSED if refused else Outcome.ERROR))
        return verdicts


ALLOWED = "ALLOW allowed"
SUSPECTED = "NUDGE loop_suspected"
KILLED = "KILL session_killed_loop_guard"
ASKED = "PAUSE destructive_volume"
A_LONG_WINDOW = Policy(rules={"destructive_repeat": Rule(settings={"window_s": 600_000})})
A_DAY = 86_400


@cases(
    "policy, seconds, targets, verdicts",
    {
        "different assets are too many as well": (None, (0, 6, 12), "abc", [ALLOWED, ALLOWED, ASKED]),
        "an entry exactly as old as the window still counts": (None, (0, 30, 60), "aaa", [ALLOWED, SUSPECTED, KILLED]),
        "a late one counts at its own time": (None, (0, 6, 3), "aaa", [ALLOWED, SUSPECTED, KILLED]),
        "a kill stands after days": (None, (0, 6, 12, 3 * A_DAY), "aaaa", [ALLOWED, SUSPECTED, KILLED, KILLED]),
        "who was idle for a day starts anew": (A_LONG_WINDOW, (0, 1, 3 * A_DAY), "aaa", [ALLOWED, SUSPECTED, ALLOWED]),
    },
)
def test_deletes(policy: Policy | None, seconds: tuple[float, ...], targets: str, verdicts: list[str]) -> None:
    session = Session(policy)
    assert session.deletes(seconds, targets) == verdicts
    refused = Session()
    for second in (0.0, 1.0, 2.0):
        event = attempt(second)
        refused(event)
        refused(result(second + 0.1, event, Outcome.REFUSED))
    assert refused.state is not None
    assert refused.state.control.killed is None, "refused attempts are no deletes"


@pytest.mark.parametrize("same", ["offset", "event_id"])
def test_an_event_that_comes_twice_changes_nothing_and_the_ring_of_seen_ones_is_bounded(same: str) -> None:
    core = Core()
    first = core.on_event(None, attempt(0), Position("haltline.actions", 0, 5))
    before = {**state_codec.shown(first.state), "offsets": {}}
    again = core.on_event(first.state, attempt(0), Position("haltline.actions", 0, 5 if same == "offset" else 6))
    after = {**state_codec.shown(again.state), "offsets": {}}
    assert (again.applied, again.decision, after) == (False, None, before)
    session = Session()
    for second in range(MAX_SEEN + 20):
        session(attempt(second, action="read_file", effect="read"))
    assert session.state is not None
    assert len(session.state.seen) == MAX_SEEN * 6


def carried_out(second: float, **fields: Any) -> ActionEvent:
    output: dict[str, Any] = {"kind": Kind.COMPLETED, "outcome": Outcome.OK, "await_verdict": False}
    return attempt(second, **(output | fields))


@cases(
    "event, found",
    {
        "an act that nobody asked about is an incident": (carried_out(60), True),
        "a proposal that asks is refused, and an incident": (attempt(60), True),
        "just after the grace time": (attempt(22.001, await_verdict=False), True),
        "within the grace time": (attempt(22), False),
        "a refusal shows that the kill holds": (carried_out(60, outcome=Outcome.REFUSED), False),
        "the end of what had begun before": (carried_out(60, call_id="open", action="read_asset"), False),
        "a model turn": (attempt(60, kind=Kind.MODEL_TURN, action="", targets=[], await_verdict=False), False),
    },
)
def test_what_a_killed_session_begins_after_the_grace_time_is_an_incident(event: ActionEvent, found: bool) -> None:
    session = Session()
    session(attempt(9, "asset_id=other", action="read_asset", call_id="open"))
    session(Command(command_id="k", kind=CommandKind.KILL, id="s1", by="alice", reason="as agreed", time=at(12)))
    followed = session(event)
    assert [d.finding.code for d in followed.detections] == ["activity_after_kill"] * found
    if not found:
        assert followed.decision is None or not followed.decision.flag
        return
    (detection,), decision = followed.detections, followed.decision
    assert decision is not None
    assert (detection.finding.severity, detection.mode) == (Severity.CRITICAL, Mode.ENFORCE)
    assert (detection.decision_id, decision.level, decision.flag) == (decision.decision_id, Level.KILL, True)
    assert detection.finding.evidence[-1].event_id == event.event_id
    assert decision.code == "session_killed_by_operator"


LOOK = bash(0, "cat /etc/shadow")
"""An attempt that the review of steps, in shadow by default, looks at and remembers."""
OF_REVIEWS = {
    "name": "reviewed", "type": "event_count", "select": {"found": {"finding": "step_review"}}, "timespan": "1m",
    "condition": {"gte": 1},
}  # fmt: skip
DRIFTING = [
    event(0, "", kind=Kind.SESSION_STARTED, outcome=None, task={"goal": "Repair invoice export rounding"}),
    *(event(s, "edit", args={"what": "repair rounding invoice export"}) for s in range(1, 5)),
    *(event(s, "edit", args={"what": f"beautiful holiday pictures {chr(92 + s)}"}) for s in range(5, 15)),
]


def looked(policy: Policy, *, alone: bool) -> set[str]:
    """The detectors that made a state of their own."""
    return set(Core(policy, alone=alone).on_event(None, LOOK).state.detectors)


def test_a_worker_runs_what_is_in_shadow_and_what_was_measured_is_forgotten_when_no_rule_asks() -> None:
    named = Policy(rules={"step_review": Rule()})
    worker, alone = looked(named, alone=False), looked(Policy(), alone=True)
    assert "step_review" in worker - alone
    assert alone == {name for name in worker if default_mode(name) is not Mode.SHADOW}
    for mode in (Mode.WARN, Mode.ENFORCE):
        assert "step_review" in looked(Policy(rules={"step_review": Rule(mode=mode)}), alone=True)
    for rules in ({}, {"goal_drift": Rule(enabled=False)}):
        assert "goal_drift" not in Core(Policy(rules=rules)).on_event(None, DRIFTING[0]).state.detectors
    # Steps that were not seen must not look new when a rule asks again.
    idle = Policy(rules={name: Rule(enabled=False) for name in PATTERNS if name != "error_repetition"})
    state = steps_measured(None, Policy(), [bash(0, "ls", output_head="a b")])
    assert state.calls.novelty.steps == 1, "a rule asks for it"
    state = steps_measured(state, idle, [bash(1, "ls", output_head="a b")])
    assert state.calls.novelty.steps == 0
    assert steps_measured(state, Policy(), [bash(2, "ls", output_head="a b")]).calls.novelty.steps == 1


@pytest.mark.parametrize(("status", "runs"), [("stable", True), ("test", True), ("experimental", False)])
def test_what_a_correlation_goes_by_is_looked_for(status: str, *, runs: bool) -> None:
    policy = parse_policy(orjson.dumps({"correlations": [OF_REVIEWS | {"status": status}]}).decode())
    assert ("step_review" in looked(policy, alone=True)) is runs


def steps_measured(state: SessionState | None, policy: Policy, events: Iterable[ActionEvent]) -> SessionState:
    core = Core(policy)
    for one in events:
        state = core.on_event(state, one).state
    assert state is not None
    return state


CORE = Core(Policy())


def decided(events: Iterable[ActionEvent]) -> list[tuple[str, Level]]:
    """Rule and level of everything that the agent is told."""
    state, told = None, []
    for one in events:
        effects = CORE.on_event(state, one)
        state = effects.state
        told += [(d.detector, d.level) for d in decisions_of(effects) if d.level > Level.ALLOW]
    return told


def prompt(second: float, number: int) -> ActionEvent:
    return event(second, "", kind=Kind.SESSION_STARTED, task=Task(prompts=number))


def failing(second: float) -> list[ActionEvent]:
    return list(call(second, "get_order", "order=W1", "order not found", args={"order_id": "W1"}))


def each_after_a_prompt(number: int, events: Callable[[float], list[ActionEvent]], *, told: bool) -> list[ActionEvent]:
    """The same asked for again and again; `told`: the agent's side says that a person did so."""
    result = []
    for n in range(number):
        result += [prompt(60 * n, n + 1)] if told or not n else []
        result += events(60 * n + 5)
    return result


def test_what_a_person_asks_for_once_more_is_no_loop_but_a_loop_after_a_prompt_is_and_harm_counts_on() -> None:
    assert decided(each_after_a_prompt(8, failing, told=True)) == []
    assert [level for _, level in decided(each_after_a_prompt(8, failing, told=False))][-1] >= Level.PAUSE
    looping = [one for n in range(8) for one in failing(65 + 5 * n)]
    levels = [level for _, level in decided([prompt(0, 1), *failing(5), prompt(60, 2), *looping])]
    assert levels[-1] >= Level.PAUSE

    def destroy(second: float) -> list[ActionEvent]:
        return list(call(second, "delete_asset", "asset_id=fact_sales", args={"asset_id": "fact_sales"}))

    assert decided(each_after_a_prompt(3, destroy, told=True))[-1] == ("destructive_repeat", Level.KILL)


Act = tuple[str, dict[str, object], str]
"""A tool, its arguments and its result."""


def unlocks_a_phone() -> Iterator[Act]:
    """Each step is for the customer to take at the phone; the line is looked at after each, and says the same."""
    for step in ("airplane mode off", "SIM seated again", "network mode 4G", "APN reset", "phone restarted", "VPN off"):
        yield "think", {"thought": f"Next: {step}"}, ""
        yield "get_line_details", {"line_id": "L1002"}, '{"line_id": "L1002", "status": "active", "roaming": false}'
        yield "check_network_status", {"line_id": "L1002"}, "No service"
    yield "enable_roaming", {"line_id": "L1002"}, "Roaming enabled"
    yield "check_network_status", {"line_id": "L1002"}, "Connected, 4G"


def test_customer_service_is_never_stopped() -> None:
    """Only the prompts distinguish it from an agent that reads the same line repeatedly."""
    seen, events = SeenWords(), [prompt(0, 1)]
    for number, (tool, args, result) in enumerate(unlocks_a_phone()):
        if number and number % 3 == 0:
            events.append(prompt(30 * number + 1, 2 + number))
        fields: dict[str, Any] = {"output_head": result, "output_bytes": len(result)}
        novelty = seen.take(result, None, args=args)
        events += call(30 * number + 5, f"mcp__shop__{tool}", args=args, output_novelty=novelty, **fields)
    stops = [(rule, level) for rule, level in decided(events) if level >= Level.PAUSE and not is_ask(rule, level)]
    assert stops == []
