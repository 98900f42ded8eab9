from pathlib import Path
from xml.etree import ElementTree as ET

import orjson
import pytest

from benchmarks.quality.__main__ import main
from tests.benchmarks.recorded import Steps, alike, deletes, reads, verdict, write, write_judged


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
