"""The fleet benchmark with few sessions of each kind on the embedded broker, with a real worker and real guards."""

import json
from pathlib import Path

import pytest

from benchmarks.fleet import __main__ as fleet
from benchmarks.fleet.plan import Kind


@pytest.mark.wide  # a minute of a processor; `make fleet` runs the same
def test_each_kind_is_led_where_it_should_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "fleet.json"
    code = fleet.main(["--sessions", "7", "--seconds", "6", "--json", str(figures)])
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert "7 sessions, seed 1: all as expected" in shown
    rows = json.loads(figures.read_text())["sessions"]
    assert {row["kind"] for row in rows} == set(Kind)
    assert [row["approvals"] for row in rows if row["kind"] == "waiting"] == [1]
    assert {row["kind"] for row in rows if row["notifications"]} == {"looping", "deleting", "spending", "waiting"}
