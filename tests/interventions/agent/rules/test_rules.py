from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haltline.interventions.agent.rules import constraints
from haltline.interventions.agent.rules.book import RuleBook
from haltline.interventions.agent.rules.budgets import Budget
from haltline.interventions.agent.rules.evidence import Evidence
from haltline.interventions.agent.rules.objection import TEXTS, Objection
from haltline.interventions.agent.rules.replays import Kept, Replays
from haltline.interventions.agent.rules.settings import Arguments, ClientRules, Constraint, LoopRule, RateLimit
from haltline.interventions.agent.rules.throttled import MIB, Throttled
from haltline.interventions.agent.rules.windows import Loop, Rate
from haltline.schemas.events import Effect, Usage
from tests.builders import cases, some

S = 1000  # ms


@cases(
    "spent, reported",
    {
        "at the threshold": ([0.8], [80.0]),
        "once": ([0.8, 0.05], [80.0, None]),
        "again at the next one": ([0.8, 0.15], [80.0, 95.0]),
        "only the highest of those that were passed at once": ([0.99, 0.0], [95.0, None]),
        "eight times 0.1 of 1 is 80 percent": ([0.1] * 8, [None] * 7 + [80.0]),
    },
)
def test_a_budget_is_warned_of(spent: Sequence[float], reported: Sequence[float | None]) -> None:
    budget = Budget("session", 1.0, warn_at=(95.0, 80.0))
    actual = []
    for usd in spent:
        budget.spend(usd)
        warning = budget.warning()
        actual.append(None if warning is None else warning.thresholds["warn_at_percent"])
    assert actual == reported


@given(
    limit=st.integers(0, 50),
    calls=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["end", "fail", "release", "leave open"])), max_size=30
    ),
)
def test_a_budget_is_never_overdrawn_by_calls_at_their_estimate(limit: int, calls: list[tuple[int, str]]) -> None:
    book = RuleBook(ClientRules(session_budget=limit / 10))  # ten times 0.1 is 1, though not in binary
    held = spent = 0
    for cost, how in calls:
        ticket = some(book.begin("act", {}, 0, cost_usd=cost / 10))
        assert (ticket.refused is None) is (held + spent + cost <= limit)
        if ticket.refused is not None or how == "release":
            book.release(ticket)
        elif how == "leave open":
            held += cost
        else:
            book.end(ticket, 0, ok=how == "end")
            spent += cost
        assert spent <= limit
        assert book.spent_usd == spent / 10


@given(count=st.sampled_from((0, 1, 2, 5, 40)), gaps_ms=st.lists(st.integers(0, 4000) | st.just(5000), max_size=60))
@example(count=40, gaps_ms=[0] * 41)
@example(count=1, gaps_ms=[0, 5000, 1])
def test_no_window_ever_holds_more_than_the_limit(count: int, gaps_ms: list[int]) -> None:
    rate, now = Rate("a", RateLimit(max_count=count, window_seconds=5)), 0
    passed: list[int] = []
    for gap in gaps_ms:
        now += gap
        objection = rate.against(now)
        within = [at for at in passed if now - at <= 5 * S]
        assert (objection is None) is (len(within) < count)
        if objection is None:
            rate.note(now)
            passed.append(now)
        elif count:
            assert rate.against(now + (objection.retry_after_s or 0) * S) is None, "what it says to wait is enough"


def call(**args: Any) -> dict[str, Any]:
    return args


@cases(
    "rule, calls, loops",
    {
        "the fifth equal call within ten seconds": ({}, [(0, call(a=1))] * 5, [4]),
        "the first exactly ten seconds old counts": ({}, [(i * 2.5, call(a=1)) for i in range(5)], [4]),
        "five over eleven seconds are none": ({}, [(i * 2.75, call(a=1)) for i in range(5)], []),
        "other arguments are other calls": ({}, [(0, call(a=i)) for i in range(9)], []),
        "what varies by itself is left out": ({"arg_exclude": ("id",)}, [(0, call(a=1, id=i)) for i in range(5)], [4]),
        "the order of arguments says nothing": ({}, [(0, call(a=1, b=2)), (0, call(b=2, a=1))] * 3, [4, 5]),
        "arguments that JSON does not know are compared too": ({}, [(0, call(a=2**80))] * 5, [4]),
    },
)
def test_a_loop_rule(rule: dict[str, Any], calls: Sequence[tuple[float, dict[str, Any]]], loops: Sequence[int]) -> None:
    loop = Loop(LoopRule(**rule))
    found = [loop.against("search", args, round(at * S)) for at, args in calls]
    assert [number for number, objection in enumerate(found) if objection is not None] == loops


def begun(rules: ClientRules, action: str) -> str | None:
    """The code of the objection to a first call; None: it may be made."""
    refused = some(RuleBook(rules).begin(action, {}, 0)).refused
    return None if refused is None else refused.code


