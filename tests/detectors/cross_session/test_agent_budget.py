from haltline.detectors.cross_session.budgets import AgentBudget
from haltline.schemas.signals import Signal, SignalKind
from tests.detectors.cross_session.signals import found, reported, signal

BUDGET = AgentBudget(limits={"cost_usd": 10.0, "calls": 100.0})
HOUR_S = 3600


def spent(seconds: float, session: str = "s1", **amounts: float) -> Signal:
    return signal(seconds, SignalKind.SPENT, session, amounts=amounts)


def test_the_sessions_of_an_agent_share_its_budget_and_it_says_how_much_of_what_and_which_turns_are_not_in_it() -> None:
    signals = [spent(0, "s1", cost_usd=4), spent(1, "s2", cost_usd=4), spent(2, "s3", cost_usd=3)]
    assert reported(BUDGET, *signals) == ["s2@1 spent: budget_warning low", "s3@2 spent: budget_exceeded critical"]
    (finding,) = found(BUDGET, spent(0, calls=120))
    assert finding.reason == "agent agent: 120 of 100 calls used by its sessions, 120%"
    assert finding.values == {"resource": "calls", "used": 120.0, "share": 1.2}
    (finding,) = found(AgentBudget(limits={"tokens": 9}), spent(0, turns_usage_unknown=2), spent(1, "s2", tokens=12))
    assert finding.reason == "agent agent: 12 of 9 tokens used by its sessions, 133%; usage unknown of 2 model turns"
    assert finding.values["turns_usage_unknown"] == 2


def test_an_exceeded_budget_is_told_with_each_tenth_a_new_day_has_a_new_one_and_no_limit_none() -> None:
    codes = [finding.values["used"] for finding in found(BUDGET, *[spent(n, cost_usd=0.5) for n in range(25)])]
    assert codes == [8.0, 10.5, 11.0, 12.0]
    day = 24 * HOUR_S
    signals = [spent(0, cost_usd=9), spent(day, cost_usd=9), spent(10, cost_usd=5), spent(day + 1, cost_usd=0.5)]
    assert [finding.code for finding in found(BUDGET, *signals)] == ["budget_warning", "budget_warning"]
    assert reported(AgentBudget(), *[spent(n, cost_usd=1e9, tokens=1e12) for n in range(10)]) == []
