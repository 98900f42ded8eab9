"""Correlation rules, from the policy document to the decision."""

from collections.abc import Sequence
from typing import Any

import jsonschema
import orjson
import pytest

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core, Effects, Position, SessionState
from haltline.streams.policy.json_schema import policy_schema
from haltline.streams.policy.loader import BadPolicy, parse_policy
from haltline.streams.sessions import state_codec
from tests.builders import T0_MS, bash, call, cases, delete, each, event

COUNT: dict[str, Any] = {
    "name": "many",
    "type": "event_count",
    "select": {"exports": {"action": "export_*"}},
    "timespan": "1m",
    "condition": {"gte": 3},
}


def rule(**result: Any) -> dict[str, Any]:
    return {name: value for name, value in (COUNT | result).items() if value is not None}


def policy(*rules: dict[str, Any], **fields: Any) -> Policy:
    # Nothing else is to say anything, but for what is selected.
    return parse_policy(orjson.dumps({"correlations": rules, **fields}).decode())


def exports(*seconds: float, **fields: Any) -> list[ActionEvent]:
    return [event(s, "export_table", f"table=t{s:g}", **fields) for s in seconds]


def run(document: Policy, events: Sequence[ActionEvent], *, restart: bool = False) -> list[Effects]:
    core, state = Core(document), SessionState("s1")
    outcomes = []
    for offset, item in enumerate(events):
        outcomes.append(core.on_event(state, item, Position("haltline.actions", 0, offset)))
        state = outcomes[-1].state
        assert not outcomes[-1].failures
        if restart:
            state = state_codec.decode(state_codec.encode(state))
    return outcomes


def fires_at(document: Policy, events: Sequence[ActionEvent]) -> list[float]:
    """Seconds of the events on which the correlation rules found something, with a restart after each event."""
    outcomes = zip(events, run(document, events, restart=True), strict=True)
    found = [(item.time, d.finding.detector) for item, outcome in outcomes for d in outcome.detections]
    return [(time - T0_MS) / 1000 for time, detector in found if detector.startswith("correlation_")]


NUMBERS = [event(s, "put", args={"n": n}) for s, n in enumerate((30, 5, 1, "many"))]


@cases(
    "fields, inputs, seconds",
    {
        "below the count": ({}, exports(0, 10), []),
        "further apart than the timespan": ({}, exports(0, 30, 61), []),
        "slow, within the last actions": ({"last_actions": 5}, exports(0, 300, 600), [600]),
        "all that is said": ({"condition": {"gte": 2, "neq": 3}}, exports(0, 1, 2, 3), [1, 3]),
        "by error, when it is known": (
            {"select": {"failed": {"error": "*quota*"}}},
            [e for s in range(4) for e in call(s * 5, "put", error="over quota: 7")],
            [10.5, 15.5],
        ),
        "by target": (
            {"select": {"prod": {"target": "table=prod.*"}}},
            [event(s, "look", f"table={'prod' if s % 2 else 'test'}.x") for s in range(6)],
            [5],
        ),
        "by effect, this one or a more harmful one": (
            {"select": {"harm": {"effect": "mutate"}}},
            [event(0, "update_row"), event(1, "get_row"), delete(2, "x=1"), event(3, "set_row")],
            [3],
        ),
        "by kind": ({"select": {"turns": {"kind": "model.turn"}}}, each(3, event, "", kind=Kind.MODEL_TURN), [2]),
        "what is grouped by is not there": ({"group_by": ["args.format"]}, exports(0, 1, 2), []),
        "different values": (
            {"type": "value_count", "condition": {"gte": 3, "field": "target"}},
            [event(s, "export_table", f"table=t{s // 2}") for s in range(6)],
            [4, 5],
        ),
        "a sum": (
            {"type": "value_sum", "condition": {"gt": 100, "field": "output_bytes"}, "select": {"r": {"on": "result"}}},
            [event(s, "read", output_bytes=40 + s) for s in range(4)],
            [2, 3],
        ),
        "a mean, of numbers only": (
            {"type": "value_avg", "condition": {"lt": 13, "field": "args.n"}, "select": {"all": {}}},
            NUMBERS,
            [2],
        ),
    },
)
def test_counts_sums_and_means(fields: dict[str, Any], inputs: list[ActionEvent], seconds: list[float]) -> None:
    assert fires_at(policy(rule(**fields)), inputs) == seconds