TYPE = "must be of type"
ARGUMENTS: list[tuple[dict[str, Any], list[Any], dict[str, list[Any]]]] = [
    ({"type": "string"}, ["a"], {f"{TYPE} string": [1]}),
    ({"type": "integer"}, [2.0], {f"{TYPE} integer": [2.5, True]}),
    ({"type": "number"}, [1.5], {f"{TYPE} number": [False]}),
    ({"type": "object"}, [{}], {f"{TYPE} object": [[]]}),
    ({"type": "null"}, [None], {}),
    ({"minimum": 1}, [1], {"must be at least 1": [0]}),
    # What is no number, and a number in a text or a list, is no way around.
    (
        {"maximum": 500},
        [500, None],
        {"must be at most 500": [500.01, float("nan"), Decimal(900)], "must be a number": ["900", [900]]},
    ),
    ({"enum": ["EUR", "USD"]}, ["EUR"], {"must be one of EUR, USD": ["GBP"]}),
    ({"enum": [1]}, [1], {"must be one of 1": [True]}),
    # A path is a text; one in a list or an object is no way around.
    (
        {"pattern": "^[a-z]+$"},
        ["abc", Path("abc"), None],
        {"must match ^[a-z]+$": ["a1", Path("/etc")], "must be a text": [["A1"], {"a": 1}, 17]},
    ),
    ({"pattern": "b"}, ["abc"], {}),  # found anywhere, as in JSON Schema
    (
        {"max_length": 3},
        [[1, 2, 3]],
        {"must not be longer than 3": ["abcd", dict.fromkeys("abcd"), Path("/etc"), 1234]},
    ),
]
"""A constraint, what it lets pass, and what is wrong with other values."""


@pytest.mark.parametrize(("expected", "right", "wrong"), ARGUMENTS, ids=[str(row[0]) for row in ARGUMENTS])
def test_an_argument(expected: dict[str, Any], right: list[Any], wrong: dict[str, list[Any]]) -> None:
    arguments = Arguments(properties={"x": Constraint(**expected)})
    for value in right:
        assert constraints.against("act", arguments, {"x": value}) is None
    for text, values in wrong.items():
        for value in values:
            objection = some(constraints.against("act", arguments, {"x": value}))
            assert objection.argument_violations == (f"x {text}",)


@cases(
    "fields",
    {
        "denied": {"denied_actions": ["delete_*"]},
        "an argument is missing": {"argument_constraints": {"delete_*": {"required": ["why"]}}},
        "too often": {"rate_limits": {"delete_*": {"max_count": 0, "window_seconds": 60}}},
        "nothing was looked up": {"evidence_requirements": {"delete_*": ["look"]}},
    },
)
def test_what_forbids_holds_under_every_servers_prefix(fields: dict[str, Any]) -> None:
    rules = ClientRules.model_validate(fields)
    names = ("delete_asset", "mcp__catalog__deleteAsset", "catalog.delete-asset")
    assert None not in [begun(rules, name) for name in names]


def test_lists_allow_under_the_whole_name_only_and_what_is_denied_is_so_though_it_is_allowed_too() -> None:
    rules = ClientRules(allowed_actions=("*_asset", "look"), denied_actions=("delete_*",))
    expected = {
        "get_asset": None,
        "look": None,
        "mcp__elsewhere__look": "not_in_allowlist",
        "delete_asset": "denied_action",
        "send_mail": "not_in_allowlist",
    }
    assert {name: begun(rules, name) for name in expected} == expected


def test_required_arguments_and_all_that_is_wrong_are_reported_at_once() -> None:
    expected = Arguments(required=("to", "amount"), properties={"note": Constraint(type="string")})
    objection = some(constraints.against("pay", expected, {"to": None, "note": 3}))
    assert objection.argument_violations == ("to is required", "amount is required", "note must be of type string")
    assert constraints.against("pay", expected, {"to": "a", "amount": 1}) is None


@cases(
    "seen, now_s, code",
    {
        "nothing was looked up": ([], 0, "missing_evidence"),
        "it was": ([("lookup_order", 0)], 10, None),
        "as long ago as is allowed": ([("lookup_order", 0)], 60, None),
        "longer ago": ([("lookup_order", 0)], 60.001, "stale_evidence"),
    },
)
def test_evidence(seen: Sequence[tuple[str, float]], now_s: float, code: str | None) -> None:
    evidence = Evidence(["lookup_order"])
    for action, at in seen:
        evidence.note(action, round(at * S))
    objection = evidence.against("issue_refund", ["lookup_order"], 60.0, round(now_s * S))
    assert (objection.code if objection else None) == code


def test_a_result_is_given_again_until_it_is_too_old() -> None:
    replays = Replays(ttl_s=3600)
    assert replays.begin("pay", "k", 0) is None
    waiting = replays.begin("pay", "k", 1)
    assert isinstance(waiting, Objection)
    assert waiting.code == "idempotency_in_flight"
    replays.end("pay", "k", Kept("paid", True, 0))
    assert replays.begin("pay", "k", 3600 * S) == Kept("paid", True, 0)
    assert replays.begin("refund", "k", 3600 * S) is None, "of another tool it is another call"
    assert replays.begin("pay", "k", 3600 * S + 1) is None, "too old: to be recreated"


