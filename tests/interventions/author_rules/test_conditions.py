import pytest

from haltline.interventions.author_rules.conditions import Unknown, compiled

SCOPE = {
    "action": "transfer",
    "args": {
        "amount": 700,
        "to": "test-7",
        "tags": ["a"],
        "deep": {"er": 1.5},
        "text": "700",
        "on": True,
        "b-c": 'a"b',
    },
    "targets": ["account=9"],
    "effect": "mutate",
    "agent_id": "a1",
    "session_id": "s1",
    "mission_id": None,
    "session": {"actions": 12, "events": 30},
}


@pytest.mark.parametrize(
    "condition",
    [
        "args.amount > 500", "not args.amount > 700", "args.amount >= 700 and args.amount <= 700", "args.text > 500",
        "args.amount == 700 or args.missing == 1", "not has(args.missing)", "args.deep.er < 2", "args.on",
        "not (has(args.missing) and args.missing > 3)", 'args.to matches "test-*"', '"a" in args.tags',
        "action in ['transfer', 'pay']", "len(args.tags) >= 1", 'lower(action) == "transfer"', "mission_id == null",
        "(args.amount > 500 and effect == 'mutate') == true", "'and' == \"and\"",
        "args.amount > 500\n  and (args.amount\n  != -7.5)", 'args.b-c matches "a\\"*"',
    ],
)  # fmt: skip
def test_conditions_that_hold(condition: str) -> None:
    assert compiled(condition)(SCOPE) is True


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("args.missing > 3", "args.missing is missing"),
        ("args.to > 3", "expected a number, got str"),
        ("args.amount", "expected true or false, got int"),
        ("3 in args.amount", "expected a list or a text after 'in', got int"),
        ("args.amount matches '*'", "expected texts on both sides of 'matches'"),
        ("args.deep.er.deeper == 1", "args.deep.er.deeper is missing"),
    ],
)
def test_what_cannot_be_evaluated_says_why(condition: str, why: str) -> None:
    with pytest.raises(Unknown, match=why):
        compiled(condition)(SCOPE)


@pytest.mark.parametrize(
    "condition",
    [
        "", "args.amount >", "amount > 5", "args.amount > 5 6", "(args.on", "exec('rm')", "args.amount = 5",
        "__import__('os')", "args.on and", "1 if args.on else 2", "args[0]", "lambda: 1", "[1,", "not", "{}",
        "not " * 40 + "args.on", "args.on and\n args.on @", "f'{args}'", "args['on'][0]", "1 < args.amount < 9",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        compiled(condition)
