from functools import partial
from pathlib import Path

import orjson
import pytest

from tests.builders import at
from tests.streams.commands import said

run = partial(said, "backtest")


def rows(session: str, *seconds: float, action: str = "delete_asset") -> list[dict[str, object]]:
    common: dict[str, object] = {"kind": "action.proposed", "session_id": session, "action": action}
    common["targets"] = ["asset_id=fact_sales"]
    return [
        common | {"event_id": f"{session}@{second}", "time": at(second), "call_id": f"c{second}"} for second in seconds
    ]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    file = tmp_path / "sessions.jsonl"
    events = [*rows("loops", 0, 6, 12, 18), *rows("works", 0, 6, 12, 18, action="read_file")]
    file.write_bytes(b"\n".join(orjson.dumps(event) for event in events))
    return file


def test_json_has_one_object_for_each_session(recorded: Path) -> None:
    code, output = run("--json", recorded)
    loops, works = (orjson.loads(line) for line in output.splitlines())
    assert code == 0
    assert (works["session_id"], works["events"], works["level"], works["first"]) == ("works", 4, "ALLOW", None)
    assert (loops["session_id"], loops["events"], loops["level"]) == ("loops", 4, "KILL")
    assert loops["first"] == {"seq": 2, "event_id": "loops@12", "detector": "destructive_repeat", "level": "KILL"}
    assert [(d["seq"], d["level"]) for d in loops["decisions"]] == [(1, "NUDGE"), (2, "KILL")]
    assert {f["detector"] for f in loops["findings"]} == {"destructive_repeat", "destructive_volume"}


def test_what_cannot_be_used_is_named(recorded: Path, tmp_path: Path) -> None:
    code, output = run("--against", tmp_path / "none.yaml", recorded)
    assert (code, "none.yaml" in output) == (2, True)
    (tmp_path / "bad.yaml").write_text("rules:\n  destructive_repaet: {}\n")
    code, output = run("--policy", tmp_path / "bad.yaml", recorded)
    assert (code, "bad.yaml:2: rules.destructive_repaet" in output) == (2, True)
    file = tmp_path / "sessions.jsonl"
    for text, result in (("{", "sessions.jsonl:1:"), ('{"event_id": "e"}', "session_id")):
        file.write_text(text)
        code, output = run(file)
        assert (code, result in output) == (2, True)
