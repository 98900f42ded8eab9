from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.quality.__main__ import main
from benchmarks.quality.measuring import Outcome, outcome_of
from benchmarks.quality.playing import Played
from benchmarks.quality.sessions import Kind, Known
from haltline.streams.replay.backtest import Recorded
from tests.benchmarks.recorded import Steps, deletes, reads, write
from tests.builders import cases

Sessions = Mapping[str, tuple[Steps, Mapping[str, Any]]]

# Three deletes of one thing: the third is refused, and the session is killed.
SESSIONS: Sessions = {
    "nyuctf:one/stopped": (deletes(14), {}),
    "nyuctf:one/missed": (reads(14), {}),
    "nyuctf:two/too-early": ([*deletes(3), *reads(12)], {}),
    "whowhen:sound": (reads(4), {}),
    "whowhen:false-alarm": ([*reads(2), *deletes(5)], {}),
    "miniswe:solved": (reads(4), {}),
    "miniswe:no-verdict": (deletes(5), {}),
}
VERDICTS = {
    "nyuctf:one/stopped": ("stop", 3),
    "nyuctf:one/missed": ("stop", 3),
    "nyuctf:two/too-early": ("stop", 9),
    "whowhen:sound": ("sound", None),
    "whowhen:false-alarm": ("sound", None),
    "miniswe:solved": ("solved", None),
}


def run(capsys: pytest.CaptureFixture[str], *options: str | Path) -> tuple[int, dict[str, Any]]:
    code = main([*map(str, options), "--routes", "0", "--json"])
    return code, orjson.loads(capsys.readouterr().out)


@pytest.fixture
def given_files(tmp_path: Path) -> list[str | Path]:
    signals = tmp_path / "signals.json"
    signals.write_bytes(orjson.dumps(VERDICTS))
    return [write(tmp_path, SESSIONS), "--signals", signals]


def test_what_was_executed_is_counted_by_what_was_right(
    given_files: list[str | Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = run(capsys, *given_files, "--jobs", "1")
    assert (code, result["passed"], result["targets"]) == (0, True, [])
    counted = {"refused_any": 1, "calls": 11, "calls_refused": 3, "stopped_for_good": 1, "hinted": 1}
    stop = {"refused_any": 2, "calls": 43, "calls_refused": 25, "stopped_for_good": 2, "hinted": 2}
    late = {"late_calls_made": 5, "late_calls": 5 + 5, "held": 1, "can_be_held": 2, "held_early": 1}
    ours = result["groups"]["haltline"]["given"]
    assert ours["sound"] == {"sessions": 2} | counted
    assert ours["solved"] == dict.fromkeys(counted, 0) | {"sessions": 1, "calls": 4}
    assert ours["stop"] == {"sessions": 3} | stop | late
    assert result["sources"]["given: whowhen"]["sound"] == {"sessions": 2} | counted
    assert [one["session_id"] for one in result["sessions"] if "killed" in str(one["rules"])] == [
        "nyuctf:one/stopped", "nyuctf:two/too-early", "whowhen:false-alarm",
    ]  # fmt: skip
    assert result["groups"]["OpenHands V0"]["given"]["stop"]["stopped_for_good"] == 1


def outcome(calls: Mapping[int, str], refused: set[int], signal: int | None = None) -> Outcome:
    known = Known("g", "s", (Recorded("a", ()),), Kind.SOUND if signal is None else Kind.STOP, signal)
    return outcome_of(known, Played(dict(calls), dict.fromkeys(refused, "code")))


@cases(
    "refused, signal, expected",
    {
        "nothing is refused": (set(), 4, (10, False, False, False)),
        "from the signal on": (set(range(5, 20)), 4, (0, True, True, False)),
        "all but two late calls": (set(range(5, 20)) - {15, 14}, 4, (2, False, True, False)),
        "more than five before the signal": (set(range(3, 20)), 9, (0, True, True, True)),
        "five before it": (set(range(4, 20)), 9, (0, True, True, False)),
    },
)
def test_late_calls_are_those_after_five(
    refused: set[int], signal: int, expected: tuple[int, bool, bool, bool]
) -> None:
    one = outcome(dict.fromkeys(range(20), "bash"), refused, signal)
    assert (one.late_made, one.held, one.for_good, one.early) == expected
