from haltline.detectors.cross_session.spawn_storm import SpawnStorm
from haltline.schemas.signals import Signal, SignalKind, SignalScope
from tests.builders import cases
from tests.detectors.cross_session.signals import found, reported, signal


def born(seconds: float, session: str, parent: str) -> Signal:
    return signal(seconds, SignalKind.STARTED, session, scope=SignalScope.ROOT, parent_session_id=parent)


def chain(depth: int) -> list[Signal]:
    return [born(100 * n, f"c{n}", f"c{n - 1}" if n else "root") for n in range(depth)]


def broad(count: int, every_s: float) -> list[Signal]:
    return [born(every_s * n, f"w{n}", "root") for n in range(count)]


def tree(spawners: int, every_s: float = 60) -> list[Signal]:
    """The root and the first of its descendants each start three."""
    names = ["root", *(f"t{n}" for n in range(3 * spawners))]
    return [born(every_s * n, f"t{n}", names[n // 3]) for n in range(3 * spawners)]


@cases(
    "signals, findings",
    {
        "six generations": (chain(6), ["c5@500 started: spawn_depth high"]),
        "thirty helpers in half a minute": (broad(30, 1), []),
        "one more": (broad(31, 1), ["w30@30 started: spawn_rate high"]),
        "two hundred helpers in half an hour": (broad(200, 10), []),
        "eight that start others": (tree(8), []),
        "nine that start others, slowly": (tree(9)[:-2], ["t24@1440 started: spawn_storm high"]),
    },
)
def test_what_a_tree_of_sessions_may_do(signals: list[Signal], findings: list[str]) -> None:
    assert reported(SpawnStorm(), *signals) == findings


def test_children_known_before_their_parents_are_as_deep_and_half_as_much_again_is_critical() -> None:
    (finding,) = found(SpawnStorm(max_depth=2), born(2, "b", "a"), born(1, "a", "root"), born(3, "c", "b"))
    assert (finding.code, finding.values["depth"]) == ("spawn_depth", 3)
    severities = [told.rpartition(" ")[2] for told in reported(SpawnStorm(), *broad(46, 1))]
    assert severities == ["high"] * 14 + ["critical"] * 2
