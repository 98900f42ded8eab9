from haltline.detectors.cross_session.fleet_spike import COUNT, FleetSpike
from haltline.schemas.signals import Signal, SignalKind, SignalScope
from tests.builders import cases
from tests.detectors.cross_session.signals import found, reported, signal

STOPPED = SignalKind.STOPPED


def minute(number: int, count: int, kind: SignalKind = STOPPED) -> Signal:
    return signal(60 * number, kind, f"m{number}", scope=SignalScope.FLEET, amounts={COUNT: count})


@cases(
    "signals, findings",
    {
        "few": ([minute(0, 9)], []),
        "the least count, with no past": ([minute(0, 10)], ["m0@0 stopped: fleet_spike high"]),
        "less than five times what was usual": ([minute(n, 4) for n in range(10)] + [minute(10, 19)], []),
        "five times what was usual": (
            [minute(n, 4) for n in range(10)] + [minute(10, 20)],
            ["m10@600 stopped: fleet_spike high"],
        ),
        "once at each severity in a minute": (
            [minute(0, 10), minute(0, 5), minute(0, 5)],
            ["m0@0 stopped: fleet_spike high", "m0@0 stopped: fleet_spike critical"],
        ),
        "too many sessions begin": ([minute(0, 300, SignalKind.STARTED)], ["m0@0 started: fleet_spike high"]),
        "each kind is counted by itself": ([minute(0, 50, SignalKind.DESTRUCTIVE), minute(0, 9)], []),
    },
)
def test_a_minute_beside_those_before(signals: list[Signal], findings: list[str]) -> None:
    assert reported(FleetSpike(), *signals) == findings


def test_minutes_in_which_nothing_was_are_minutes_too_and_a_late_signal_counts_now() -> None:
    steady = [minute(n, 8) for n in range(30)]
    assert reported(FleetSpike(), *steady, minute(31, 30)) == []
    after_a_day = found(FleetSpike(), *steady, minute(30 + 1440, 30))
    assert [finding.values["usual"] for finding in after_a_day] == [0.0]
    assert reported(FleetSpike(), minute(5, 5), minute(4, 5)) == ["m4@240 stopped: fleet_spike high"]
