from collections.abc import Sequence
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haltline.interventions.agent import ClientRules
from haltline.interventions.author_rules import constraints
from haltline.interventions.author_rules.evaluation import Asked, Rules, RuleState
from haltline.interventions.author_rules.objection import TEXTS, Objection
from haltline.schemas.author_rules import Arguments, CallRules, Constraint
from haltline.schemas.record import canonical_json
from tests.builders import cases, some

S = 1000  # ms


class Book:
    """The rules with the state of one session."""

    def __init__(self, *files: dict[str, Any], **fields: Any) -> None:
        self.rules = Rules(*(CallRules.model_validate(file) for file in (files or [fields])))
        self.state, self.calls = RuleState(), 0

    def begin(self, action: str, now_ms: int = 0, usd: float | None = None, **args: Any) -> Sequence[Objection]:
        self.calls += 1
        return self.rules.begin(self.state, Asked(f"c{self.calls}", action, args, now_ms, canonical_json, usd))

    def end(self, action: str, now_ms: int = 0, *, ok: bool = True) -> None:
        self.rules.end(self.state, f"c{self.calls}", action, now_ms, ok=ok, usd=None)

    def refused(self, action: str, now_ms: int = 0, **args: Any) -> str | None:
        """The code of the refusal of a call; None: it may be made."""
        return next((one.code for one in self.begin(action, now_ms, **args) if one.blocks), None)


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
    book, actual = Book(session_budget=1.0, budget_warning_thresholds=(95.0, 80.0)), []
    for usd in spent:
        book.rules.spend(book.state, usd)
        warning = next((one for one in book.begin("act") if one.code == "budget_warning"), None)
        actual.append(None if warning is None else warning.thresholds["warn_at_percent"])
    assert actual == reported


HOW = st.sampled_from(["end", "fail", "release", "leave open"])


@given(limit=st.integers(0, 50), calls=st.lists(st.tuples(st.integers(0, 9), HOW), max_size=30))
def test_a_budget_is_never_overdrawn_by_calls_at_their_estimate(limit: int, calls: list[tuple[int, str]]) -> None:
    book = Book(session_budget=limit / 10)  # ten times 0.1 is 1, though not in binary
    held = spent = 0
    for cost, how in calls:
        refused = book.begin("act", usd=cost / 10) != []
        assert refused is (held + spent + cost > limit)
        if how == "release":
            book.rules.release(book.state, f"c{book.calls}")
        elif refused:
            continue
        elif how == "leave open":
            held += cost
        else:
            book.end("act", ok=how == "end")
            spent += cost
        assert spent <= limit
        assert book.state.spent.get("session", 0) == spent / 10


@given(count=st.sampled_from((0, 1, 2, 5, 40)), gaps_ms=st.lists(st.integers(0, 4000) | st.just(5000), max_size=60))
@example(count=40, gaps_ms=[0] * 41)
@example(count=1, gaps_ms=[0, 5000, 1])
def test_no_window_ever_holds_more_than_the_limit(count: int, gaps_ms: list[int]) -> None:
    book, now = Book(rate_limits={"a": {"max_count": count, "window_seconds": 5}}), 0
    passed: list[int] = []
    for gap in gaps_ms:
        now += gap
        objections = book.begin("a", now)
        within = [at for at in passed if now - at <= 5 * S]
        assert (objections == []) is (len(within) < count)
        if not objections:
            passed.append(now)
        elif count:
            after = now + some(objections[0].retry_after_s) * S
            assert deepcopy(book).begin("a", after) == [], "what it says to wait is enough"


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
    book = Book(loop_rules=[rule])
    found = [book.refused("search", round(at * S), **args) for at, args in calls]
    assert [number for number, code in enumerate(found) if code == "loop_detected"] == loops


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
        {"maximum": 500}, [500, None],
        {"must be at most 500": [500.01, float("nan"), Decimal(900)], "must be a number": ["900", [900]]},
    ),
    ({"enum": ["EUR", "USD"]}, ["EUR"], {"must be one of EUR, USD": ["GBP"]}),
    ({"enum": [1]}, [1], {"must be one of 1": [True]}),
    # A path is a text; one in a list or an object is no way around.
    (
        {"pattern": "^[a-z]+$"}, ["abc", Path("abc"), None],
        {"must match ^[a-z]+$": ["a1", Path("/etc")], "must be a text": [["A1"], {"a": 1}, 17]},
    ),
    ({"pattern": "b"}, ["abc"], {}),  # found anywhere, as in JSON Schema
    ({"max_length": 3}, [[1, 2]], {"must not be longer than 3": ["abcd", dict.fromkeys("abcd"), Path("/tmp"), 1234]}),
]  # fmt: skip
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


@pytest.mark.parametrize(("after_s", "code"), [(60, None), (60.001, "stale_evidence")], ids=str)
def test_evidence_of_exactly_the_greatest_age_is_valid(after_s: float, code: str | None) -> None:
    book = Book(evidence_requirements={"mend": ["look"]}, evidence_max_age_seconds={"mend": 60})
    assert book.begin("look") == []
    book.end("look")
    assert book.refused("mend", round(after_s * S)) == code


def test_of_two_files_the_stricter_holds_in_everything() -> None:
    one: dict[str, Any] = {
        "session_budget": 5, "prices": {"*": 1}, "allowed_actions": ["get_*", "put_*"], "denied_actions": ["put_x"],
        "evidence_requirements": {"put_r": ["get_l"]}, "strict_mode": False,
    }  # fmt: skip
    other = {
        "session_budget": 3, "prices": {"get_*": 0}, "allowed_actions": ["put_*", "del_*"],
        "evidence_requirements": {"put_r": ["put_m"]},
    }  # fmt: skip
    for book in (Book(one, other), Book(other, one)):
        codes = [
            book.refused(name) for name in ("get_a", "del_a", "put_x", "put_r", "put_1", "put_2", "put_3", "put_4")
        ]
        lists = ["not_in_allowlist", "not_in_allowlist", "denied_action"]
        assert codes == [*lists, "missing_evidence", None, None, None, "budget_exceeded"]


@cases(
    "text, says",
    {
        "a name that is none": ('{"session_budgit": 1}', "session_budgit"),
        "a pattern": ('{"argument_constraints": {"a": {"properties": {"x": {"pattern": "("}}}}}', "regular expression"),
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
