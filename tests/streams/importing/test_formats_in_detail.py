"""What the samples do not have: other names of fields, halves of runs, subagents of subagents, how calls can end."""

import json
from pathlib import Path
from typing import Any

import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.messages import proposals, returned, text_of
from haltline.streams.importing.spans import MODEL, TOOL, Span, parts

SAMPLES = Path(__file__).parent / "samples"
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


def test_a_run_that_is_posted_and_then_patched_is_one_call(tmp_path: Path) -> None:
    post = {"id": "r1", "trace_id": "t1", "run_type": "tool", "name": "delete", "start_time": NOON, "inputs": {"id": 1}}
    patch = {"id": "r1", "trace_id": "t1", "run_type": "tool", "end_time": "2025-06-16T12:00:01", "error": "no"}
    for recording, lines in (({"post": [post], "patch": [patch]}, False), ([post, patch], True)):
        asked, ended = imported(tmp_path, recording, lines=lines)
        assert (asked.session_id, asked.time, asked.args) == ("t1", NOON_MS, {"id": 1})
        assert (ended.outcome, ended.error, ended.duration_ms) == (Outcome.ERROR, "no", 1000)


def test_a_run_has_its_children_and_a_call_that_has_not_ended_is_only_proposed(tmp_path: Path) -> None:
    child = {"id": "r2", "trace_id": "t1", "run_type": "tool", "name": "delete", "start_time": NOON}
    run = {"id": "t1", "trace_id": "t1", "run_type": "chain", "name": "agent", "child_runs": [child]}
    assert [(e.kind, e.action) for e in imported(tmp_path, {"runs": [run]})] == [(Kind.PROPOSED, "delete")]


def test_an_export_of_langfuse_to_a_storage_has_other_names(tmp_path: Path) -> None:
    common = {"trace_id": "t1", "start_time": "2025-06-16 12:00:00.000", "end_time": "2025-06-16 12:00:01.000"}
    turn = {"usage_details": '{"input": 3, "input_cached_tokens": 4, "cache_creation_input_tokens": 2, "output": 5}'}
    rows: list[dict[str, Any]] = [
        {"id": "o1", "type": "GENERATION", "total_cost": 0.5, **common, **turn},
        {"id": "o2", "type": "TOOL", "name": "rm", "input": '{"path": "/a"}', "output": "gone", **common},
        {"id": "o3", "type": "SPAN", "name": "agent", "session_id": "s1", **common},
    ]
    first, asked, ended = sorted(imported(tmp_path, rows, lines=True), key=lambda e: e.kind is not Kind.MODEL_TURN)
    assert first.usage == Usage(input_tokens=5, output_tokens=5, cache_read_tokens=4, cost_usd=0.5)
    assert {e.session_id for e in (first, asked, ended)} == {"s1"}
    assert (asked.args, asked.time, ended.output_head) == ({"path": "/a"}, NOON_MS, "gone")


def test_the_arguments_of_an_observed_function_are_unwrapped(tmp_path: Path) -> None:
    for given, args in (
        ('{"args": [], "kwargs": {"asset_id": "x"}}', {"asset_id": "x"}),
        ('{"args": ["x"], "kwargs": {"force": true}}', {"force": True, "args": ["x"]}),
        ('{"args": ["x"]}', {"args": ["x"]}),
        ("x", None),
    ):
        tool = {"id": "o", "traceId": "t", "type": "TOOL", "name": "delete_asset", "startTime": NOON, "input": given}
        (asked,) = imported(tmp_path, [tool])
        assert asked.args == args


def test_the_answers_of_apis_have_their_records_within(tmp_path: Path) -> None:
    spans = json.loads((SAMPLES / "phoenix_spans.json").read_text())
    trace = json.loads((SAMPLES / "langfuse_trace.json").read_text())
    download = {"trace": {"sessionId": trace["sessionId"]}, "observations": trace["observations"]}
    for answer in ({"data": spans, "next_cursor": None}, download):
        events = imported(tmp_path, answer)
        assert {event.session_id for event in events} == {"night-7", "night-7/call_a3"}
        assert len(events) == 19


def test_other_spans_of_a_trace_are_passed_over_but_lead_to_what_is_below_them(tmp_path: Path) -> None:
    request = json.loads((SAMPLES / "phoenix_otlp.json").read_text())
    spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for span in spans:  # a span of something else between the helper and the call that has begun it
        if span["name"] == "helper":
            other = {"spanId": "http", "traceId": span["traceId"], "parentSpanId": span["parentSpanId"], "name": "POST"}
            span["parentSpanId"] = "http"
    spans.append(other)
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(request))
    assert list(Imported(file).events()) == list(Imported(SAMPLES / "phoenix_otlp.json").events())


