from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.quality.__main__ import main
from benchmarks.quality.sessions import Fate, default_files, read
from haltline.detectors import ALL
from tests.benchmarks.recorded import Steps, alike, deletes, reads, write

Sessions = Mapping[str, tuple[Steps, Mapping[str, Any]]]

SOUND: Mapping[str, Any] = {"resolved": True}
FAILED: Mapping[str, Any] = {"resolved": False}


def run(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    code = main([str(file), "--json", *options])
    return code, orjson.loads(capsys.readouterr().out)


def sound(count: int) -> Sessions:
    return {f"sound-{i}": (reads(3), SOUND) for i in range(count)}


def test_a_stop_in_one_of_a_hundred_sound_sessions_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capsys, write(tmp_path, {**sound(99), "loops": (deletes(3), SOUND)}))
    assert (code, said["passed"]) == (1, False)
    assert [(t["name"], t["count"], t["of"], t["met"]) for t in said["targets"]] == [
        ("sound sessions stopped", 1, 100, False),
        ("sound sessions nudged or more", 1, 100, True),
    ]


def test_a_stop_in_one_of_a_hundred_and_one_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, write(tmp_path, {**sound(100), "loops": (deletes(3), SOUND)}))
    assert (code, said["passed"]) == (0, True)


def test_a_stop_in_a_session_that_failed_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, write(tmp_path, {**sound(2), "loops": (deletes(3), FAILED)}))
    ours = next(row for row in said["systems"] if row["system"] == "haltline")
    assert code == 0
    assert ours["groups"]["sound"] == {"sessions": 2, "found": 0, "stopped": 0}
    assert ours["groups"]["failed"] == {"sessions": 1, "found": 1, "stopped": 1}


def test_every_detector_has_a_row_and_the_one_that_stopped_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = run(capsys, write(tmp_path, {"loops": (deletes(3), SOUND), "fails": (deletes(3), FAILED)}))
    rows = {row["detector"]: row for row in said["detectors"]}
    assert list(rows) == [detector.id for detector in ALL]
    repeat = rows["destructive_repeat"]
    assert (repeat["fired"], repeat["sound_fired"]) == (2, 1)
    assert (repeat["stopped"], repeat["sound_stopped"]) == (2, 1)
    assert repeat["by_severity"] == {"low": 0, "medium": 0, "high": 0, "critical": 2}


def test_sets_say_who_found_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions = {"loops": (deletes(3), FAILED), "alike": (alike(4), FAILED), "works": (reads(9), FAILED)}
    _, said = run(capsys, write(tmp_path, sessions))
    by = {(o["baseline"], o["fate"], o["what"]): o for o in said["overlaps"]}
    v1, gemini = by["OpenHands V1", "failed", "stopped"], by["Gemini CLI", "failed", "stopped"]
    assert "alike" in v1["both"] + v1["baseline_only"]
    assert "loops" in v1["ours_only"]
    assert gemini["baseline_only"] == gemini["both"] == []
    assert {s["session_id"] for s in said["sessions"]} == {"loops", "alike"}


def test_the_ledger_says_which_sessions_looped(tmp_path: Path) -> None:
    labels = {"solved": False, "ledger_checks": 5, "ledger_in_loop": 2, "first_in_loop_seq": 3}
    known = {k.session_id: k for k in read([write(tmp_path, {"a": (reads(2), labels), "b": (reads(2), {})})])}
    assert (known["a"].loops, known["a"].loop_checks, known["a"].first_loop_seq) == (2, 5, 3)
    assert (known["b"].loops, known["b"].loop_checks) == (0, None)
    assert (known["a"].fate, known["b"].fate) == (Fate.FAILED, Fate.UNKNOWN)


def test_the_list_names_each_session_where_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write(tmp_path, {**sound(2), "loops": (deletes(3), FAILED)})), "--list"]) == 0
    out = capsys.readouterr().out
    assert "loops (unresolved, 3 actions): KILL" in out
    assert "2 destructive_repeat critical KILL: loop_detected, 3 deletes on asset_id=fact_sales" in out
    assert "PASS  sound sessions stopped: 0 of 2" in out


def test_sessions_of_which_nothing_is_known_have_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(write(tmp_path, {"loops": (deletes(3), {})}))])
    assert (code, "No target" in capsys.readouterr().out) == (0, True)


def test_another_policy_can_be_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "quiet.yaml"
    policy.write_text(f"rules: {{{', '.join(f'{detector.id}: {{mode: shadow}}' for detector in ALL)}}}")
    code, said = run(capsys, write(tmp_path, {"loops": (deletes(3), SOUND)}), "--policy", str(policy))
    assert (code, said["targets"][0]["count"]) == (0, 0)


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_generated_sessions_are_judged_by_family(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--synthetic", "--seeds", "1", "--json"])
    said = orjson.loads(capsys.readouterr().out)
    rows = {row["family"]: row for row in said["families"]}
    same = rows["same_target"]
    assert (same["runaway"], same["caught"], same["cases"]) == (True, 1, 1)
    assert same["most_steps"] <= same["within"]
    assert (rows["growing_log"]["runaway"], rows["growing_log"]["stopped"]) == (False, 0)
    assert rows["growing_log"]["baselines"]["OpenHands V0"] == 1  # it does not compare what a command prints
    assert [share["name"] for share in said["shares"]] == ["undisturbed", "repeated", "lost", "disordered", "late"]


@pytest.mark.skipif(
    not all(file.exists() for file in default_files()), reason="no recorded traces beside the repository"
)
def test_recorded_sessions_are_all_read() -> None:
    known = list(read(default_files()))
    assert len(known) == 853
    assert sum(k.session.length for k in known) == 21_792
    assert sum(k.fate is Fate.SOUND for k in known) == 437
    assert sum(k.loops > 0 for k in known) == 34