SECRETS = {"secret": {"action": "read_secret"}, "upload": {"action": "http_*"}, "wipe": {"action": "wipe_*"}}


def steps(names: str) -> list[ActionEvent]:
    """`s` reads a secret, `u` uploads, `w` wipes, `.` does something else; a minute each."""
    tools = {"s": "read_secret", "u": "http_post", "w": "wipe_log", ".": "look"}
    return [event(60 * n, tools[name], f"x={n}") for n, name in enumerate(names)]


@cases(
    "kind, names, seconds",
    {
        "all of them, in any order": ("temporal", "uw.s", [180]),
        "too far apart": ("temporal", "s......uw", []),
        "in order": ("temporal_ordered", "suw", [120]),
        "not in order": ("temporal_ordered", "usw", []),
    },
)
def test_several_selections(kind: str, names: str, seconds: list[float]) -> None:
    document = policy(rule(name="leak", type=kind, select=SECRETS, timespan="5m", condition=None))
    assert fires_at(document, steps(names)) == seconds


def test_an_event_that_comes_late_takes_its_place_in_the_order() -> None:
    document = policy(rule(name="leak", type="temporal_ordered", select=SECRETS, timespan="5m", condition=None))
    secret, upload, wipe = steps("suw")
    assert fires_at(document, [secret, wipe, upload]) == [60]


def test_findings_of_other_rules_and_of_other_correlations_are_selected() -> None:
    push = {"action": "bash", "args": {"command": "git push*"}}
    select = {"loop": {"finding": "destructive_*", "severity": "low"}, "push": push}
    document = policy(rule(type="temporal_ordered", select=select, timespan="1h", condition=None))
    events = [delete(0, "x=1"), bash(5, "git push"), delete(300, "x=1"), bash(310, "git push")]
    assert fires_at(document, events) == [310]
    first = rule(name="many")
    second = rule(name="many_twice", select={"m": {"finding": "correlation_many"}}, condition={"gte": 2})
    assert fires_at(policy(first, second), exports(0, 1, 2, 3)) == [2, 3, 3]


@cases(
    "fields, rules, mode, level",
    {
        "experimental is only recorded": ({}, {}, Mode.SHADOW, Level.ALLOW),
        "test warns": ({"status": "test", "severity": "critical"}, {}, Mode.WARN, Level.NUDGE),
        "by its own level": ({"status": "stable", "level": "KILL"}, {}, Mode.ENFORCE, Level.KILL),
        "a rule of its name says more": ({}, {"correlation_many": {"mode": "enforce"}}, Mode.ENFORCE, Level.NUDGE),
    },
)
def test_the_status_says_how_far_it_is_trusted(
    fields: dict[str, Any], rules: dict[str, Any], mode: Mode, level: Level
) -> None:
    decision = run(policy(rule(**fields), rules=rules), exports(0, 1, 2))[-1].decision
    assert decision is not None
    assert decision.code.removeprefix("session_killed_correlation_") == "many"
    assert (decision.detector, decision.mode, decision.level) == ("correlation_many", mode, level)


def test_a_rule_switches_one_off_for_some_sessions() -> None:
    off = {"correlation_many": {"enabled": False}}
    exempt = {"by": "ada", "reason": "a migration", "expires": T0_MS + 10_000}
    document = policy(rule(), overrides=[{"session": "s1", "rules": off, "exemption": exempt}])
    assert fires_at(document, exports(0, 1, 2, 3)) == []
    assert fires_at(document, exports(20, 21, 22)) == [22]
    assert fires_at(policy(rule(), rules=off), exports(0, 1, 2, 3)) == []