def test_a_session_of_adk_may_have_the_names_of_python(tmp_path: Path) -> None:
    used = {
        "prompt_token_count": 9,
        "candidates_token_count": 2,
        "thoughts_token_count": 3,
        "cached_content_token_count": 4,
    }
    call = {"function_call": {"name": "rm", "args": {"path": "/a"}}}
    answer = {"function_response": {"name": "rm", "response": {"result": "gone"}}}
    common = {"invocation_id": "e1", "timestamp": NOON_MS / 1000}
    events = [
        {"partial": True, "content": {"parts": [{"text": "I"}]}, "usage_metadata": used, **common},
        {
            "content": {"parts": [{"text": "hm", "thought": True}, {"text": "I do"}, call]},
            "usage_metadata": used,
            **common,
        },
        {"content": {"parts": [answer]}, **common},
    ]
    turn, asked, ended = imported(tmp_path, {"id": "s1", "app_name": "a", "events": events})
    assert (turn.usage, turn.output_head) == (Usage(input_tokens=5, output_tokens=5, cache_read_tokens=4), "I do")
    assert (asked.call_id, asked.args, ended.call_id, ended.output_head) == ("e1-rm", {"path": "/a"}, "e1-rm", "gone")


def test_calls_of_inspect_end_in_several_ways_and_long_texts_are_beside_them(tmp_path: Path) -> None:
    call = {"event": "tool", "id": "c1", "function": "rm", "arguments": {"path": "attachment://a1"}, "timestamp": NOON}
    outcomes = {"timeout": Outcome.TIMEOUT, "approval": Outcome.REFUSED, "parsing": Outcome.ERROR}
    for error, outcome in outcomes.items():
        ended = {"completed": NOON, "result": "", "error": {"type": error, "message": "no"}}
        sample = {"id": 7, "epoch": 2, "events": [call | ended], "attachments": {"a1": "/srv/data"}}
        asked, end = imported(tmp_path, {"eval": {"task": "t"}, "samples": [sample]})
        assert (asked.session_id, asked.args) == ("7_epoch_2", {"path": "/srv/data"})
        assert (end.outcome, end.error) == (outcome, f"{error}: no")


def test_the_arguments_of_a_call_are_those_of_the_turn_where_its_span_has_none(tmp_path: Path) -> None:
    calls = [{"id": f"c{n}", "function": {"name": "rm", "arguments": f'{{"path": "/{n}"}}'}} for n in range(2)]
    common = {"object": "trace.span", "trace_id": "t1", "started_at": NOON, "ended_at": NOON}
    generation = {"type": "generation", "output": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    tools = [{"type": "function", "name": "rm", "input": None, "output": "gone"}] * 2
    spans = [common | {"id": f"s{n}", "span_data": data} for n, data in enumerate([generation, *tools])]
    asked = [e for e in imported(tmp_path, spans, lines=True) if e.kind is Kind.PROPOSED]
    assert [(e.call_id, e.args) for e in asked] == [("c0", {"path": "/0"}), ("c1", {"path": "/1"})]


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"content": "I do", "tool_calls": [
            {"id": "c", "function": {"name": "rm", "arguments": '{"a": 1}'}}]}}]},
        {"content": [{"type": "text", "text": "I do"},
                     {"type": "tool_use", "id": "c", "name": "rm", "input": {"a": 1}}]},
        [{"type": "message", "content": [{"type": "output_text", "text": "I do"}]},
         {"type": "function_call", "call_id": "c", "name": "rm", "arguments": '{"a": 1}'}],
        {"generations": [[{"message": {"kwargs": {"content": "I do", "tool_calls": [
            {"id": "c", "name": "rm", "args": {"a": 1}}]}}}]]},
    ],
    ids=["chat", "anthropic", "responses", "langchain"],
)  # fmt: skip
def test_an_answer_is_read_in_each_form(answer: object) -> None:
    assert text_of(answer) == "I do"
    assert list(proposals(answer)) == [("c", "rm", {"a": 1})]
    message = {"output": {"tool_call_id": "c", "status": "error", "content": [{"type": "text", "text": "no"}]}}
    assert returned(message) == ("no", "c", True)
    assert returned({"output": 5, "other": 6}) == ({"output": 5, "other": 6}, None, False)


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


def test_each_further_prompt_of_a_transcript_is_a_boundary_without_its_text(tmp_path: Path) -> None:
    def line(who: str, content: object, **fields: object) -> str:
        return json.dumps({"type": who, "sessionId": "s", "message": {"role": who, "content": content}} | fields)

    use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    file = tmp_path / "session.jsonl"
    file.write_text(
        "\n".join(
            [
                line("user", "fix the login"),
                line("assistant", [use]),
                line("user", [{"type": "tool_result", "tool_use_id": "c1", "content": "a"}]),
                line("user", "Caveat: what follows was run by the user", isMeta=True),
                line("user", "look around", parent_tool_use_id="c1"),
                line("user", [{"type": "text", "text": "and now the s3cret docs"}]),
            ]
        )
    )
    events = list(Imported(file, form="claude-code").events())
    assert [(e.kind, e.task and e.task.prompts) for e in events if e.kind is not Kind.MODEL_TURN] == [
        (Kind.PROPOSED, None),
        (Kind.COMPLETED, None),
        (Kind.SESSION_STARTED, 2),
    ]
    assert "s3cret" not in str(events)
