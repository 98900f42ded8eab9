from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.quality import __main__ as command
from benchmarks.quality.__main__ import main
from benchmarks.quality.sessions import JUDGED, Kind, default_files, files_in, read, read_judgements
from haltline.detectors import ALL
from haltline.streams.replay.traces import UnreadableTrace
from tests.benchmarks.recorded import Steps, alike, deletes, reads, verdict, write, write_judged

Sessions = Mapping[str, tuple[Steps, Mapping[str, Any]]]

SOLVED: Mapping[str, Any] = {"resolved": True}
FAILED: Mapping[str, Any] = {"resolved": False}

# Three deletes of one thing are stopped at the third; six calls alike are hinted at, and not stopped yet.
SESSIONS: Sessions = {
    "nyuctf:one/in-time": (deletes(3), {}),
    "nyuctf:one/within-five": ([*reads(8), *deletes(3)], {}),
    "nyuctf:two/before": ([*deletes(3), *reads(9)], {}),
    "sweagent:three:late": ([*reads(9), *deletes(3)], {}),
    "whowhen:Hand-Crafted:1": (reads(6), {}),
    "whowhen:Algorithm-Generated:1": (deletes(3), {}),
    "nyuctf:one/hint": (alike(6), {}),
    "nyuctf:two/sound": (reads(4), SOLVED),
    "nyuctf:two/false-alarm": (deletes(3), {}),
    "nyuctf:one/unclear": (deletes(3), {"solved": True}),
    "miniswe:solved": (reads(4), SOLVED),
    "miniswe:solved-and-stopped": (deletes(3), {"solved": True}),
    "miniswe:failed": (deletes(3), FAILED),
    "spotter:unknown": (deletes(3), {}),
}
VERDICTS = {
    "nyuctf:one/in-time": verdict("stop", begins=0, signal=1, pattern="same_call"),
    "nyuctf:one/within-five": verdict("stop", begins=3, signal=5, pattern="same_call"),
    "nyuctf:two/before": verdict("stop", begins=6, signal=9, pattern="other"),
    "sweagent:three:late": verdict("stop", begins=0, signal=3, pattern="same_call"),
    "whowhen:Hand-Crafted:1": verdict("stop", begins=1, signal=4, pattern="other"),
    "whowhen:Algorithm-Generated:1": verdict("nudge", begins=0, signal=1, pattern="other"),
    "nyuctf:one/hint": verdict("nudge", begins=0, signal=3, pattern="same_call"),
    "nyuctf:two/sound": verdict("sound"),
    "nyuctf:two/false-alarm": verdict("sound"),
    "nyuctf:one/unclear": verdict("unclear"),
}


def run(capsys: pytest.CaptureFixture[str], *options: str | Path) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, options), "--json"])
    return code, orjson.loads(capsys.readouterr().out)


