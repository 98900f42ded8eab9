from pathlib import Path
from xml.etree import ElementTree as ET

import orjson
import pytest

from benchmarks.quality.__main__ import main
from benchmarks.quality.curve import Point, Swept, added, point_of
from benchmarks.quality.judging import Seen
from benchmarks.quality.picture import picture
from benchmarks.quality.sessions import Judgement, Kind, Known
from benchmarks.quality.summary import Count
from haltline.streams.replay.backtest import Recorded
from tests.benchmarks.recorded import Steps, alike, deletes, reads, verdict, write, write_judged


def point(name: str, stopped: int, false: int) -> Point:
    return Point(name, Count(stopped, 100), Count(stopped // 2, 100), Count(false, 200))


SWEPT = Swept(
    "rules.some.settings.pause_at",
    {
        "whole policy": [point(f"0.{n}", 95 - 8 * n, 30 - 3 * n) for n in range(1, 10)],
        "some alone": [point(f"0.{n}", 80 - 8 * n, 20 - 2 * n) for n in range(1, 10)],
    },
    [point("ours <as set>", 40, 2), point("peer one", 11, 0), point("peer two", 12, 1), point("peer three", 10, 0)],
)


def texts(drawn: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]


def test_points_count_runaways_to_stop_against_sound_and_solved_sessions() -> None:
    def known(kind: Kind) -> Known:
        return Known("some", Recorded("a", ()), Judgement(kind, begins=0, signal=2))

    sessions = [known(kind) for kind in (Kind.STOP, Kind.STOP, Kind.STOP, Kind.SOUND, Kind.SOLVED, Kind.SOLVED)]
    seen = [Seen(3, 3), Seen(3, 9), Seen(3), Seen(4, 4), Seen(4), Seen()]
    assert point_of("0.5", sessions, seen) == Point("0.5", Count(2, 3), Count(1, 3), Count(1, 3))


def test_sweeps_of_some_sessions_each_add_up() -> None:
    whole = added([SWEPT, SWEPT])
    assert whole.setting == SWEPT.setting
    assert list(whole.curves) == list(SWEPT.curves)
    assert whole.curves["some alone"][1] == Point("0.2", Count(128, 200), Count(64, 200), Count(32, 400))
    assert whole.systems[1] == Point("peer one", Count(22, 200), Count(10, 200), Count(0, 400))


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(["--sweep", "cycle=3"], "rules.NAME.settings.X=2,3,5", id="no setting"),
        pytest.param(["--sweep", "rules.cycle.settings.none=3"], "none", id="a setting that the rule has not"),
    ],
)
def test_a_sweep_that_cannot_be_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert main([str(write(tmp_path, {"a": (reads(2), {})})), *options]) == 2
    assert text in capsys.readouterr().err


def test_a_picture_without_a_sweep_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--plot", "curve.svg"])
    assert "--plot: expected --sweep" in capsys.readouterr().err


def test_every_system_and_both_curves_are_named() -> None:
    result = texts(picture(SWEPT))
    assert {"ours <as set>", "peer one", "peer two", "peer three", "whole policy: 0.1", "some alone: 0.1"} <= set(
        result
    )
    assert "false stops: sound and solved sessions that are stopped, % of 200" in result
    assert "runaways that are stopped, % of 100" in result


def test_no_two_names_or_values_cover_each_other() -> None:
    root = ET.fromstring(picture(SWEPT))
    svg = "{http://www.w3.org/2000/svg}"
    boxes = [
        (float(t.attrib["x"]), float(t.attrib["y"]) - 12, float(t.attrib["x"]) + 7 * len(t.text or ""), t.attrib["y"])
        for group in root.iter(f"{svg}g")
        for t in group.iter(f"{svg}text")
    ]
    assert len(boxes) > 12
    for number, (left, top, right, base) in enumerate(boxes):
        for other_left, other_top, other_right, other_base in boxes[:number]:
            apart = right <= other_left or other_right <= left or float(base) <= other_top or float(other_base) <= top
            assert apart
