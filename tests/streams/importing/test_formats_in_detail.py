"""What the samples do not have: other names of fields, halves of runs, subagents of subagents, how calls can end."""

import json
from pathlib import Path
from typing import Any

from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.spans import MODEL, TOOL, Span, parts

NOON = "2025-06-16T12:00:00Z"
NOON_MS = 1_750_075_200_000


def imported(tmp_path: Path, recording: object, *, lines: bool = False) -> list[ActionEvent]:
    file = tmp_path / "recording.json"
    file.write_text("\n".join(map(json.dumps, recording)) if lines else json.dumps(recording))  # type: ignore[call-overload]  # a list
    read = Imported(file)
    events = list(read.events())
    assert read.skipped == []
    return events


def span(name: str, parent: str | None = None, kind: str = "", at: float = 0.0) -> Span:
    return Span(id=name, parent=parent, trace="t", kind=kind, name=name, start_ms=NOON_MS + at, end_ms=NOON_MS + at + 1)


def test_subagents_of_subagents_are_below_each_other_and_tools_within_tools_are_not_subagents() -> None:
    spans = [
        span("root"),
        span("ask", "root", TOOL),
        span("helper", "ask"),
        span("turn", "helper", MODEL, 1),
        span("again", "helper", TOOL, 2),
        span("deep", "again", MODEL, 3),
        span("build", "root", TOOL, 4),
        span("compile", "build", TOOL, 5),
    ]
    (part,) = parts(spans)
    where = [(step.kind.value, step.action, step.below) for step in part.steps]
    assert part.session_id == "t"
    assert [(action, below) for kind, action, below in where if kind == "action.proposed"] == [
        ("ask", None),
        ("again", "ask"),
        ("build", None),
        ("compile", None),
    ]
    assert [below for kind, _, below in where if kind == "model.turn"] == ["ask", "ask/again"]
    (part,) = parts([span("a", "b", TOOL), span("b", "a", TOOL), span("c", "a", MODEL)])
    assert len(list(part.steps)) == 5, "spans that are within each other in a circle end"


def test_a_run_that_is_posted_and_patched_is_one_call_and_one_that_has_not_ended_is_proposed(tmp_path: Path) -> None:
    post = {"id": "r1", "trace_id": "t1", "run_type": "tool", "name": "delete", "start_time": NOON, "inputs": {"id": 1}}
    patch = {"id": "r1", "trace_id": "t1", "run_type": "tool", "end_time": "2025-06-16T12:00:01", "error": "no"}
    for recording, lines in (({"post": [post], "patch": [patch]}, False), ([post, patch], True)):
        asked, ended = imported(tmp_path, recording, lines=lines)
        assert (asked.session_id, asked.time, asked.args) == ("t1", NOON_MS, {"id": 1})
        assert (ended.outcome, ended.error, ended.duration_ms) == (Outcome.ERROR, "no", 1000)
    child = {"id": "r2", "trace_id": "t1", "run_type": "tool", "name": "delete", "start_time": NOON}
    run = {"id": "t1", "trace_id": "t1", "run_type": "chain", "name": "agent", "child_runs": [child]}
    assert [(e.kind, e.action) for e in imported(tmp_path, {"runs": [run]})] == [(Kind.PROPOSED, "delete")]


def test_calls_of_inspect_end_in_several_ways_and_arguments_of_an_observed_function_are_unwrapped(
    tmp_path: Path,
) -> None:
    call = {"event": "tool", "id": "c1", "function": "rm", "arguments": {"path": "attachment://a1"}, "timestamp": NOON}
    outcomes = {"timeout": Outcome.TIMEOUT, "approval": Outcome.REFUSED, "parsing": Outcome.ERROR}
    for error, outcome in outcomes.items():
        ended = {"completed": NOON, "result": "", "error": {"type": error, "message": "no"}}
        sample = {"id": 7, "epoch": 2, "events": [call | ended], "attachments": {"a1": "/srv/data"}}
        asked, end = imported(tmp_path, {"eval": {"task": "t"}, "samples": [sample]})
        assert (asked.session_id, asked.args) == ("7_epoch_2", {"path": "/srv/data"})
        assert (end.outcome, end.error) == (outcome, f"{error}: no")
    for given, args in (
        ('{"args": [], "kwargs": {"asset_id": "x"}}', {"asset_id": "x"}),
        ('{"args": ["x"], "kwargs": {"force": true}}', {"force": True, "args": ["x"]}),
        ('{"args": ["x"]}', {"args": ["x"]}),
        ("x", None),
    ):
        tool = {"id": "o", "traceId": "t", "type": "TOOL", "name": "delete_asset", "startTime": NOON, "input": given}
        (asked,) = imported(tmp_path, [tool])
        assert asked.args == args


def test_ids_that_are_too_long_or_empty_do_not_end_an_import(tmp_path: Path) -> None:
    def line(who: str, *content: dict[str, Any], below: str | None = None) -> str:
        message = {"role": who, "content": content}
        return json.dumps({"type": who, "sessionId": "s", "message": message, "parent_tool_use_id": below})

    one, two = "t" * 300 + "1", "t" * 300 + "2"
    uses = [{"type": "tool_use", "id": name, "name": f"tool{name[-1]}", "input": {}} for name in (one, two)]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "done"} for name in (two, one)]
    file = tmp_path / "session.jsonl"
    file.write_text(
        "\n".join([line("assistant", *uses), line("user", *results), line("assistant", uses[0], below=two)])
    )
    events = list(Imported(file, form="claude-code").events())
    assert [event.action for event in events] == ["tool1", "tool2", "tool2", "tool1", "tool1"]
    ids = [event.call_id or "" for event in events]
    assert (ids[0], ids[1], len(ids[0])) == (ids[3], ids[2], 256)
    assert ids[0] != ids[1]
    assert (len(events[4].session_id), events[4].parent_session_id) == (256, "s")
    ended = {"kind": "AgentErrorEvent", "tool_call_id": "", "error": "x", "timestamp": "2026-01-01T00:00:00"}
    file.write_text(json.dumps([ended]))
    assert [event.call_id for event in Imported(file, form="openhands").events()] == [None]
