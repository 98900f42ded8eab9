from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome, Task, Usage
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.replay.backtest import Recorded, Result, only, together
from haltline.streams.replay.live_play import LivePlay
from haltline.streams.replay.traces import read_traces
from tests.builders import at


def budget(calls: int) -> Policy:
    """A policy with this rule alone: the call after so many holds the session."""
    return only(Policy(), {"budget": Rule(settings={"limits": {"calls": calls}})})


BUDGET = budget(3)


def call(number: int, tool: str = "read_file", session: str = "s", **fields: Any) -> list[ActionEvent]:
    """A proposal and its result, which costs a dollar."""
    common = {"session_id": session, "agent_id": "a", "call_id": f"c{number}", "action": tool} | fields
    common.setdefault("args", {"path": f"/srv/{number}", "line": number})
    asked = {"event_id": f"{session}-p{number}", "kind": Kind.PROPOSED, "time": at(number)}
    ended = {"event_id": f"{session}-r{number}", "kind": Kind.COMPLETED, "time": at(number) + 100}
    ended |= {"outcome": Outcome.OK, "output_head": f"text {number}", "usage": Usage(cost_usd=1)}
    return [ActionEvent(**common | asked), ActionEvent(**common | ended)]


def prompt(number: int, prompts: int) -> ActionEvent:
    common = {"session_id": "s", "agent_id": "a", "event_id": f"prompt-{prompts}", "kind": Kind.SESSION_STARTED}
    return ActionEvent(**common, time=at(number), task=Task(prompts=prompts))


def turn(number: int) -> ActionEvent:
    common = {"session_id": "s", "agent_id": "a", "event_id": f"turn-{number}", "kind": Kind.MODEL_TURN}
    return ActionEvent(**common, time=at(number), usage=Usage(cost_usd=10))


def result_of(events: Sequence[ActionEvent], policy: Policy = BUDGET) -> Result:
    return together(Core(policy), [Recorded("s", tuple(enumerate(events)))])[0]


def published(events: Iterable[ActionEvent], policy: Policy = BUDGET) -> list[tuple[str, str]]:
    found: list[ActionEvent] = []
    play = LivePlay(Core(policy), found.append)
    for event in events:
        play.event(event)
    return [(event.event_id, "" if event.outcome is None else event.outcome.value) for event in found]


def calls(count: int, **fields: Any) -> list[ActionEvent]:
    return [event for number in range(count) for event in call(number, **fields)]


def test_results_of_refused_calls_do_not_happen_and_nothing_does_after_a_hold() -> None:
    assert published(calls(6)) == [
        ("s-p0", ""), ("s-r0", "ok"), ("s-p1", ""), ("s-r1", "ok"), ("s-p2", ""), ("s-r2", "ok"), ("s-p3", ""),
    ]  # fmt: skip
    result = result_of(calls(6))
    assert (result.held, result.refused, result.level) == (6, [6, 8, 10], "PAUSE")
    assert result.cost_after_stop_usd == 3


def test_turns_after_a_hold_are_waste_and_calls_that_end_the_turn_pass() -> None:
    result = result_of([*calls(31), turn(31), turn(32), *call(33, "task_done", args={})], budget(30))
    assert (result.held, result.refused) == (60, [60])
    assert result.cost_after_stop_usd == 1 + 20


def test_a_refused_call_alone_ends_as_refused_and_the_session_goes_on() -> None:
    blocked = [*call(0), *call(1, "drop_database", args={"name": "shop_prod"}), *call(2)]
    assert published(blocked, Policy()) == [
        ("s-p0", ""), ("s-r0", "ok"), ("s-p1", ""), ("s-p1/refused", "refused"), ("s-p2", ""), ("s-r2", "ok"),
    ]  # fmt: skip
    result = result_of(blocked, Policy())
    assert (result.held, result.refused) == (None, [2])


def test_a_call_that_is_recorded_by_its_result_only_is_refused_as_well() -> None:
    results = [event for event in calls(8) if event.kind is Kind.COMPLETED]
    assert result_of(results).refused == [4, 5, 6, 7]


def test_what_was_refused_when_it_was_recorded_is_neither_made_nor_refused_again() -> None:
    refused = call(1)[1].model_copy(update={"outcome": Outcome.REFUSED, "usage": None})
    events = [*call(0), refused, *call(2)]
    assert published(events) == [
        ("s-p0", ""), ("s-r0", "ok"), ("s-r1", "refused"), ("s-p2", ""), ("s-r2", "ok"),
    ]  # fmt: skip
    assert result_of(events).refused == []


def test_a_subagent_is_held_with_its_parent_and_not_the_other_way_round() -> None:
    below = {"session": "s/below", "parent_session_id": "s"}
    main, sub = Recorded("s", tuple(enumerate(calls(5)))), calls(9, **below)
    late = Recorded("s/below", tuple(enumerate(sub[10:])))
    first, second = together(Core(BUDGET), [main, late])
    assert (first.held, second.held, second.refused) == (6, 0, [0, 2, 4, 6])
    early = Recorded("s/below", tuple(enumerate(sub)))
    first, second = together(Core(BUDGET), [Recorded("s", tuple(enumerate(calls(2)))), early])
    assert (first.refused, second.refused[:1]) == ([], [6])


@pytest.mark.parametrize("times", [True, False], ids=["with times", "without times"])
def test_declared_targets_of_traces_are_not_used_and_those_of_events_are(tmp_path: Path, times: bool) -> None:
    deletes = [
        {"session_id": "s", "seq": n, "action": "remove", "args": {"it": n}, "targets": ["asset_id=a"], "outcome": "ok"}
        | ({"timestamp": f"2026-11-01T10:00:{n:02}Z"} if times else {})
        for n in range(5)
    ]
    trace, events = tmp_path / "trace.jsonl", tmp_path / "events.jsonl"
    trace.write_bytes(b"\n".join(map(orjson.dumps, deletes)))
    own = [event for n in range(5) for event in call(n, "remove", args={"it": n}, targets=["asset_id=a"])]
    events.write_bytes(b"\n".join(event.to_json() for event in own))
    by_file = {file: next(read_traces(file)) for file in (trace, events)}
    assert {target for _, event in by_file[trace].events for target in event.targets} == set()
    assert {target for _, event in by_file[events].events for target in event.targets} == {"asset_id=a"}
