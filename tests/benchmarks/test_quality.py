from collections.abc import Mapping
from math import isclose, sqrt
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.quality import synthetic
from benchmarks.quality.__main__ import main
from benchmarks.quality.judging import ASKED, BEFORE, STOPPED, TOLD, WITHIN_3, WITHIN_5, Seen
from benchmarks.quality.sessions import JUDGED, Judgement, Kind, Known, default_files, files_in, read, read_judgements
from benchmarks.quality.summary import Count, Target
from benchmarks.runaways import FAMILIES
from haltline.detectors import ALL
from haltline.streams.replay.backtest import Recorded
from tests.benchmarks.recorded import Steps, alike, deletes, reads, verdict, write, write_judged
from tests.builders import cases

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


def test_several_processes_find_the_same(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, {})
    assert run(capsys, file, "--judged", folder) == run(capsys, file, "--judged", folder, "--jobs", "2")


def test_generated_sessions_are_judged_by_family(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [family for family in FAMILIES if family.name in {"same_target", "growing_log"}]
    monkeypatch.setattr(synthetic, "FAMILIES", two)
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


def known(begins: int, signal: int | None) -> Known:
    return Known("some", Recorded("a", ()), Judgement(Kind.STOP, begins=begins, signal=signal))


@cases(
    "seen, expected",
    {
        "nothing was said": (Seen(), set()),
        "a hint is no stop": (Seen(found=3), {TOLD}),
        "an ask is neither": (Seen(asked=3), {ASKED}),
        "one event before it begins": (Seen(9, 9), {TOLD, STOPPED, BEFORE}),
        "where it begins, before the signal": (Seen(9, 10), {TOLD, STOPPED, WITHIN_5, WITHIN_3}),
        "three events behind the signal": (Seen(9, 17), {TOLD, STOPPED, WITHIN_5, WITHIN_3}),
        "four": (Seen(9, 18), {TOLD, STOPPED, WITHIN_5}),
        "five": (Seen(9, 19), {TOLD, STOPPED, WITHIN_5}),
        "six": (Seen(9, 20), {TOLD, STOPPED}),
    },
)
def test_a_stop_counts_by_where_it_comes(seen: Seen, expected: set[str]) -> None:
    assert seen.measures(known(begins=10, signal=14)) == expected


@given(st.integers(1, 2000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_ends_where_the_share_would_just_be_believed(counted: tuple[int, int]) -> None:
    count = Count(*counted)
    low, high = count.interval
    assert 0 <= low <= count.share <= high <= 1
    for end in (low, high):  # Wilson's definition
        distance, deviation = abs(count.share - end), sqrt(end * (1 - end) / count.of)
        assert end in {0.0, 1.0} or isclose(distance, 1.959964 * deviation, rel_tol=1e-6, abs_tol=1e-9)


@cases(
    "target, count, met",
    {
        "just not too many": (Target(kind=Kind.SOUND, measure=TOLD, at_most=0.015), Count(3, 200), True),
        "one too many": (Target(kind=Kind.SOUND, measure=TOLD, at_most=0.015), Count(4, 200), False),
        "just enough": (Target(kind=Kind.STOP, measure=TOLD, at_least=0.7), Count(70, 100), True),
        "one too few": (Target(kind=Kind.STOP, measure=TOLD, at_least=0.7), Count(69, 100), False),
    },
)
def test_a_target_is_met_up_to_its_bound(target: Target, count: Count, met: bool) -> None:
    assert target.met(count) is met


def texts(drawn: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]


def test_each_value_is_run_under_the_whole_policy_and_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions: dict[str, tuple[Steps, dict[str, bool]]] = {
        "three": (deletes(3), {}),
        "alike": (alike(12), {}),
        "sound": ([*deletes(3), *reads(3)], {}),
    }
    runaway = verdict("stop", begins=0, signal=9)
    folder = write_judged(tmp_path, sessions, {"three": runaway, "alike": runaway, "sound": verdict("sound")})
    file, drawn = write(tmp_path, {}), tmp_path / "curve.svg"
    options = [str(file), "--judged", str(folder), "--sweep", "rules.destructive_repeat.settings.window_s=60,1"]
    assert main([*options, "--plot", str(drawn), "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    found = {
        name: [(p["name"], p["stopped"]["count"], p["false_stops"]["count"]) for p in points]
        for name, points in [*document["curves"].items(), ("systems", document["systems"])]
    }
    assert document["setting"] == "rules.destructive_repeat.settings.window_s"
    assert found["destructive_repeat alone"][0] == ("60", 1, 1)
    assert found["whole policy"][0] == ("60", 2, 1)
    assert found["systems"][0] == ("haltline as set", 2, 1)
    assert ("OpenHands V1", 1, 0) in found["systems"]
    assert "haltline as set" in texts(drawn.read_text())

    assert main([*options, "--jobs", "2"]) == 0
    assert "destructive_repeat alone" in capsys.readouterr().out
