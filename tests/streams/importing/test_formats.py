"""Recordings by format, with variations that the samples lack: other field names, partial runs, ends of calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.reading import NotReadable
from haltline.streams.importing.steps import Turn
from haltline.streams.importing.values import moment
from tests.builders import cases

NOON_MS = 1_750_075_200_000
USED = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
CLAUDE: list[dict[str, Any]] = [
    {"type": "summary", "summary": "x"},
    {
        "type": "assistant", "sessionId": "s1", "timestamp": "2025-06-16T12:00:00.000Z",
        "message": {"id": "m1", "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 4},
                    "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]},
    },
    {
        "type": "user", "sessionId": "s1", "timestamp": "2025-06-16T12:00:01.000Z",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}]},
    },
]  # fmt: skip
OPENHANDS = [
    {"id": 0, "source": "user", "action": "message", "args": {"content": "go"}, "timestamp": "2025-06-16T11:59:00"},
    {
        "id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "hm"},
        "timestamp": "2025-06-16T12:00:00", "tool_call_metadata": {"model_response": {"id": "r1", "usage": USED}},
    },
    {"id": 2, "source": "agent", "observation": "run", "cause": 1, "content": "no", "timestamp": "2025-06-16T12:00:01",
     "extras": {"metadata": {"exit_code": 2}}},
]  # fmt: skip
TYPED = [
    {"kind": "ActionEvent", "source": "agent", "timestamp": "2025-06-16T12:00:00", "tool_name": "bash",
     "tool_call_id": "t1", "action": {"kind": "ExecuteBashAction", "command": "ls"}},
    {"kind": "ObservationEvent", "timestamp": "2025-06-16T12:00:01", "tool_name": "bash", "tool_call_id": "t1",
     "observation": {"content": "no", "exit_code": 2}},
]  # fmt: skip
MINI = {
    "info": {}, "instance_id": "django-1", "messages": [
        {"role": "system", "content": "You are"}, {"role": "user", "content": "Solve it"},
        {"role": "assistant", "content": "I look\n```bash\nls\n```",
         "extra": {"response": {"created": 1750075200, "usage": USED}}},
        {"role": "user", "content": "<returncode>2</returncode>\n<output>no</output>"},
    ],
}  # fmt: skip
MINI_2 = {
    "trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
        {"role": "assistant", "content": None, "extra": {"actions": [{"command": "ls"}], "timestamp": 1750075200.0}},
        {"role": "tool", "content": "no", "extra": {"returncode": 2, "raw_output": "no", "timestamp": 1750075201.0}},
    ],
}  # fmt: skip
SWE = {"trajectory": [{"action": "ls", "observation": "no", "execution_time": 0.5, "thought": "hm"}, {"action": ""}]}


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


SPAN = {
    "traceId": "t", "spanId": "1", "startTimeUnixNano": "1750075200000000000", "endTimeUnixNano": "1750075201000000000",
    "attributes": [
        attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "bash"),
        attribute("gen_ai.conversation.id", "s1"), attribute("error.type", "no"),
    ],
}  # fmt: skip
OTEL = {"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "2"}, SPAN]}]}]}
RECORDINGS = {
    "claude.jsonl": CLAUDE, "openhands.json": OPENHANDS, "typed.jsonl": TYPED, "mini.json": MINI, "mini-2.json": MINI_2,
    "swe.json": SWE, "otel.json": OTEL,
}  # fmt: skip
"""By the name of a file."""
ASKED, ENDED, TURN = Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN


def imported(tmp_path: Path, recording: object, *, lines: bool = False) -> list[ActionEvent]:
    file = tmp_path / "run.traj.json"
    file.write_text("\n".join(map(json.dumps, recording)) if lines else json.dumps(recording))  # type: ignore[call-overload]  # a list
    read = Imported(file)
    events = list(read.events())
    assert read.skipped == []
    return events


@cases(
    "recording, lines, session, action, kinds, outcome",
    {
        "claude code": (CLAUDE, True, "s1", "Bash", [ASKED, ENDED, TURN], Outcome.ERROR),
        "openhands": (OPENHANDS, False, "run", "run", [TURN, ASKED, ENDED], Outcome.ERROR),
        "openhands lines": (OPENHANDS, True, "run", "run", [TURN, ASKED, ENDED], Outcome.ERROR),
        "openhands sdk": (TYPED, False, "run", "bash", [ASKED, ENDED], Outcome.ERROR),
        "mini-swe-agent 1": (MINI, False, "django-1", "bash", [TURN, ASKED, ENDED], Outcome.ERROR),
        "mini-swe-agent 2": (MINI_2, False, "run", "bash", [ASKED, ENDED], Outcome.ERROR),
        "swe-agent": (SWE, False, "run", "bash", [ASKED, ENDED], Outcome.UNKNOWN),
        "otel": (OTEL, False, "s1", "bash", [ENDED], Outcome.ERROR),
    },
)
def test_a_recording_is_known_by_its_form(
    tmp_path: Path, recording: object, lines: bool, session: str, action: str, kinds: list[Kind], outcome: Outcome
) -> None:
    events = imported(tmp_path, recording, lines=lines)
    assert [e.kind for e in events] == kinds
    assert {e.session_id for e in events} == {session}
    assert {e.action for e in events if e.kind is not TURN} == {action}
    (end,) = [e for e in events if e.kind is ENDED]
    assert end.outcome is outcome
    for proposal in (e for e in events if e.kind is ASKED):
        assert (proposal.args, proposal.call_id) == ({"command": "ls"}, end.call_id)
        assert (end.args, end.args_digest) == (proposal.args, proposal.args_digest)
    if recording is not SWE:
        assert {e.time // 10_000 for e in events if e.kind is not TURN} == {NOON_MS // 10_000}
    turns = [e.usage for e in events if e.kind is TURN]
    assert turns == [Usage(input_tokens=5, output_tokens=2, cache_read_tokens=4)] * len(turns)


@cases(
    "recording, model, usage",
    {
        "a cost of each message": (
            {"messages": [{"role": "assistant", "extra": {"cost": 0.5, "response": {"model": "m"}}}],
             "info": {"model_stats": {"instance_cost": 9}}},
            "m", Usage(cost_usd=0.5),
        ),
        "only a cost of all": (
            {"messages": [{"role": "assistant"}],
             "info": {"model_stats": {"instance_cost": 0.5}, "config": {"model": {"model_name": "m"}}}},
            "m", Usage(cost_usd=0.5),
        ),
        "swe-agent": (
            {"trajectory": [], "replay_config": '{"agent": {"model": {"name": "m"}}}',
             "info": {"model_stats": {"instance_cost": 0.5, "tokens_sent": 8, "tokens_received": 2}}},
            "m", Usage(input_tokens=8, output_tokens=2, cost_usd=0.5),
        ),
    },
)  # fmt: skip
def test_models_and_costs_that_a_trajectory_has_are_used(
    tmp_path: Path, recording: dict[str, object], model: str, usage: Usage
) -> None:
    file = tmp_path / "run.traj.json"
    file.write_text(json.dumps(recording))
    told: list[Turn] = []
    (event,) = Imported(file, price=told.append).events()
    assert (event.usage, [(one.model, one.usage) for one in told]) == (usage, [(model, usage)])


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ('{"trajectory": [{"action": "ls"}, 7]}', ["trajectory[1]: expected an object, got 7"]),
        (json.dumps(CLAUDE[1]) + '\n{"type": "user", "mess', ["line 2: expected JSON, got "]),
        (json.dumps(CLAUDE[1]) + "\n[]\n" + json.dumps(CLAUDE[2]), ["line 2: expected an object, got an empty list"]),
        (json.dumps({"instance_id": "i", "history": [*OPENHANDS, "x"]}), ["history[3]: expected an object, got 'x'"]),
        (json.dumps(OTEL).replace('"1750075201000000000"', '"noon"'), ["span '1': invalid"]),
    ],
)
def test_what_cannot_be_read_of_a_recording_is_reported_by_its_place(
    tmp_path: Path, text: str, skipped: list[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    recording = Imported(file)
    list(recording.events())
    assert len(recording.skipped) == len(skipped)
    assert all(reported.startswith(expected) for reported, expected in zip(recording.skipped, skipped, strict=True)), (
        recording.skipped
    )


def test_half_a_surrogate_pair_is_read_and_a_moment_is_or_none(tmp_path: Path) -> None:
    lines, whole = tmp_path / "lines.jsonl", tmp_path / "whole.traj"
    document = json.loads(json.dumps(CLAUDE).replace('"ls"', '"ls \\ud83d"'))
    lines.write_text("\n".join(map(json.dumps, document)))
    whole.write_text(json.dumps(SWE).replace('"ls"', '"ls \\ud83d"').replace("0.5", "NaN"))
    for path in (lines, whole):
        imported = Imported(path)
        texts = [str(event.args) for event in imported.events() if event.kind is Kind.PROPOSED]
        assert ["ls ?" in text for text in texts] == [True]
        assert imported.skipped == []
    for value in ("2025-06-16T12:00:00Z", "2025-06-16T12:00:00", 1750075200):
        assert moment(value) == NOON_MS
    for no_time in (None, True, "noon", 1e300, -5):
        assert moment(no_time) is None


def test_an_export_that_is_no_longer_read_is_refused_with_the_formats_that_are(tmp_path: Path) -> None:
    file = tmp_path / "langfuse.json"
    file.write_text(json.dumps([{"id": "o", "traceId": "t", "type": "TOOL", "name": "delete"}]))
    with pytest.raises(NotReadable, match=r"expected a recording of .*, atif, .*, otel, "):
        Imported(file)


def test_a_trajectory_of_harbor_has_those_of_its_subagents_and_results_without_an_id(tmp_path: Path) -> None:
    def step(name: str, **result: str) -> dict[str, Any]:
        call = {"tool_call_id": name, "function_name": "bash", "arguments": {"command": name}}
        return {"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result, {}]}}

    system = {"source": "system", "message": "You are", "observation": {"results": [{"content": "reset"}]}}
    copied = step("z", content="before") | {"is_copied_context": True}
    below = {"trajectory_id": "t2", "steps": [step("b", source_call_id="b", content="no")]}
    whole = {"schema_version": "ATIF-v1.7", "session_id": "s1", "steps": [copied, system, step("a", content="done")]}
    found = imported(tmp_path, whole | {"subagent_trajectories": [below]})
    assert [(e.session_id, e.kind, e.call_id, e.output_head) for e in found] == [
        ("s1", ASKED, "a", None), ("s1", ENDED, "a", "done"), ("t2", ASKED, "b", None), ("t2", ENDED, "b", "no"),
    ]  # fmt: skip


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
