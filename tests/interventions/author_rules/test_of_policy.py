from typing import Any

import pytest

from haltline import Guard
from haltline.interventions.author_rules.evaluation import Rules
from haltline.interventions.author_rules.objection import Objection
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import Kind
from haltline.streams.policy.loader import BadPolicy, parse_policy
from tests.builders import cases, some
from tests.docs.pages import DOCS, between, fences_of
from tests.interventions.agent.attempts import attempt
from tests.interventions.cases import Told

((_, EXAMPLE),) = fences_of(between(DOCS / "policy.md", "author rules"))


class Calls(Told):
    """A session of some agent `a1` that makes calls."""

    def __init__(self, *entries: dict[str, Any], **policy: Any) -> None:
        super().__init__(author_rules=entries, **policy)

    def call(self, action: str, outcome: str = "ok", usd: float = 0.0, **fields: Any) -> Decision | None:
        """A call is proposed; unless that is refused, it is made."""
        fields |= {"action": action, "call_id": f"c{self.second}"}
        decision = self.tell(**fields)
        outcome = "refused" if decision is not None and decision.level >= Level.PAUSE else outcome
        self.tell(kind=Kind.COMPLETED, outcome=outcome, usage={"cost_usd": usd}, **fields)
        return decision

    def codes(self, *calls: dict[str, Any] | str) -> list[str | None]:
        told = [self.call(**({"action": one} if isinstance(one, str) else one)) for one in calls]
        return [None if one is None else one.code for one in told]


MAIL = {"rate_limits": {"send_mail": {"max_count": 1, "window_seconds": 60}}}
BUDGET = {"run_budget": 1.0, "prices": {"look*": 0.4}}
CUT: list[dict[str, Any]] = [{"action": "look", "args": {"q": "the same [cut]"}, "args_digest": d} for d in "121"]


@cases(
    "entry, calls, codes",
    {
        "a budget by prices, and by what calls report": (
            BUDGET, ["look", {"action": "ask", "usd": 0.5}, "look", "ask"],
            [None, None, "budget_exceeded", "budget_warning"],
        ),
        "what failed costs, and is no evidence": (
            {**BUDGET, "evidence_requirements": {"mend": ["look*"]}},
            [{"action": "look", "outcome": "error"}, "mend", "look", "mend", "look"],
            [None, "missing_evidence", None, "budget_warning", "budget_exceeded"],
        ),
        "a rate, under every server's prefix": (MAIL, ["send_mail", "mcp__a__send_mail"], [None, "rate_limited"]),
        "a loop, of arguments that were cut": ({"loop_rules": [{"threshold": 2}]}, CUT, [None, None, "loop_detected"]),
        "what is denied, under every server's prefix": (
            {"denied_actions": ["delete_*"]}, ["mcp__a__deleteIt", "a.delete-it"], ["denied_action"] * 2,
        ),
        "a list, under the whole name only": (
            {"allowed_actions": ["*_it", "look"], "denied_actions": ["see*"]}, ["do_it", "mcp__a__look", "see_it"],
            [None, "not_in_allowlist", "denied_action"],
        ),
        "not strict: each call gets its hint": (
            {**MAIL, "strict_mode": False}, ["send_mail"] * 3, [None, "rate_limited", "rate_limited"],
        ),
        "another agent's": ({**MAIL, "agent": "b*"}, ["send_mail"] * 2, [None, None]),
    },
)  # fmt: skip
def test_a_policys_rules(entry: dict[str, Any], calls: list[Any], codes: list[str | None]) -> None:
    assert Calls(entry).codes(*calls) == codes


def test_a_refusal_is_of_one_call_with_the_text_of_the_guard_and_no_strategy_softens_it() -> None:
    constraints = {"pay": {"required": ["to", "usd"], "properties": {"note": {"type": "string"}}}}
    told = Calls({"argument_constraints": constraints}, interventions={"strategy": "progressive"})
    refused = some(told.call("pay", args={"to": None, "note": 3}))
    assert (refused.level, refused.detector) == (Level.BLOCK, "author_rules")
    violations = ("to is required", "usd is required", "note must be of type string")
    assert some(refused.remediation).argument_violations == violations, "all at once"
    assert refused.message == Objection(refused.code, "", argument_violations=violations).message
    assert told.call("pay", args={"to": "a", "usd": 1}) is None
    told = Calls({"argument_constraints": constraints, "strict_mode": False})
    assert some(told.call("pay")).level is Level.NUDGE


def test_of_several_entries_the_stricter_value_counts_and_a_run_begins_where_the_guard_says_so() -> None:
    told = Calls(BUDGET, {"agent": "a*", "run_budget": 0.4}, {"session": "t*", "denied_actions": ["*"]})
    assert told.codes("look", "look") == [None, "budget_exceeded"]
    told.tell(kind=Kind.HEARTBEAT, action="run_started")
    told.tell(kind=Kind.MODEL_TURN, usage={"cost_usd": 0.1})
    assert told.codes("look") == ["budget_exceeded"]


def test_rules_that_fail_refuse_and_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(Rules, "_looping", broken)
    told = Calls({"loop_rules": [{}]})
    assert (told.codes("look"), told.failed) == (["rules_not_checked"], ["author_rules"])


@cases(
    "governed, level",
    {
        "it stops the session of an agent that no ACGP entry matches": (None, Level.KILL),
        "it stops the session where the entry names no halting rules": ({}, Level.KILL),
        "it stops the session where the entry names it": ({"halting_rules": ["tripwire_large"]}, Level.KILL),
        "it refuses the call where the entry names another rule": ({"halting_rules": ["evasion"]}, Level.BLOCK),
    },
)
def test_a_tripwire_is_a_rule(governed: dict[str, Any] | None, level: Level) -> None:
    entry = parse_policy(EXAMPLE).model_dump(mode="json")["author_rules"][1] | {"agent": "a*"}
    told = Calls(entry, interventions={"acgp": [] if governed is None else [governed]})
    assert told.call("transfer", args={"amount": 500}) is None
    decision = some(told.call("transfer", args={"amount": 501}))
    assert (decision.level, decision.detector) == (level, "tripwire_large")


def test_the_example_of_the_page_holds_in_a_guard_of_mode_local() -> None:
    guard = Guard(mode="local", agent_id="trader-7", policy=parse_policy(EXAMPLE))
    calls = ("drop_table", "issue_refund", "lookup_order", "issue_refund")
    assert [attempt(guard, name) for name in calls] == ["denied_action", "missing_evidence", "executed", "executed"]
    assert attempt(guard, "pay", args={"to": "x", "amount": 501}) == "argument_constraint_violated"
    assert attempt(guard, "transfer", args={"amount": 501}) == "session_killed_tripwire_large"


def test_what_cannot_be_is_refused_with_its_place() -> None:
    for place in ("author_rules:\n  -", "interventions:\n  acgp:\n   -"):
        with pytest.raises(BadPolicy, match=r"policy:\d: [\w.]+\.0\.tripwires\.0\.condition: expected a path"):
            parse_policy(f"{place} tripwires: [{{id: t, condition: amount > 5}}]")
    with pytest.raises(BadPolicy, match=r"rate_limits\.a\.several\.0\.window_seconds: Field required"):
        parse_policy("author_rules: [{rate_limits: {a: [{max_count: 1}]}}]")
    with pytest.raises(BadPolicy, match="loop_rules of at most 20000 calls in all, got 21000"):
        parse_policy(f"author_rules: [{{loop_rules: [{'{threshold: 1000}, ' * 21}]}}]")
