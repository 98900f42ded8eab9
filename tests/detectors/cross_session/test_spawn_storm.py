from typing import Any

from haltline.detectors.cross_session.spawn_storm import SpawnStorm
from haltline.schemas.signals import Signal, SignalKind, SignalScope
from tests.builders import cases
from tests.detectors.cross_session.signals import found, reported, signal


def of_tree(seconds: float, kind: SignalKind, session: str, **fields: Any) -> Signal:
    return signal(seconds, kind, session, scope=SignalScope.TARGET, id="tree=root", **fields)


def born(seconds: float, session: str, parent: str) -> Signal:
    return of_tree(seconds, SignalKind.STARTED, session, parent_session_id=parent)


def spawned(seconds: float, session: str, task: str, share: float = 0) -> Signal:
    return of_tree(
        seconds, SignalKind.SPAWNED, session, target=task, code=f"c{seconds:g}", amounts={"limit_share": share}
    )


def returned(seconds: float, session: str, begun: float, **amounts: float) -> Signal:
    return of_tree(seconds, SignalKind.RETURNED, session, code=f"c{begun:g}", amounts=amounts)


def chain(depth: int) -> list[Signal]:
    return [born(100 * n, f"c{n}", f"c{n - 1}" if n else "root") for n in range(depth)]


def broad(count: int, every_s: float) -> list[Signal]:
    return [born(every_s * n, f"w{n}", "root") for n in range(count)]


def tree(spawners: int, every_s: float = 60) -> list[Signal]:
    """The root and the first of its descendants each start three."""
    names = ["root", *(f"t{n}" for n in range(3 * spawners))]
    return [born(every_s * n, f"t{n}", names[n // 3]) for n in range(3 * spawners)]


def again(*tasks: str, lasts_s: float = 20) -> list[Signal]:
    """Agents one after the other."""
    starts = [(100 * n, task) for n, task in enumerate(tasks)]
    return [one for at, task in starts for one in (spawned(at, "root", task), returned(at + lasts_s, "root", at))]


def below(count: int, words: str = "same") -> list[Signal]:
    return [spawned(0, "root", "same"), born(1, "a", "root"), *(spawned(n + 2, "a", words) for n in range(count))]


DEATHS = [spawned(n, "root", f"part {n}") for n in range(4)] + [
    returned(40 + n, "root", n, limited=1) for n in range(3)
]


@cases(
    "signals, findings",
    {
        "six generations": (chain(6), ["c5@500 started: spawn_depth high"]),
        "thirty helpers in half a minute": (broad(30, 1), []),
        "one more": (broad(31, 1), ["w30@30 started: spawn_rate high"]),
        "two hundred helpers in half an hour": (broad(200, 10), []),
        "eight that start others": (tree(8), []),
        "nine that start others, slowly": (tree(9)[:-2], ["t24@1440 started: spawn_storm high"]),
        "three agents started again": (again("a", "b", "a", "b", "a"), []),
        "four, and one more after the hint": (
            again("a", "b", "a", "b", "a", "b", "a"),
            ["root@500 spawned: spawn_restarts high", "root@600 spawned: spawn_restarts critical"],
        ),
        "four of one task out of nine": (again("a", *"bcdefghi", "a", "a", "a", "a"), []),
        "votes, started at once": ([spawned(n, "root", "a") for n in range(9)], []),
        "votes in the background": ([*again("a", lasts_s=0.1), *(spawned(1 + n, "root", "a") for n in range(9))], []),
        "three agents ended by a quota, and another one": (
            [*DEATHS, spawned(60, "root", "more"), spawned(200, "root", "later")],
            ["root@42 returned: spawn_deaths high", "root@60 spawned: spawn_deaths critical"],
        ),
        "agents start agents for their own words": (
            below(4),
            ["a@4 spawned: spawn_same_words high", "a@5 spawned: spawn_same_words critical"],
        ),
        "agents start agents for other words": (below(4, "other"), []),
        "five agents near the end of a limit": (
            [spawned(n, "root", f"{n}", 0.95) for n in range(5)],
            ["root@4 spawned: spawn_near_limit high"],
        ),
        "five agents well before it": ([spawned(n, "root", f"{n}", 0.5) for n in range(5)], []),
    },
)
def test_what_a_tree_of_sessions_may_do(signals: list[Signal], findings: list[str]) -> None:
    assert reported(SpawnStorm(), *signals) == findings


def test_children_known_before_their_parents_are_as_deep_and_half_as_much_again_is_critical() -> None:
    (finding,) = found(SpawnStorm(max_depth=2), born(2, "b", "a"), born(1, "a", "root"), born(3, "c", "b"))
    assert (finding.code, finding.values["depth"], finding.session_id) == ("spawn_depth", 3, "root")
    severities = [told.rpartition(" ")[2] for told in reported(SpawnStorm(), *broad(46, 1))]
    assert severities == ["high"] * 14 + ["critical"] * 2


def test_a_new_prompt_begins_anew() -> None:
    prompt = of_tree(10, SignalKind.PROMPTED, "root")
    assert reported(SpawnStorm(), *below(3), prompt, *below(2)) == ["a@4 spawned: spawn_same_words high"]