def counted(result: Mapping[str, Any], group: str, system: str = "haltline") -> dict[str, tuple[int, int]]:
    return {
        f"{row['kind']} {row['measure']}": (row["count"], row["of"])
        for row in result["judged"]
        if (row["group"], row["system"]) == (group, system)
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_judged(tmp_path, SESSIONS, VERDICTS)


def test_judged_sessions_are_counted_by_what_was_right(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = run(capsys, write(tmp_path, {}), "--judged", folder)
    assert (code, result["passed"]) == (1, False)
    assert counted(result, "all") == {
        "stop stopped": (4, 5),
        "stop within 5": (2, 5),
        "stop within 3": (1, 5),
        "stop before it began": (1, 5),
        "hint told": (2, 2),
        "hint stopped": (1, 2),
        "sound stopped": (1, 2),
        "sound asked": (0, 2),
        "sound told": (1, 2),
        "solved stopped": (1, 2),
        "solved asked": (0, 2),
        "solved told": (1, 2),
    }


@pytest.mark.parametrize(
    ("group", "row", "count"),
    [
        pytest.param("nyuctf:one", "stop within 5", (2, 2), id="agents of a source with several are apart"),
        pytest.param("nyuctf:two", "stop within 5", (0, 1), id="so are the others of that source"),
        pytest.param("whowhen", "hint told", (1, 1), id="both halves of whowhen are one source, which has hints"),
        pytest.param("whowhen", "stop stopped", (0, 1), id="and stops"),
        pytest.param("class same_call", "stop stopped", (3, 3), id="a class is counted over all sources"),
        pytest.param("miniswe", "solved stopped", (1, 2), id="a source of which nothing is judged has solved ones"),
    ],
)
def test_they_are_counted_by_source_and_class(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    group: str,
    row: str,
    count: tuple[int, int],
) -> None:
    _, result = run(capsys, write(tmp_path, {}), "--judged", folder)
    assert counted(result, group)[row] == count


def test_peers_are_counted_on_the_same_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_judged(tmp_path, {"a": (alike(4), {})}, {"a": verdict("stop", begins=0, signal=3)})
    _, result = run(capsys, write(tmp_path, {}), "--judged", folder)
    assert counted(result, "all", "OpenHands V1")["stop within 3"] == (1, 1)
    assert counted(result, "all", "Gemini CLI")["stop stopped"] == (0, 1)


def test_sessions_that_were_solved_have_targets_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solved = {f"solved-{i}": (reads(3), SOLVED) for i in range(199)}
    code, result = run(capsys, write(tmp_path, {**solved, "loops": (deletes(3), SOLVED)}))
    assert (code, [(t["name"], t["count"], t["of"], t["met"]) for t in result["targets"]]) == (
        0,
        [("solved sessions stopped", 1, 200, True), ("solved sessions told", 1, 200, True)],
    )
    code, result = run(capsys, write(tmp_path, {**solved, "x": (deletes(3), SOLVED), "y": (deletes(3), SOLVED)}))
    assert (code, result["passed"], result["targets"][0]["met"]) == (1, False, False)


def test_a_stop_in_a_session_that_failed_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run(capsys, write(tmp_path, {"works": (reads(3), SOLVED), "loops": (deletes(3), FAILED)}))
    assert code == 0
    assert counted(result, "all") == {"solved stopped": (0, 1), "solved asked": (0, 1), "solved told": (0, 1)}


def test_every_detector_has_a_row_and_the_one_that_stopped_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, result = run(capsys, write(tmp_path, {"loops": (deletes(3), SOLVED), "fails": (deletes(3), FAILED)}))
    rows = {row["detector"]: row for row in result["detectors"]}
    assert list(rows) == [detector.id for detector in ALL]
    repeat, none = rows["destructive_repeat"], {kind.value: 0 for kind in Kind}
    assert repeat["fired"] == 2
    assert repeat["by_severity"] == {"low": 0, "medium": 0, "high": 0, "critical": 2}
    assert repeat["fired_in"] == repeat["stopped_in"] == none | {"solved": 1, "other": 1}
    assert rows["cycle"]["fired_in"] == none


def test_sessions_say_who_found_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions = {"loops": (deletes(3), FAILED), "alike": (alike(4), FAILED), "works": (reads(9), FAILED)}
    _, result = run(capsys, write(tmp_path, sessions))
    seen = {session["session_id"]: session["seen"] for session in result["sessions"]}
    assert set(seen) == {"loops", "alike"}
    assert set(seen["loops"]) == {"haltline"}
    assert seen["alike"]["OpenHands V1"] == {"found": 3, "stopped": 3, "rule": "action_observation", "asked": None}


def test_several_processes_find_the_same(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, {})
    assert run(capsys, file, "--judged", folder) == run(capsys, file, "--judged", folder, "--jobs", "2")


def test_the_list_names_each_session_where_and_why(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write(tmp_path, {})), "--judged", str(folder), "--list"]) == 1
    out = capsys.readouterr().out
    assert "nyuctf:one/in-time (unlabelled, 3 actions, from 0, signal at 1): KILL" in out
    assert "2 destructive_repeat critical KILL: loop_detected, 3 deletes on asset_id=fact_sales" in out


