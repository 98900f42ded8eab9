import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome, Task
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.traces import STEP_MS, UnreadableTrace, read_traces
from tests.builders import T0_MS, event

TRACES = Path(__file__).parents[3] / ".." / "shared" / "traces"

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
    common = {"session_id": "s", "agent_id": "a", "call_id": "call-4", "action": "bash"}
    assert proposed == ActionEvent.model_validate(
        common
        | {
            "event_id": "s/4/proposed",
            "kind": Kind.PROPOSED,
            "time": T0_MS,
            "args": {"command": "ls"},
            "args_digest": "ab",
            "targets": ["x"],
        }
    )
    assert completed == ActionEvent.model_validate(
        common
        | {
            "event_id": "s/4",
            "kind": Kind.COMPLETED,
            "time": T0_MS + 1500,
            "outcome": Outcome.ERROR,
            "error": "rc=1: no",
            "duration_ms": 1500,
            "output_digest": "cd",
            "output_bytes": 7,
            "output_head": "no",
            "usage": {"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.5},
        }
    )


def test_without_times_each_action_takes_a_fixed_step(tmp_path: Path) -> None:
    rows = [ROW | {"seq": seq, "timestamp": None, "duration_s": None} for seq in range(3)]
    (session,) = read(written(tmp_path / "t.jsonl.gz", *rows))
    times = [e.time - session.events[0][1].time for _, e in session.events]
    assert (session.clock, times) == ("steps", [0, 0, STEP_MS, STEP_MS, 2 * STEP_MS, 2 * STEP_MS])


def test_without_times_an_action_begins_a_step_after_the_one_before_has_ended(tmp_path: Path) -> None:
    took_s = (0.5, 300, None, 2)
    rows = [ROW | {"seq": seq, "timestamp": None, "duration_s": took} for seq, took in enumerate(took_s)]
    (session,) = read(written(tmp_path / "t.jsonl", *rows))
    times = [(e.time - session.events[0][1].time) / 1000 for _, e in session.events]
    assert times == [0, 0.5, 5.5, 305.5, 310.5, 310.5, 315.5, 317.5]


def test_an_action_without_a_time_follows_one_that_has_it(tmp_path: Path) -> None:
    rows = [ROW | {"seq": 0, "duration_s": 7}, ROW | {"seq": 1, "timestamp": None, "duration_s": None}]
    (session,) = read(written(tmp_path / "t.jsonl", *rows))
    assert [e.time - T0_MS for _, e in session.events] == [0, 7_000, 7_000 + STEP_MS, 7_000 + STEP_MS]


def test_times_of_the_source_are_kept_as_they_are(tmp_path: Path) -> None:
    moments = ("2025-06-15T15:06:40Z", "2025-06-15T15:06:40Z", "2025-06-15T15:06:41Z")
    rows = [ROW | {"seq": seq, "timestamp": moment, "duration_s": 90} for seq, moment in enumerate(moments)]
    (session,) = read(written(tmp_path / "t.jsonl", *rows))
    assert [e.time - T0_MS for _, e in session.events if e.kind is Kind.PROPOSED] == [0, 0, 1_000]


def test_sessions_that_are_mixed_are_distinguished(tmp_path: Path) -> None:
    rows = [ROW | {"session_id": name, "seq": seq} for seq in range(2) for name in ("a", "b")]
    sessions = read(written(tmp_path / "t.jsonl", *rows))
    assert [(s.session_id, s.length) for s in sessions] == [("a", 2), ("b", 2)]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_labels_come_from_the_file_beside(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, *(ROW | {"session_id": s} for s in "abcd"))
    beside = {"a": {"resolved": True}, "b": {"resolved": False}, "c": {"reward": 0.0, "solved": False}, "d": {}}
    rows = [{"session_id": s, "labels": labels} for s, labels in beside.items()]
    written(tmp_path / name.replace("t.", "t.sessions."), *rows)
    assert [s.label for s in read(path)] == ["resolved", "unresolved", "unsolved", None]


@pytest.mark.parametrize(
    ("result", "task"),
    [
        pytest.param("Fix the login of the shop", Task(goal="Fix the login of the shop"), id="a prompt"),
        pytest.param("Fix the login…[+2428]", Task(goal="Fix the login"), id="a prompt that was cut"),
        pytest.param(
            {"goal": "Fix it", "expected_paths": ["src/**"], "limits": {"max_actions": 50}},
            Task(goal="Fix it", expected_paths=["src/**"], limits={"max_actions": 50}),
            id="with declared paths and limits",
        ),
    ],
)
def test_a_session_whose_task_is_known_begins_with_it(tmp_path: Path, result: Any, task: Task) -> None:
    path = written(tmp_path / "t.jsonl", ROW, ROW | {"seq": 5})
    written(tmp_path / "t.sessions.jsonl", {"session_id": "s", "task": result})
    (session,) = read(path)
    first_seq, started = session.events[0]
    assert [seq for seq, _ in session.events] == [4, 4, 4, 5, 5]
    assert (first_seq, session.length) == (4, 2)
    assert started == ActionEvent(
        event_id="s/started", kind=Kind.SESSION_STARTED, session_id="s", agent_id="a", time=T0_MS, task=task
    )


@pytest.mark.parametrize("task", [None, ""])
def test_a_session_of_whose_task_nothing_is_known_begins_with_its_first_action(
    tmp_path: Path, task: str | None
) -> None:
    path = written(tmp_path / "t.jsonl", ROW)
    written(tmp_path / "t.sessions.jsonl", {"session_id": "s", "labels": {"resolved": True}, "task": task})
    (session,) = read(path)
    assert [e.kind for _, e in session.events] == [Kind.PROPOSED, Kind.COMPLETED]


def test_a_task_that_is_none_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", ROW)
    beside = written(tmp_path / "t.sessions.jsonl", {"session_id": "s", "task": {"goal": 3}})
    with pytest.raises(UnreadableTrace, match="goal") as raised:
        read(path)
    assert str(raised.value).startswith(f"{beside}:1: task: ")


def test_plain_events_are_taken_as_they_are(tmp_path: Path) -> None:
    events = [event(0), event(5, "delete_asset", "asset_id=a")]
    path = written(tmp_path / "t.jsonl", *(e.to_json().decode() for e in events), "")
    assert read(path) == [Recorded("s1", tuple(enumerate(events)))]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param("{", "expected a JSON object, got b'{'", id="not JSON"),
        pytest.param("[1]", "expected a JSON object, got list", id="not an object"),
        pytest.param({"seq": 1}, "session_id: expected a text, got None", id="no session"),
        pytest.param(ROW | {"timestamp": "yesterday"}, "Invalid isoformat string: 'yesterday'", id="no time"),
        pytest.param(ROW | {"tokens_in": -1}, "input_tokens: Input should be greater than or equal to 0, got -1",
                     id="less than nothing"),
        pytest.param({"session_id": "s", "kind": "odd", "event_id": "e"}, "kind: Input should be",
                     id="an unknown kind"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, row: dict[str, Any] | str, message: str) -> None:
    path = written(tmp_path / "t.jsonl", ROW, row)
    with pytest.raises(UnreadableTrace) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}:2: ")
    assert message in str(raised.value)


@pytest.mark.skipif(not TRACES.exists(), reason="needs the recorded traces beside the repository")
@pytest.mark.parametrize(
    ("name", "sessions", "actions", "clock"),
    [("miniswe", 481, 18_613, "real"), ("spotter", 12, 664, "real"), ("taubench", 179, 1_113, "steps")],
)
def test_the_recorded_traces_are_read_whole(name: str, sessions: int, actions: int, clock: str) -> None:
    found = read(TRACES / f"{name}.jsonl.gz")
    assert (len(found), sum(s.length for s in found), {s.clock for s in found}) == (sessions, actions, {clock})
