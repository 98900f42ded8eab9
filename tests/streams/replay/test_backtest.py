from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from haltline.cli.app import app

T0_MS = 1_750_000_000_000


def rows(session: str, *seconds: float, action: str = "delete_asset") -> list[dict[str, object]]:
    return [
        {
            "event_id": f"{session}@{second}",
            "kind": "action.proposed",
            "session_id": session,
            "time": T0_MS + round(second * 1000),
            "call_id": f"c{second}",
            "action": action,
            "targets": ["asset_id=fact_sales"],
        }
        for second in seconds
    ]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    file = tmp_path / "sessions.jsonl"
    events = [*rows("loops", 0, 6, 12, 18), *rows("works", 0, 6, 12, 18, action="read_file")]
    file.write_bytes(b"\n".join(orjson.dumps(event) for event in events))
    return file


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["backtest", *map(str, arguments)])
    return result.exit_code, result.output


def test_json_has_one_object_for_each_session(recorded: Path) -> None:
    code, output = run("--json", recorded)
    loops, works = (orjson.loads(line) for line in output.splitlines())
    assert code == 0
    assert (works["session_id"], works["events"], works["level"], works["first"]) == ("works", 4, "ALLOW", None)
    assert (loops["session_id"], loops["events"], loops["level"]) == ("loops", 4, "KILL")
    assert loops["first"] == {"seq": 2, "event_id": "loops@12", "detector": "destructive_repeat", "level": "KILL"}
    assert [(d["seq"], d["level"]) for d in loops["decisions"]] == [(1, "NUDGE"), (2, "KILL")]
    assert {f["detector"] for f in loops["findings"]} == {"destructive_repeat", "destructive_volume"}


def test_another_policy_shows_what_fares_differently(recorded: Path, tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.yaml"
    rules = ("destructive_repeat", "destructive_volume", "repetition")
    quiet.write_text("\n".join(["rules:", *(f"  {rule}: {{mode: shadow}}" for rule in rules)]))
    code, output = run("--policy", quiet, "--against", tmp_path / "none.yaml", recorded)
    assert (code, "none.yaml" in output) == (2, True)
    (tmp_path / "none.yaml").write_text("name: default")
    code, output = run("--policy", quiet, "--against", tmp_path / "none.yaml", recorded)
    assert code == 0
    assert "1 of 2 sessions differ" in output
    assert "loops: KILL at 2 by destructive_repeat -> ALLOW" in output


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("{", "sessions.jsonl:1:", id="not JSON"),
        pytest.param('{"event_id": "e"}', "session_id", id="no session"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(text: str, result: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_text(text)
    code, output = run(file)
    assert (code, result in output) == (2, True)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("rules:\n  destructive_repaet: {}\n", "p.yaml:2: rules.destructive_repaet", id="an unknown rule"),
        pytest.param("rules:\n  destructive_repeat:\n    settings:\n      same_target_prior: 0\n",
                     "p.yaml:4: rules.destructive_repeat.settings.same_target_prior", id="a setting out of bounds"),
        pytest.param("cooldown: 3\n", "p.yaml:1: cooldown", id="a field that is not known"),
        pytest.param("rules: [\n", "p.yaml:", id="not YAML"),
        pytest.param("- 1\n", "p.yaml:1: expected a mapping", id="not a mapping"),
    ],
)  # fmt: skip
def test_a_bad_policy_is_refused_with_line_and_reason(text: str, result: str, recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    code, output = run("--policy", file, recorded)
    assert (code, result in output) == (2, True), output
