import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome, Usage
from haltline.streams.importing.formats import START_MS, Imported
from haltline.streams.importing.reading import NotReadable
from haltline.streams.importing.values import moment
from tests.cases import cases

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


def imported(tmp_path: Path, recording: object, *, lines: bool = False, **options: Any) -> list[ActionEvent]:
    file = tmp_path / "run.traj.json"
    file.write_text("\n".join(map(json.dumps, recording)) if lines else json.dumps(recording))  # type: ignore[call-overload]
    return list(Imported(file, **options).events())


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


def test_times_that_are_not_reported_are_made_up_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.traj"
    file.write_text(json.dumps(SWE))
    recording = Imported(file)
    assert [e.time - START_MS for e in recording.events()] == [1000, 2000]
    assert recording.untimed == 2


def test_subagents_are_sessions_below_and_each_line_of_an_evaluation_of_openhands_is_one(tmp_path: Path) -> None:
    (event, _) = imported(tmp_path, [{**CLAUDE[1], "isSidechain": True, "agentId": "a7"}], lines=True)
    assert (event.session_id, event.parent_session_id) == ("s1/a7", "s1")
    lines = [{"instance_id": name, "history": OPENHANDS} for name in ("django-1", "django-2")]
    assert [e.session_id for e in imported(tmp_path, lines, lines=True)] == ["django-1"] * 3 + ["django-2"] * 3


def test_what_is_no_recording_says_so(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text, actual in {
        b"": "got an empty list",
        b"no json": "expected JSON, or JSON lines, got something else",
        b"7": "got 7",
        b"{}": "got an empty object",
        b'{"messages": []}': "got an object with messages",
        b"[[1]]": "got a list of a list of 1",
        gzip.compress(b'{"trajectory": []}')[:-9]: "expected a whole gzip file",
    }.items():
        file.write_bytes(text)
        with pytest.raises(NotReadable, match=f"{file}.*{actual}"):
            Imported(file)


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ('{"trajectory": [{"action": "ls"}, 7]}', ["trajectory[1]: expected an object, got 7"]),
        ('{"messages": [null], "info": {}}', ["messages[0]: expected an object, got None"]),
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


def test_half_a_surrogate_pair_is_read_in_lines_and_in_one_value(tmp_path: Path) -> None:
    lines, whole = tmp_path / "lines.jsonl", tmp_path / "whole.traj"
    document = json.loads(json.dumps(CLAUDE).replace('"ls"', '"ls \\ud83d"'))
    lines.write_text("\n".join(map(json.dumps, document)))
    whole.write_text(json.dumps(SWE).replace('"ls"', '"ls \\ud83d"').replace("0.5", "NaN"))
    for path in (lines, whole):
        imported = Imported(path)
        texts = [str(event.args) for event in imported.events() if event.kind is Kind.PROPOSED]
        assert ["ls ?" in text for text in texts] == [True]
        assert imported.skipped == []


def test_a_moment_is_read_or_none() -> None:
    for value in ("2025-06-16T12:00:00Z", "2025-06-16T12:00:00", 1750075200):
        assert moment(value) == NOON_MS
    for no_time in (None, True, "noon", 1e300, -5):
        assert moment(no_time) is None


def test_what_is_imported_can_be_backtested(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl.gz"
    repeated = {"trajectory": [{"action": "rm -rf /srv/data", "observation": "still there"}] * 12}
    file.write_bytes(gzip.compress(json.dumps(repeated).encode()))
    command = [sys.executable, "-m", "haltline.cli"]
    done = subprocess.run([*command, "import", str(file)], capture_output=True, check=True)
    assert b"swe-agent: 24 events, 24 of them with times that were made up" in done.stderr
    events = tmp_path / "events.jsonl"
    events.write_bytes(done.stdout)
    tested = subprocess.run([*command, "backtest", "--json", str(events)], capture_output=True, check=False)
    assert json.loads(tested.stdout.splitlines()[0])["events"] == 24, tested.stderr
