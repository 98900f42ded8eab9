from haltline.detectors.cross_session.respawn import Respawn
from haltline.schemas.signals import Signal, SignalKind
from tests.builders import cases
from tests.detectors.cross_session.signals import found, reported, signal


def begins(seconds: float, session: str, kind: SignalKind = SignalKind.STARTED) -> Signal:
    return signal(seconds, kind, session)


def killed(seconds: float, session: str) -> Signal:
    return begins(seconds, session, SignalKind.KILLED)


ONE_AFTER_THE_OTHER = [begins(0, "a"), killed(10, "a"), begins(20, "b"), killed(30, "b"), begins(40, "c")]


@cases(
    "signals, findings",
    {
        "a new session after a kill is none yet": ([begins(0, "a"), killed(10, "a"), begins(20, "b")], []),
        "killed, begun anew, killed, begun anew, killed": (
            [*ONE_AFTER_THE_OTHER, killed(50, "c")],
            ["b@30 killed: respawned high", "c@50 killed: respawned critical"],
        ),
        "most of the sessions that share the id go on": (
            [*(begins(15 + n, f"other {n}") for n in range(5)), *ONE_AFTER_THE_OTHER, killed(50, "c")],
            [],
        ),
        "two that ran beside each other": ([begins(0, "a"), begins(0, "b"), killed(10, "a"), killed(11, "b")], []),
        "what an operator released does not count": (
            [begins(0, "a"), killed(10, "a"), begins(15, "a", SignalKind.RELEASED), begins(20, "b"), killed(30, "b")],
            [],
        ),
        "more than an hour between": ([begins(0, "a"), killed(10, "a"), begins(20, "b"), killed(3611, "b")], []),
        "nothing is known of how the second began: it gets the doubt": ([killed(10, "a"), killed(30, "b")], []),
    },
)
def test_sessions_one_after_the_other(signals: list[Signal], findings: list[str]) -> None:
    assert reported(Respawn(), *signals) == findings


def test_of_kills_received_in_another_order_the_last_in_event_time_is_the_one_that_went_on() -> None:
    (finding,) = found(Respawn(), begins(20, "b"), killed(30, "b"), killed(10, "a"))
    assert finding.session_id == "b"
    assert finding.reason == "2 sessions in 20s, each started after the previous one was killed"