def test_what_failed_may_be_tried_again_and_what_is_kept_is_bounded() -> None:
    replays = Replays(ttl_s=3600, max_kept=2)
    for key, kept in (("k", None), ("k", None), *((key, Kept(key, True, 0)) for key in "abc")):
        assert replays.begin("pay", key, 0) is None
        replays.end("pay", key, kept)
    assert [replays.begin("pay", key, 0) is None for key in "abc"] == [True, False, False]


LIMITS = {"max_file_operations": 2.0, "max_tokens": 100.0, "max_memory_mb": 10.0, "batch_size": 4.0}


@cases(
    "used, effect, name",
    {
        "within": ([], Effect.WRITE, None),
        "too many writes": ([Effect.WRITE, Effect.MUTATE], Effect.WRITE, "max_file_operations"),
        "looking is never held back": ([Effect.WRITE, Effect.MUTATE], Effect.READ, None),
        "too many tokens": ([Usage(input_tokens=101)], Effect.EXEC, "max_tokens"),
        "too much memory": ([Usage(memory_bytes=11 * MIB)], Effect.EXEC, "max_memory_mb"),
    },
)
def test_limits_of_a_throttling(used: Sequence[Effect | Usage], effect: Effect, name: str | None) -> None:
    throttled = Throttled(hold_s=300)
    throttled.take(LIMITS, 0)
    for one in used:
        if isinstance(one, Usage):
            throttled.used(one)
        else:
            throttled.note(one)
    objection = throttled.against(effect, 1)
    assert (next(iter(objection.thresholds)) if objection else None) == name
    assert throttled.against(effect, 300 * S) is None, "over"


@given(taken=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60), st.integers(0, 3)), min_size=1, max_size=40))
def test_no_throttling_ever_lets_more_pass_than_it_says(taken: list[tuple[int, int, int]]) -> None:
    throttled = Throttled(hold_s=300)
    stand: list[list[int]] = []  # value, until, used since
    for now, (value, for_s, tries) in enumerate(taken):
        throttled.take({"max_file_operations": value}, now, now + for_s)
        stand.append([value, now + for_s, 0])
        for _ in range(tries):
            if throttled.against(Effect.WRITE, now) is None:
                throttled.note(Effect.WRITE)
                for one in stand:
                    one[2] += 1
                assert all(used <= limit for limit, until, used in stand if now < until)


def test_the_stricter_of_two_files_holds_in_everything() -> None:
    one = ClientRules(
        session_budget=5,
        action_budgets={"a": 1, "b": 2},
        denied_actions=("x",),
        allowed_actions=("get_*", "put_*"),
        rate_limits={"a": RateLimit(max_count=5, window_seconds=60)},
        evidence_requirements={"r": ("l",)},
        evidence_max_age_seconds={"r": 60},
        strict_mode=False,
    )
    other = ClientRules(
        session_budget=3,
        run_budget=1,
        action_budgets={"b": 1},
        denied_actions=("y",),
        allowed_actions=("put_*", "del_*"),
        rate_limits={"a": RateLimit(max_count=1, window_seconds=1)},
        evidence_requirements={"r": ("m",)},
        evidence_max_age_seconds={"r": 30},
        idempotency_ttl_seconds=60,
    )
    both = one.merged(other)
    assert (both.session_budget, both.run_budget, both.action_budgets) == (3, 1, {"a": 1, "b": 1})
    assert (both.idempotency_ttl_seconds, both.strict_mode, both.evidence_max_age_seconds) == (60, True, {"r": 30})
    assert set(both.evidence_requirements["r"]) == {"l", "m"}
    assert len(both.rate_limits["a"]) == 2, "neither is stricter than the other: both hold"
    assert [name for name in ("get_a", "put_a", "del_a", "x", "y") if begun(both, name) is None] == ["put_a"]


@cases(
    "text, says",
    {
        "a name that is none": ('{"session_budgit": 1}', "session_budgit"),
        "a pattern that is none": (
            '{"argument_constraints": {"a": {"properties": {"x": {"pattern": "("}}}}}',
            "regular expression",
        ),
        "an age of nothing": ('{"evidence_max_age_seconds": {"a": 1}}', "evidence_requirements"),
        "no JSON": ("{", "JSON or TOML"),
    },
)
def test_rules_that_cannot_be_are_refused_with_the_file_and_the_reason(tmp_path: Any, text: str, says: str) -> None:
    file = tmp_path / "rules.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"rules\.json") as refused:
        ClientRules.from_file(file)
    assert says in str(refused.value)


def test_no_text_for_the_model_names_a_number() -> None:
    assert not [code for code, text in TEXTS.items() if any(letter.isdigit() or letter == "$" for letter in text)]