def test_a_rule_that_looks_for_something_else_begins_anew_and_another_status_does_not() -> None:
    before = policy(rule(type="value_count", condition={"gte": 3, "field": "target"}))
    state = run(before, exports(0, 1))[-1].state
    trusted = policy(rule(type="value_count", condition={"gte": 3, "field": "target"}, status="stable"))
    other = policy(rule(type="value_sum", condition={"gte": 3, "field": "args.n"}))
    for document, found in ((trusted, 1), (other, 0)):
        outcome = Core(document).on_event(state_codec.decode(state_codec.encode(state)), exports(2, args={"n": 1})[0])
        assert outcome.failures == ()
        assert len(outcome.detections) == found


@pytest.mark.parametrize("n", [2**60, 1e300, True, "5", None, [5]])
def test_what_is_no_number_of_a_sensible_size_is_not_added(n: object) -> None:
    document = policy(rule(type="value_sum", select={"all": {}}, condition={"gte": 1, "field": "args.n"}))
    (outcome,) = run(document, [event(0, "put", args={"n": n})], restart=True)
    assert outcome.detections == ()


def test_what_is_remembered_is_bounded() -> None:
    document = policy(rule(timespan="30d", condition={"gte": 127}, group_by=["target"]))
    core, state = Core(document), SessionState("s1")
    sizes = []
    for second in range(300):
        made = event(second, "export_table", f"table={second % 7}{'x' * 400}", event_id=f"{second}{'e' * 240}")
        state = core.on_event(state, made).state
        sizes.append(len(orjson.dumps(state.detectors["correlation_many"])))
    assert max(sizes) <= 64 * 1024
    assert sizes[-1] <= sizes[200] * 1.01


@cases(
    "result, line, message",
    {
        "no condition": ({"condition": None}, 3, "expected a condition with one of gt, gte"),
        "no limit": ({"condition": {"field": "target"}}, 3, "expected a condition with one of gt"),
        "a count that is low from the start": ({"condition": {"lt": 3}}, 3, "expected a count to reach"),
        "more than is remembered": ({"condition": {"gte": 128}}, 3, "at most 127"),
        "a sum of nothing": ({"type": "value_sum"}, 3, "expected condition.field for value_count"),
        "a count of a field": ({"condition": {"gte": 3, "field": "target"}}, 3, "and for no other type"),
        "one selection": ({"type": "temporal"}, 3, "expected two selections or more and no condition"),
        "too long": ({"timespan": "31d"}, 3, "expected a timespan of at most 30d, got 31d"),
        "a timespan that is none": ({"timespan": "1 hour"}, 6, "should match pattern"),
        "nothing selected": ({"select": {}}, 5, "at least 1 item"),
    },
)
def test_a_wrong_rule_is_refused_with_its_line(result: dict[str, Any], line: int, message: str) -> None:
    whole = {"name": "many", "type": "event_count", "select": {"e": {}}, "timespan": "1m"}
    fields = {**whole, **({"group_by": []} if "group_by" in result else {}), "condition": {"gte": 3}} | result
    lines = [f"  {name}: {orjson.dumps(value).decode()}" for name, value in fields.items() if value is not None]
    text = "correlations:\n -\n" + "\n".join(lines)
    with pytest.raises(BadPolicy, match=message) as raised:
        parse_policy(text)
    assert str(raised.value).startswith(f"policy:{line}: correlations.0")


def test_the_published_schema_knows_them_and_rules_of_one_name_or_about_none_are_refused() -> None:
    validator = jsonschema.Draft202012Validator(policy_schema())
    good = {"correlations": [rule()], "rules": {"correlation_many": {"mode": "warn"}}}
    assert list(validator.iter_errors(good)) == []
    assert not validator.is_valid({"correlations": [rule(timespan="soon")]})
    assert not validator.is_valid({"correlations": [rule(type="count")]})
    assert not validator.is_valid(good | {"rules": {"correlation_many": {"mood": "warn"}}})
    with pytest.raises(BadPolicy, match=r"correlations\.1\.name: expected each name once, got 'many' again"):
        policy(rule(), rule())
    with pytest.raises(BadPolicy, match=r"rules\.correlation_few: expected one of .*, correlation_many, got"):
        policy(rule(), rules={"correlation_few": {}})
