"""The benchmarks' events: the same for the same seed, and valid events of agents."""

from benchmarks.load import Load, generate
from benchmarks.reporting.quiet import LOUD_FROM, is_quiet, note, tree_ticks
from benchmarks.throughput import Seen, events_per_s
from haltline.schemas.decisions import Level
from haltline.schemas.wire import decode_event
from haltline.streams.engine.core import Core, SessionState
from tests.builders import cases

START_MS = 1_750_000_000_000


def test_a_runaway_is_killed_and_most_healthy_sessions_are_not() -> None:
    def killed(runaway_share: float) -> int:
        load = Load(events=1200, sessions=20, start_ms=START_MS, runaway_share=runaway_share)
        core, states, found = Core(), dict[str, SessionState](), set()
        for sent in generate(load):
            outcome = core.on_event(states.get(sent.session_id), decode_event(sent.value))
            states[sent.session_id] = outcome.state
            if outcome.decision is not None and outcome.decision.level is Level.KILL:
                found.add(sent.session_id)
        return len(found)

    assert killed(1.0) == 20
    assert killed(0.0) == 0


@cases(
    "commits, expected",
    {
        "one commit is no rate": ([(1.0, 500)], None),
        "two commits": ([(1.0, 500), (3.0, 900)], 200.0),
        "the last one has waited for its second": ([(1.0, 500), (2.0, 1500), (3.0, 1510)], 1000.0),
        "several commits": ([(0.0, 100), (1.0, 300), (2.0, 500), (9.0, 501)], 200.0),
    },
)
def test_a_rate_is_between_the_first_commit_and_the_last_but_one(
    commits: list[tuple[float, int]], expected: float | None
) -> None:
    assert events_per_s([Seen(at_s, events, None) for at_s, events in commits]) == expected


def stat(pid: int, parent: int, *ticks: int, name: str = "python") -> str:
    user, system, ended_user, ended_system = ticks
    head = f"{pid} ({name}) S {parent} 1 1 0 -1 4194304 100 0 0 0"
    return f"{head} {user} {system} {ended_user} {ended_system} 20 0 1 0 1000 1000000 500"


@cases(
    "others, expected",
    {
        "no children": ({}, 0),
        "a child": ({2: stat(2, 1, 10, 5, 0, 0)}, 15),
        "a child with children that have ended": ({2: stat(2, 1, 10, 5, 3, 2)}, 20),
        "a grandchild": ({2: stat(2, 1, 1, 0, 0, 0), 3: stat(3, 2, 7, 0, 0, 0)}, 8),
        "not somebody else's process": ({9: stat(9, 8, 99, 99, 0, 0)}, 0),
        "a name with brackets": ({2: stat(2, 1, 4, 0, 0, 0, name="a) b (c")}, 4),
    },
)
def test_ticks_of_a_tree(others: dict[int, str], expected: int) -> None:
    assert tree_ticks({1: stat(1, 0, 1000, 0, 0, 0)} | others, 1) == expected


def test_a_loud_part_is_named_a_quiet_run_is_not_and_what_is_not_known_is_neither() -> None:
    parts = {"throughput": 0.01, "sink": LOUD_FROM - 0.001}
    assert is_quiet(parts)
    assert note(parts) == ""
    result = note({"throughput": 0.01, "sink": 0.31})
    assert not is_quiet({"throughput": 0.01, "sink": 0.31})
    assert "sink 31%" in result
    assert "throughput" not in result
    assert is_quiet({}) is None
    assert "not known" in note({})
