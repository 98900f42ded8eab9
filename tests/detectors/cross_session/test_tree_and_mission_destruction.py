"""Several sessions of one tree, or of one mission, that destroy: both rules count alike."""

import pytest

from haltline.detectors.cross_session.destruction import MissionDestruction, TreeDestruction
from haltline.schemas.signals import Signal, SignalScope
from tests.builders import cases
from tests.detectors.cross_session.signals import destroys, found, reported

RULES = {SignalScope.ROOT: (TreeDestruction(), "tree"), SignalScope.MISSION: (MissionDestruction(), "mission")}
Attempt = tuple[str, float, str]


def signals(scope: SignalScope, attempts: list[Attempt]) -> list[Signal]:
    return [destroys(seconds, session, target, scope=scope) for session, seconds, target in attempts]


@pytest.mark.parametrize("scope", list(RULES))
@cases(
    "attempts, findings",
    {
        "one session alone is its own rules' business": ([("a", n, "table=orders") for n in range(9)], []),
        "the third attempt": (
            [("a", 0, "table=orders"), ("a", 5, "table=orders"), ("b", 9, "table=orders")],
            ["b@9 destructive: {}_destroyed_again high"],
        ),
        "one table under three spellings": (
            [("a", 0, "table=orders"), ("b", 5, "table=dw.ORDERS"), ("c", 9, 'table="orders"')],
            ["c@9 destructive: {}_destroyed_again high"],
        ),
        "twelve things in a minute": (
            [(f"s{n}", n, f"table=t{n}") for n in range(12)],
            ["s11@11 destructive: {}_destruction medium"],
        ),
    },
)
def test_several_sessions_of_one_tree_or_mission(
    scope: SignalScope, attempts: list[Attempt], findings: list[str]
) -> None:
    rule, name = RULES[scope]
    assert reported(rule, *signals(scope, attempts)) == [text.format(name) for text in findings]


@pytest.mark.parametrize("scope", list(RULES))
def test_it_says_whose_sessions_they_are(scope: SignalScope) -> None:
    rule, name = RULES[scope]
    thrice = signals(scope, [("a", 0, "table=orders"), ("a", 5, "table=orders"), ("b", 9, "table=orders")])
    (finding,) = found(rule, *thrice)
    assert finding.reason == f"3 attempts on table=orders in 9s by 2 sessions of one {name}"
