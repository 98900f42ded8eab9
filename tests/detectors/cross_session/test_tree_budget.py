from typing import Any

from haltline.detectors.cross_session.budgets import TreeBudget
from haltline.schemas.signals import Signal, SignalKind
from tests.builders import cases
from tests.detectors.cross_session.signals import found, reported
from tests.detectors.cross_session.test_spawn_storm import born, of_tree, returned, spawned


def ended(seconds: float, session: str) -> Signal:
    return of_tree(seconds, SignalKind.ENDED, session)


def spent(seconds: float, session: str, tokens: float) -> Signal:
    return of_tree(seconds, SignalKind.SPENT, session, amounts={"tokens": tokens})


CALLS = [spawned(n, "root", "part") for n in range(3)]


@cases(
    "limits, signals, findings",
    {
        "no limit": ({}, [*CALLS, spent(4, "root", 1e9)], []),
        "three agents, by their calls": ({"agents": 3}, CALLS, ["root@2 spawned: budget_reached high"]),
        "a refused call starts none": ({"agents": 2}, [CALLS[0], returned(0.5, "root", 0, refused=1), CALLS[1]], []),
        "of one agent, call and session": ({"agents": 2}, [CALLS[0], born(1, "a", "root")], []),
        "two at once, and one that has ended": (
            {"agents_at_once": 2},
            [CALLS[0], returned(0.5, "root", 0), CALLS[1], CALLS[2], returned(3, "root", 1), spawned(4, "root", "p")],
            ["root@2 spawned: budget_reached high", "root@4 spawned: budget_reached high"],
        ),
        "in the background": (
            {"agents_at_once": 2},
            [born(1, "a", "root"), ended(2, "a"), born(3, "b", "root"), born(4, "c", "b")],
            ["c@4 started: budget_reached high"],
        ),
        "two generations": (
            {"depth": 2},
            [born(1, "a", "root"), born(2, "b", "a")],
            ["b@2 started: budget_reached high"],
        ),
        "only the depth is reached for good": (
            {"depth": 1, "agents_at_once": 2},
            [born(1, "a", "root"), born(2, "b", "root"), ended(3, "a"), ended(4, "b")],
            ["a@1 started: budget_reached high", "b@2 started: budget_reached high", "a@3 ended: budget_reached high"],
        ),
        "tokens of all sessions": (
            {"limits": {"tokens": 100}},
            [spent(1, "a", 85), spent(2, "root", 15), spent(3, "b", 1)],
            [
                "a@1 spent: budget_warning low",
                "root@2 spent: budget_reached high",
                "b@3 spent: budget_exceeded critical",
            ],
        ),
    },
)
def test_a_tree_may_use_so_much(limits: dict[str, Any], signals: list[Signal], findings: list[str]) -> None:
    assert reported(TreeBudget(**limits), *signals) == findings


def test_the_finding_is_of_the_first_session_and_says_what_is_left() -> None:
    budget = TreeBudget(limits={"tokens": 100.0}, agents=4, depth=1)
    (finding,) = found(budget, spent(0, "root", 30), born(1, "a", "root"))
    assert finding.reason == "the tree of root has 0 of 1 depth, 70 of 100 tokens, 3 of 4 agents left"
    assert (finding.session_id, finding.values["from_depth"]) == ("root", 1)
