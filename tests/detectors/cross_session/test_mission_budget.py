from haltline.detectors.cross_session.budgets import MissionBudget
from haltline.schemas.signals import Signal, SignalKind, SignalScope
from tests.detectors.cross_session.signals import reported, signal

YEAR_S = 365 * 86_400


def spent(seconds: float, session: str, tokens: float) -> Signal:
    return signal(seconds, SignalKind.SPENT, session, scope=SignalScope.MISSION, amounts={"tokens": tokens})


def test_all_that_works_on_a_mission_shares_its_budget_for_as_long_as_it_lasts() -> None:
    signals = [spent(0, "s1", 500), spent(10, "s2", 300), spent(YEAR_S, "s3", 201)]
    assert reported(MissionBudget(limits={"tokens": 1000}), *signals) == [
        "s2@10 spent: budget_warning low",
        f"s3@{YEAR_S:g} spent: budget_exceeded critical",
    ]
    assert reported(MissionBudget(limits={"tokens": 1000}, warn_at=1), spent(0, "s1", 999)) == []
    assert reported(MissionBudget(limits={"tokens": 1000}, warn_at=1), spent(0, "s1", 1000)) == [
        "s1@0 spent: budget_warning low"
    ]
