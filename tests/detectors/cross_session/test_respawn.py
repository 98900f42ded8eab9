import pytest

from haltline.detectors.cross_session.respawn import Respawn
from haltline.schemas.signals import Signal, SignalKind
from tests.detectors.cross_session.signals import found, reported, signal


def begins(seconds: float, session: str) -> Signal:
    return signal(seconds, SignalKind.STARTED, session)


def killed(seconds: float, session: str) -> Signal:
    return signal(seconds, SignalKind.KILLED, session)


def released(seconds: float, session: str) -> Signal:
    return signal(seconds, SignalKind.RELEASED, session)


ONE_AFTER_THE_OTHER = [begins(0, "a"), killed(10, "a"), begins(20, "b"), killed(30, "b"), begins(40, "c")]


@pytest.mark.parametrize(
    ("signals", "findings"),
    [
        pytest.param(
            [begins(0, "a"), killed(10, "a"), begins(20, "b")], [], id="a new session after a kill is none yet"
        ),
        pytest.param(
            [*ONE_AFTER_THE_OTHER, killed(50, "c")],
            [("b@30 killed", "respawned", "high"), ("c@50 killed", "respawned", "critical")],
            id="killed, begun anew, killed, begun anew, killed",
        ),
        pytest.param(
            [*(begins(15 + n, f"other {n}") for n in range(5)), *ONE_AFTER_THE_OTHER, killed(50, "c")],
            [],
            id="most of the sessions that share the id go on",
        ),
        pytest.param(
            [*(begins(15 + n, f"other {n}") for n in range(3)), *ONE_AFTER_THE_OTHER, killed(50, "c")],
            [("c@50 killed", "respawned", "critical")],
            id="half of the sessions of the time are of the chain",
        ),
        pytest.param(
            [begins(0, "a"), begins(0, "b"), killed(10, "a"), killed(11, "b")], [], id="two that ran beside each other"
        ),
        pytest.param(
            [begins(0, "a"), killed(10, "a"), released(15, "a"), begins(20, "b"), killed(30, "b")],
            [],
            id="what an operator released does not count",
        ),
        pytest.param(
            [begins(0, "a"), killed(10, "a"), begins(20, "b"), killed(3611, "b")], [], id="more than an hour between"
        ),
        pytest.param(
            [killed(30, "b"), begins(20, "b"), killed(10, "a")],
            [("a@10 killed", "respawned", "high")],
            id="the first kill is heard of last",
        ),
        pytest.param(
            [killed(10, "a"), killed(30, "b")], [], id="nothing is known of how the second began: it gets the doubt"
        ),
    ],
)
def test_sessions_one_after_the_other(signals: list[Signal], findings: list[tuple[str, str, str]]) -> None:
    assert reported(Respawn(), *signals) == findings


def test_of_kills_received_in_another_order_the_last_in_event_time_is_the_one_that_went_on() -> None:
    (finding,) = found(Respawn(), begins(20, "b"), killed(30, "b"), killed(10, "a"))
    assert finding.session_id == "b"
    assert finding.reason == "2 sessions in 20s, each started after the previous one was killed"
