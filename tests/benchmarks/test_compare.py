"""What counts as better or worse between two runs."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.__main__ import main
from benchmarks.reporting.compare import Change, Verdict, compare, only_in_one, remarks
from benchmarks.reporting.report import Document, NotResults, load
from benchmarks.throughput import BARE_DETECT, OURS
from tests.benchmarks.results import PAIR, document, rate

RATE = f"{OURS.name}, 1,000 sessions: events/s"
COST = f"{OURS.name}, 1,000 sessions: CPU us/event"


def rounds(ours: list[float], peers: list[float], cpu_us: float = 40.0, calibration_us: float = 1.0) -> Document:
    found = [rate(OURS.name, value, cpu_us, number) for number, value in enumerate(ours, 1)]
    found += [rate(BARE_DETECT, value, 3.0, number) for number, value in enumerate(peers, 1)]
    return document(rates=found, calibration_us=[calibration_us])


def change(name: str, old: Document, new: Document) -> Change:
    (found,) = (one for one in compare(old, new) if one.name == name)
    return found


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        pytest.param(([30, 30], [100, 100]), ([30, 30], [100, 100]), Verdict.SAME, id="nothing changed"),
        pytest.param(([30, 30], [100, 100]), ([36, 36], [100, 100]), Verdict.BETTER, id="faster beside the same peer"),
        pytest.param(([30, 30], [100, 100]), ([24, 24], [100, 100]), Verdict.WORSE, id="slower beside the same peer"),
        pytest.param(([30, 30], [100, 100]), ([15, 15], [50, 50]), Verdict.SAME, id="half as fast as is the peer"),
        pytest.param(([30, 30], [100, 100]), ([30, 30], [60, 60]), Verdict.BETTER, id="as fast beside a slower peer"),
        pytest.param(([30, 30], [100, 100]), ([29, 29], [100, 100]), Verdict.SAME, id="less than the least change"),
        pytest.param(([20, 40], [100, 100]), ([24, 24], [100, 100]), Verdict.SAME, id="within the spread of rounds"),
        pytest.param(([20, 40], [50, 100]), ([24, 24], [100, 100]), Verdict.WORSE, id="rounds that vary as the peer's"),
    ],
)
def test_a_rate_is_compared_as_a_multiple_of_the_peers(
    old: tuple[list[float], list[float]], new: tuple[list[float], list[float]], verdict: Verdict
) -> None:
    assert change(RATE, rounds(*old), rounds(*new)).verdict is verdict


def test_processor_time_is_compared_as_a_multiple_of_the_calibration() -> None:
    old = rounds([30, 30], [100, 100], cpu_us=40.0, calibration_us=1.0)
    assert change(COST, old, rounds([30, 30], [100, 100], cpu_us=80.0, calibration_us=2.0)).verdict is Verdict.SAME
    worse = change(COST, old, rounds([30, 30], [100, 100], cpu_us=80.0, calibration_us=1.0))
    assert (worse.verdict, worse.ratio) == (Verdict.WORSE, 2.0)


def test_figures_of_peers_and_the_calibration_are_not_judged() -> None:
    named = {one.name for one in compare(document(), document())}
    assert not any(
        name.startswith(("bare", "stock", "Kafka", "echo", "calibration", "consumer", "core, orjson")) for name in named
    )
    assert {RATE, COST, "core, core with every detector: times its calibration"} <= named


@settings(max_examples=8)  # each reads and compares whole files
@given(st.floats(0.05, 20.0), st.floats(0.05, 20.0))
def test_what_is_better_one_way_is_worse_the_other(one: float, other: float) -> None:
    there = change(RATE, rounds([one] * 2, [1.0] * 2), rounds([other] * 2, [1.0] * 2))
    back = change(RATE, rounds([other] * 2, [1.0] * 2), rounds([one] * 2, [1.0] * 2))
    opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER, Verdict.SAME: Verdict.SAME}
    assert back.verdict is opposite[there.verdict]


def with_pair(ours_us: list[float], **machine: str) -> Document:
    made = document(others={"pairs": 0.9, "throughput": 0.9})
    made["pairs"][0]["ours_us"] = ours_us
    return made | {"machine": made["machine"] | machine}


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        pytest.param(with_pair([46.0, 47.0]), Verdict.SAME, id="within a fifth"),
        pytest.param(with_pair([50.0, 51.0]), Verdict.WORSE, id="more than a fifth, on a loaded machine"),
        pytest.param(with_pair([50.0, 51.0], python="3.99.1"), Verdict.NOT_JUDGED, id="another Python"),
        pytest.param(with_pair([50.0, 51.0], cpu="another"), Verdict.NOT_JUDGED, id="another processor"),
    ],
)
def test_what_is_measured_in_turns_is_judged_on_the_same_processor_and_python(new: Document, verdict: Verdict) -> None:
    assert change(f"{PAIR}: CPU us", with_pair([40.0, 41.0]), new).verdict is verdict


def test_what_others_work_falsifies_is_not_judged() -> None:
    old, new = rounds([30, 30], [100, 100]), rounds([20, 20], [100, 100])
    loud = {"load": old["load"] | {"others_share_by_part": {"throughput": 0.2}}}
    assert change(RATE, old, new).verdict is Verdict.WORSE
    assert change(RATE, old | loud, new).verdict is change(RATE, old, new | loud).verdict is Verdict.NOT_JUDGED


def test_what_only_one_run_has_and_how_they_differ_is_remarked() -> None:
    small = document() | {"sink": []}
    gone, actual = only_in_one(document(), small)
    assert actual == []
    assert "haltline audit: rows/s" in gone
    result = remarks(document(others={"sink": 0.5}), document(settings={"events": 7}))
    assert any("old: The machine was not quiet" in line for line in result)
    assert "Settings differ: events." in result
    assert remarks(document(), document()) == []


def files(folder: Path, *documents: Document) -> list[str]:
    names = [str(folder / f"{number}.json") for number in range(len(documents))]
    for name, one in zip(names, documents, strict=True):
        Path(name).write_bytes(orjson.dumps(one))
    return names


def test_the_command_ends_with_1_when_something_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = rounds([30, 30], [100, 100]), rounds([20, 20], [100, 100])
    assert main(["compare", *files(tmp_path, old, new)]) == 1
    assert "worse" in capsys.readouterr().out
    assert main(["compare", *files(tmp_path, new, old)]) == 0
    assert "better" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"not json", "expected results", id="not JSON"),
        pytest.param(b"[]", "expected results of format 1, got None", id="no object"),
        pytest.param(b'{"format": 99}', "expected results of format 1, got 99", id="another format"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(NotResults, match=text):
        load(file)
    assert main(["compare", str(file), str(file)]) == 2
    assert text in capsys.readouterr().err
