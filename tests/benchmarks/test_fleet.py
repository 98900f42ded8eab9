"""The fifty sessions, in short: a few of each kind on the embedded broker, with a real worker and real guards."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.fleet import __main__ as fleet
from benchmarks.fleet.acting import Acted
from benchmarks.fleet.outcome import Led, differences, percentile
from benchmarks.fleet.plan import Kind, Planned, plan


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


@pytest.mark.parametrize("sessions", [6, 7, 20, 50, 200])
def test_the_same_seed_is_the_same_fleet_with_some_of_each_kind(sessions: int) -> None:
    made = plan(sessions, 120, 7, "x")
    assert made == plan(sessions, 120, 7, "x") != plan(sessions, 120, 8, "x")
    counts = Counter(one.kind for one in made)
    assert (len({one.session_id for one in made}), set(counts)) == (sessions, set(Kind))
    assert all(one.start_s + one.lasts_s <= 120 for one in made)
    assert sessions < 20 or counts[Kind.HEALTHY] == max(counts.values())


def test_fewer_sessions_than_kinds_are_refused_and_percentiles_are_of_what_there_is() -> None:
    with pytest.raises(ValueError, match="expected at least 6, one of each kind, got 5"):
        plan(5, 120, 1, "x")
    assert [percentile(range(100), share) for share in (0.5, 0.99)] == [50, 99]
    assert percentile([], 0.5) is None


def a(kind: Kind, **result: object) -> Acted:
    planned = Planned("s", "a", kind, start_s=0, lasts_s=1, seed=1, approved=True)
    return Acted(planned, **{"executed": 1, **result})  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("acted", "led", "says"),
    [
        pytest.param(a(Kind.HEALTHY), Led(), "", id="a healthy one that nobody stops"),
        pytest.param(a(Kind.HEALTHY), Led(stops=1), "expected no stop, got 1", id="a healthy one that is stopped"),
        pytest.param(a(Kind.HEALTHY, executed=0), Led(), "expected some calls", id="a healthy one that does nothing"),
        pytest.param(a(Kind.LOOPING), Led(findings=1), "expected a refusal, got none", id="a loop that goes on"),
        pytest.param(a(Kind.LOOPING, wrong_since=1.0, stopped_at=40.0), Led(findings=1), "within 20 s, got 39.0 s",
                     id="a late stop"),
        pytest.param(a(Kind.DELETING, wrong_since=1.0, stopped_at=2.0), Led(), "expected a finding", id="for nothing"),
        pytest.param(a(Kind.WAITING), Led(approvals={"a", "b"}), "request, got 2", id="one that is asked about twice"),
        pytest.param(a(Kind.WAITING, refused=["x"]), Led(approvals={"a"}), "refusal codes [], got ['x']",
                     id="refused, though approved"),
        pytest.param(a(Kind.KILLED), Led(), "expected a kill, got none", id="one that lives on"),
        pytest.param(a(Kind.KILLED, problem="OSError()"), Led(), "got OSError()", id="an agent that cannot act"),
    ],
)  # fmt: skip
def test_what_is_not_as_expected_is_reported(acted: Acted, led: Led, says: str) -> None:
    text = "; ".join(differences(acted, led))
    assert (says in text) if says else not text