def test_people_get_shares_with_their_intervals_and_a_verdict(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(write(tmp_path, {})), "--judged", str(folder)])
    out = capsys.readouterr().out
    assert "4/5 (38-96)" in out
    assert "FAIL  runaways to stop: stopped: 4 of 5, 80.0% (37.6% to 96.4%); at least 85%" in out
    assert "PASS  runaways to hint at: told: 2 of 2, 100.0% (34.2% to 100.0%); at least 80%" in out


def test_sessions_of_which_nothing_is_known_have_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([str(write(tmp_path, {"loops": (deletes(3), {})}))])
    assert (code, "No target" in capsys.readouterr().out) == (0, True)


def test_another_policy_can_be_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "quiet.yaml"
    policy.write_text(f"rules: {{{', '.join(f'{detector.id}: {{mode: shadow}}' for detector in ALL)}}}")
    code, result = run(capsys, write(tmp_path, {"loops": (deletes(3), SOLVED)}), "--policy", policy)
    assert (code, result["targets"][0]["count"]) == (0, 0)


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_verdicts_that_are_asked_for_and_not_there_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write(tmp_path, {"a": (reads(2), {})})), "--judged", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none" / "verdicts.jsonl") in capsys.readouterr().err


def test_a_verdict_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = write_judged(tmp_path, {}, {"a": verdict("sound"), "b": verdict("perhaps")})
    with pytest.raises(UnreadableTrace, match=r"verdicts\.jsonl:2: expected a verdict, got"):
        read_judgements(folder)


@pytest.mark.parametrize(
    ("present", "text"),
    [
        pytest.param("judged", "none.jsonl: left out", id="only judged sessions"),
        pytest.param("traces", "no judged sessions at", id="only traces"),
    ],
)
def test_of_two_folders_one_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, present: str, text: str
) -> None:
    if present == "judged":
        write_judged(tmp_path, SESSIONS, VERDICTS)
    monkeypatch.setattr(command, "JUDGED", tmp_path / "judged")
    traces = [write(tmp_path, {"a": (reads(3), SOLVED)})] if present == "traces" else [tmp_path / "none.jsonl"]
    monkeypatch.setattr(command, "default_files", lambda: traces)
    code = main(["--json"])
    captured = capsys.readouterr()
    assert code == (1 if present == "judged" else 0)
    assert text in captured.err
    assert len(orjson.loads(captured.out)["targets"]) == (7 if present == "judged" else 2)


def test_without_any_sessions_there_is_nothing_to_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "JUDGED", tmp_path / "judged")
    monkeypatch.setattr(command, "default_files", list)
    assert main([]) == 2
    assert "expected recorded sessions, got none" in capsys.readouterr().err


@pytest.mark.wide  # every family of runaways, each disturbed in five ways
def test_generated_sessions_are_judged_by_family(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--synthetic", "--seeds", "1", "--json"])
    document = orjson.loads(capsys.readouterr().out)
    rows = {row["family"]: row for row in document["families"]}
    same = rows["same_target"]
    assert (same["runaway"], same["caught"], same["cases"]) == (True, 1, 1)
    assert same["most_steps"] <= same["within"]
    assert (rows["growing_log"]["runaway"], rows["growing_log"]["stopped"]) == (False, 0)
    assert rows["growing_log"]["baselines"]["OpenHands V0"] == 1  # it does not compare what a command prints
    assert [share["name"] for share in document["shares"]] == ["undisturbed", "repeated", "lost", "disordered", "late"]


@pytest.mark.skipif(
    not all(file.exists() for file in [*default_files(), JUDGED]), reason="no recorded sessions beside the repository"
)
def test_recorded_sessions_are_all_read() -> None:
    known = read([*files_in(JUDGED), *default_files()], read_judgements(JUDGED))
    assert len(known) == 853 + 1278 + 269
    assert sum(k.session.length for k in known) == 21_792 + 24_756 + 11_253
    kinds = {kind: sum(k.kind is kind for k in known) for kind in Kind}
    assert (kinds[Kind.STOP], kinds[Kind.HINT], kinds[Kind.SOUND], kinds[Kind.SOLVED]) == (194, 148, 340, 507)
    assert (kinds[Kind.MODERN], kinds[Kind.MODERN_SOUND]) == (13, 256)
