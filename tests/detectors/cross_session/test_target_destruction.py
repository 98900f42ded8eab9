from haltline.detectors.cross_session.target_destruction import TargetDestruction
from haltline.schemas.signals import Signal, SignalScope
from tests.builders import cases
from tests.detectors.cross_session.signals import destroys, found, reported


def by(agent: str, seconds: float) -> Signal:
    return destroys(seconds, f"of {agent}", agent=agent, scope=SignalScope.TARGET)


@cases(
    "signals, findings",
    {
        "one agent alone is its own rules' business": ([by("ann", 10 * n) for n in range(9)], []),
        "three attempts by two agents": ([by("ann", 0), by("bob", 5), by("ann", 9)], []),
        "the fourth, by three agents": (
            [by("ann", 0), by("bob", 5), by("ann", 9), by("cid", 12)],
            ["of cid@12 destructive: target_destruction high"],
        ),
        "twice as many are critical": (
            [by("ann" if n % 2 else "bob", n) for n in range(8)],
            [f"of {'ann' if n % 2 else 'bob'}@{n} destructive: target_destruction high" for n in range(3, 7)]
            + ["of ann@7 destructive: target_destruction critical"],
        ),
        "over half an hour": ([by("ann", 0), by("bob", 600), by("ann", 1200), by("bob", 1800)], []),
    },
)
def test_several_agents_and_one_thing(signals: list[Signal], findings: list[str]) -> None:
    assert reported(TargetDestruction(), *signals) == findings


def test_it_says_who_and_how_often() -> None:
    (finding,) = found(TargetDestruction(), by("ann", 0), by("bob", 5), by("ann", 9), by("cid", 12))
    assert finding.reason == "4 attempts on table=orders in 12s by 3 agents"
    assert finding.values == {"attempts": 4, "agents": 3, "sessions": 3, "span_s": 12}
