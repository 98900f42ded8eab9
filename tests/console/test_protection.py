"""The warnings that agents are not protected."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, insert

from haltline.console.access.keys import Role
from haltline.console.problem_kinds import Part, Partitions, Problem
from haltline.console.protection import (
    Flight,
    Known,
    answered,
    compared,
    problems_of,
    samples,
    unanswered,
    waiting,
)
from haltline.console.protection_watch import last_flight
from haltline.console.read_model import tables
from haltline.console.read_model.topic_bounds import Mismatch
from haltline.console.settings import ProtectionLimits
from haltline.schemas.decisions import Level
from haltline.schemas.record import rfc3339
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.operator.canary import goal_of
from haltline.streams.runtime.health import Partition
from tests.builders import cases
from tests.console.serving import bearer, serving
from tests.mock_cluster import MockCluster
from tests.waiting import wait_until

LIMITS = ProtectionLimits()
ROOT = Path(__file__).parents[2]
EMPTY = ("haltline.actions", 0)
Look = tuple[float, Mapping[Partition, tuple[int | None, int]]]
"""A moment, and of each partition the committed offset and the end."""


def after(looks: Sequence[Look], part: Part = Part.WORKERS) -> list[Problem]:
    known = Known(looked_s=0.0)
    now_s = 0.0
    for now_s, group in looks:
        committed = {at: offset for at, (offset, _) in group.items()}
        ends = {at: end for at, (_, end) in group.items()}
        known = answered(known, {part: samples(committed, {}, ends)}, now_s, LIMITS)
    return problems_of(known, now_s, LIMITS)


def every_3_s(times: int, committed: Callable[[int], int | None], end: Callable[[int], int]) -> list[Look]:
    return [(3.0 * n, {EMPTY: (committed(n), end(n))}) for n in range(times)]


def still_at(*moments: float) -> list[Look]:
    return [(now_s, {EMPTY: (7, 9)}) for now_s in moments]


@cases(
    "looks, reported",
    {
        "nothing waits, however long": (every_3_s(40, lambda _: 7, lambda _: 7), False),
        "it stands still for 25 s": (still_at(3, 16, 28), True),
        "a new group never commits": (every_3_s(12, lambda _: None, lambda _: 2), True),
        "the console itself was suspended": (still_at(3, 900), False),
    },
)
def test_workers_that_stand_still_are_reported(looks: list[Look], reported: bool) -> None:
    told = [(problem.part, problem.partitions) for problem in after(looks)]
    assert told == ([(Part.WORKERS, [Partitions("haltline.actions", [0])])] if reported else [])


@pytest.mark.parametrize("part", [Part.SINK, Part.SHADOW])
def test_a_sink_or_shadow_workers_have_longer_and_are_a_warning(part: Part) -> None:
    still = [(3.0 * n, {EMPTY: (7, 9)}) for n in range(21)]
    assert after(still[:20], part) == []
    (problem,) = after(still, part)
    assert (problem.part, problem.urgency.value) == (part, "warning")


def test_a_broker_that_does_not_answer_is_reported_and_its_return_gives_workers_their_time() -> None:
    known = answered(Known(looked_s=0.0), {Part.WORKERS: samples({EMPTY: 7}, {}, {EMPTY: 9})}, 3.0, LIMITS)
    for now_s in (6.0, 30.0):
        known = unanswered(known, "no broker at x:9092", now_s)
        assert problems_of(known, now_s, LIMITS) == []
    (problem,) = problems_of(known, 31.0, LIMITS)
    assert (problem.part, problem.since) == (Part.BROKER, rfc3339(6_000))
    assert "no broker at x:9092" in problem.what
    for now_s in (33.0, 45.0):
        known = answered(known, {Part.WORKERS: samples({EMPTY: 7}, {}, {EMPTY: 9})}, now_s, LIMITS)
        assert problems_of(known, now_s, LIMITS) == []


@cases(
    "ago_s, killed, every_s, title",
    {
        "it flies": (5, False, 300, None),
        "it was not killed": (60, False, 300, "The canary was not stopped"),
        "one by hand was not killed an hour ago": (3600, False, None, None),
        "two in a row are missing": (700, True, 300, "The canary is silent"),
    },
)
def test_canaries(ago_s: float, killed: bool, every_s: float | None, title: str | None) -> None:
    flight = Flight(session_id="haltline-canary-1", began_s=10_000.0 - ago_s, killed=killed, every_s=every_s)
    known = replace(Known(looked_s=10_000.0), flight=flight)
    assert [problem.title for problem in problems_of(known, 10_000.0, LIMITS)] == ([] if title is None else [title])


def test_a_read_model_that_is_behind_is_reported_and_says_nothing_of_canaries() -> None:
    known = replace(Known(looked_s=0.0), flight=Flight(session_id="c", began_s=0.0, killed=False, every_s=5.0))
    for n in range(12):
        behind = samples({EMPTY: n}, {}, {EMPTY: 9_999}, {EMPTY: None})
        known = answered(known, {Part.CONSOLE: behind}, 3.0 * n, LIMITS)
    assert [problem.part for problem in problems_of(known, 33.0, LIMITS)] == [Part.CONSOLE]
    live = samples({EMPTY: 9_998}, {}, {EMPTY: 9_999}, {EMPTY: 35_000})
    known = answered(known, {Part.CONSOLE: live}, 36.0, LIMITS)
    assert Part.CONSOLE not in {problem.part for problem in problems_of(known, 36.0, LIMITS)}
    (problem, *_) = problems_of(waiting(known, "topic haltline.actions: none", 36.0), 36.0, LIMITS)
    assert (problem.title, problem.since) == ("The console waits for its topics", rfc3339(36_000))


def test_offsets_that_do_not_fit_are_reported_a_gap_at_once_and_an_end_that_is_too_early_when_it_lasts() -> None:
    gap = Mismatch(topic="haltline.actions", partition=0, reached=3, begins=7, ends=9)
    ahead = [replace(gap, partition=n, reached=9, begins=0, ends=4 + n) for n in range(5)]
    known = compared(Known(looked_s=50.0), [gap, *ahead], 40.0)
    (first,) = problems_of(known, 50.0, LIMITS)
    assert (first.title, first.since) == ("The console misses records", rfc3339(40_000))
    lasting = compared(replace(known, looked_s=65.0), ahead, 65.0)
    (problem,) = problems_of(lasting, 65.0, LIMITS)
    assert (problem.since, problem.partitions) == (rfc3339(40_000), [Partitions("haltline.actions", [0, 1, 2, 3, 4])])
    assert "ends at 6" in problem.what
    assert "ends at 7" not in problem.what
    assert "2 more are alike." in problem.what
    assert problems_of(compared(lasting, [], 66.0), 66.0, LIMITS) == []


def test_each_problem_names_a_page_of_the_runbooks_and_what_to_do_first() -> None:
    stands = [(3.0 * n, {EMPTY: (7, 9)}) for n in range(30)]
    away = unanswered(Known(looked_s=0.0), "no answer", 0.0)
    found = [
        problem for part in (Part.WORKERS, Part.SINK, Part.SHADOW, Part.CONSOLE) for problem in after(stands, part)
    ]
    found += problems_of(away, 60.0, LIMITS)
    for yes in (True, False):
        mismatch = Mismatch(topic="t", partition=0, reached=5, begins=9 if yes else 0)
        flight = Flight(session_id="c", began_s=0.0, killed=yes, every_s=9)
        found += problems_of(compared(Known(looked_s=0.0), [mismatch], 0.0), 50.0, LIMITS)
        found += problems_of(replace(away, away_since_s=None, flight=flight), 600.0, LIMITS)
    assert {problem.part for problem in found} == set(Part)
    for problem in found:
        assert (ROOT / problem.runbook).is_file()
        assert any(step.command.startswith("haltline ") for step in problem.steps)


@cases(
    "begun_s_ago, goal, expected",
    {
        "one of many": (60, goal_of(300), 300),
        "another goal": (60, "delete every 5 s", None),
    },
)
def test_the_last_canary_is_found_in_the_read_model(
    engine: Engine, begun_s_ago: int, goal: str, expected: float | None
) -> None:
    row = {"agent_id": "a", "last_ms": 0, "goal": goal, "hardest": Level.KILL.rank}
    names = {"haltline-canary-0ff": begun_s_ago + 9, "haltline-canary-fff": begun_s_ago, "haltline-canarybird": 1}
    with engine.begin() as connection:
        for name, ago_s in names.items():
            first_ms = round((1e9 - ago_s) * 1000)
            connection.execute(insert(tables.sessions).values(session_id=name, first_ms=first_ms, **row))
    found = last_flight(engine, 1e9)
    assert found == Flight(session_id="haltline-canary-fff", began_s=1e9 - begun_s_ago, killed=True, every_s=expected)
    assert last_flight(engine, 1e9 + 90_000) is None


QUICK = ProtectionLimits(workers_s=1.0, sink_s=1.0, shadow_s=1.0, broker_s=1.0, console_s=30.0, look_every_s=0.2)


def parts(client: TestClient) -> list[str]:
    reply = client.get("/api/v1/protection", headers=bearer(Role.VIEWER)).json()
    assert reply["ok"] is (reply["problems"] == [])
    return [problem["part"] for problem in reply["problems"]]


def said_of_offsets(client: TestClient) -> tuple[list[str], int, int]:
    """The titles of what is wrong with the console, and the statuses of /healthz and /readyz, which name the cure."""
    replies = [client.get(path) for path in ("/healthz", "/readyz")]
    assert all("haltline console --rebuild" in reply.json()["problem"] for reply in replies)
    return titles_of_offsets(client), replies[0].status_code, replies[1].status_code


def titles_of_offsets(client: TestClient) -> list[str]:
    """Titles of the problems whose remedy is a rebuild: a busy machine may have others."""
    found = client.get("/api/v1/protection").json()["problems"]
    return [one["title"] for one in found if "haltline console --rebuild" in [step["command"] for step in one["steps"]]]


@cases(
    "reached, expected",
    {
        "records were deleted before they were read": (1, (["The console misses records"], 200, 200)),
        "the topic ends before what was read": (99, (["The console has read more than the topics hold"], 200, 503)),
    },
)
def test_offsets_that_do_not_fit_the_topics_are_reported_with_what_to_do(
    engine: Engine, tmp_path: Path, reached: int, expected: tuple[list[str], int, int]
) -> None:
    with engine.begin() as connection:
        connection.execute(insert(tables.offsets).values(topic="actions", partition=0, next=reached))
    with MockCluster() as broker:
        for name in Topics().all:
            broker.create_topic(name, 1)
        for _ in range(8):  # more than a partition of it keeps
            place = produce_confirmed(broker.bootstrap, Topics().actions, key=b"k", value=b" " * 950_000)
        limits = replace(QUICK, workers_s=600.0, console_s=0.5)
        with serving(broker.bootstrap, tmp_path, protection=limits) as client:
            # A gap is found before the topics are read to their ends, and only then is the console ready.
            wait_until(lambda: client.get("/readyz").status_code == expected[2], "what can be read is read")
            wait_until(lambda: titles_of_offsets(client) != [], "it is reported")
            assert said_of_offsets(client) == expected
            feeder = client.app.state.context.feeder  # type: ignore[attr-defined]  # of Starlette, not of any ASGI app
            assert feeder.wait_for(place, 10 if reached == 1 else 0) is (reached == 1)


def test_a_broker_that_is_away_is_reported(tmp_path: Path) -> None:
    with MockCluster() as broker:
        for name in Topics().all:
            broker.create_topic(name)
        with serving(broker.bootstrap, tmp_path, protection=QUICK) as client:
            wait_until(lambda: client.get("/readyz").status_code == 200, "the console is ready")
            broker.set_down()
            wait_until(lambda: parts(client) == ["broker"], "it is reported that the broker is unavailable")
            broker.set_up()
            wait_until(lambda: parts(client) == [], "it is back")


def test_a_console_on_a_broker_without_topics_waits_for_them_and_says_so(tmp_path: Path) -> None:
    with MockCluster() as broker, serving(broker.bootstrap, tmp_path, protection=QUICK) as client:
        wait_until(lambda: parts(client) == ["console"], "it is reported")
        (problem,) = client.get("/api/v1/protection").json()["problems"]
        assert problem["title"] == "The console waits for its topics"
        assert "topic haltline.actions: expected one that is there, got" in problem["what"]
        assert "haltline topics create" in [step["command"] for step in problem["steps"]]
        assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 503)
        assert "the console waits for topics: topic haltline.actions" in client.get("/readyz").json()["problem"]
        for name in Topics().all:
            broker.create_topic(name, 1)
        wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready once they are there")
        wait_until(lambda: parts(client) == [], "nothing is reported any more")
