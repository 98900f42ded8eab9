import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome, Task
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.traces import UnreadableTrace, read_traces
from tests.builders import T0_MS, cases

ROW: dict[str, Any] = {
    "source": "somewhere", "session_id": "s", "agent_id": "a", "seq": 4, "timestamp": "2025-06-15T15:06:40Z",
    "action": "bash", "args": {"command": "ls"}, "args_sha1": "ab", "args_len": 2, "targets": ["x"], "outcome": "error",
    "error": "rc=1: no", "obs_len": 7, "obs_sha1": "cd", "obs_head": "no", "tokens_in": 10, "tokens_out": 3,
    "cost_usd": 0.5, "duration_s": 1.5,
}  # fmt: skip


def written(path: Path, *rows: dict[str, Any] | str) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def read(path: Path) -> list[Recorded]:
    return list(read_traces(path))


def test_a_recorded_action_becomes_a_proposal_and_its_result(tmp_path: Path) -> None:
    (session,) = read(written(tmp_path / "t.jsonl", ROW))
    (first_seq, proposed), (second_seq, completed) = session.events
    assert (session.session_id, session.label, session.clock, session.length) == ("s", None, "real", 1)
    assert (first_seq, second_seq) == (4, 4)
    call = {"action": "bash", "args": {"command": "ls"}, "args_digest": "ab"}
    common = {"session_id": "s", "agent_id": "a", "call_id": "call-4"} | call
    asked = {"kind": Kind.PROPOSED, "time": T0_MS}
    assert proposed == ActionEvent.model_validate(common | {"event_id": "s/4/proposed"} | asked)
    done = {
        "kind": Kind.COMPLETED, "time": T0_MS + 1500, "outcome": Outcome.ERROR, "error": "rc=1: no",
        "duration_ms": 1500, "output_digest": "cd", "output_bytes": 7, "output_head": "no",
        "usage": {"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.5},
    }  # fmt: skip
    assert completed == ActionEvent.model_validate(common | {"event_id": "s/4"} | done)


T, LATER = "2025-06-15T15:06:40Z", "2025-06-15T15:06:41Z"


@cases(
    "result, task",
    {
        "a prompt that was cut": ("Fix the login…[+2428]", Task(goal="Fix the login")),
        "with declared paths and limits": (
            {"goal": "Fix it", "expected_paths": ["src/**"], "limits": {"max_actions": 50}},
            Task(goal="Fix it", expected_paths=["src/**"], limits={"max_actions": 50}),
        ),
    },
)
def test_a_session_whose_task_is_known_begins_with_it(tmp_path: Path, result: Any, task: Task) -> None:
    path = written(tmp_path / "t.jsonl", ROW, ROW | {"seq": 5})
    beside = written(tmp_path / "t.sessions.jsonl", {"session_id": "s", "task": result})
    (session,) = read(path)
    first_seq, started = session.events[0]
    assert [seq for seq, _ in session.events] == [4, 4, 4, 5, 5]
    assert (first_seq, session.length) == (4, 2)
    assert (started.event_id, started.kind, started.time, started.task) == (
        "s/started", Kind.SESSION_STARTED, T0_MS, task
    )  # fmt: skip
    written(beside, {"session_id": "s", "task": {"goal": 3}})
    with pytest.raises(UnreadableTrace, match=f"^{beside}:1: task: .*goal"):
        read(path)


@cases(
"row, message",
{
"not JSON": ("{", "expected a JSON object, got b'{'"),
"not an object": ("[1]", "expected a JSON object, got list"),
"an agent's own recording": (
    {"type": "system", "session_id": "s"},
    "expected `kind` (an ActionEvent) or `action` (a recorded trace), got type, session_id; `haltline import`",
),
"no time": (ROW | {"timestamp": "yesterday"}, "Invalid isoformat string: 'yesterday'"),
"an unknown kind": ({"session_id": "s", "kind": "odd", "event_id": "e"}, "kind: Input should be"),
},
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, row: dict[str, Any] | str, message: str) -> None:
    path = written(tmp_path / "t.jsonl", ROW, row)
    with pytest.raises(UnreadableTrace) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}:2: ")
    assert message in str(raised.value)
