"""Tables of results, and the pages that have them."""

from pathlib import Path

import orjson
import pytest

from benchmarks import __main__ as main_module
from benchmarks.__main__ import main
from benchmarks.reporting import tables
from benchmarks.reporting.compare import Change, Verdict, compare
from benchmarks.reporting.report import Document, load
from benchmarks.throughput import BARE_DETECT, OURS
from tests.benchmarks.results import document, rate
from tests.builders import cases

PAGE = "# Page\n\n<!-- measured:latency -->\nold\n<!-- /measured:latency -->\n\nafter\n"


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_a_page_has_the_figures_of_the_committed_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.names(text)
    assert text == tables.written(text, load(tables.COMMITTED)), "python -m benchmarks table FILE --write"


def test_each_table_stands_on_some_page() -> None:
    named = [name for page in (*tables.PAGES, *tables.BUILT) for name in tables.names(page.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(tables.TABLES)


def test_a_short_run_is_landed_beside_the_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed, short, whole = (tmp_path / name for name in ("measured.json", "short.json", "whole.json"))
    monkeypatch.setattr(main_module, "COMMITTED", committed)
    monkeypatch.setattr(main_module, "PAGES", ())
    committed.write_bytes(orjson.dumps(document()))
    short.write_bytes(orjson.dumps(document(settings={"short": True})))
    whole.write_bytes(orjson.dumps(document(settings={"events": 7})))
    for file in (short, whole):
        assert main(["table", str(file), "--write"]) == 0
    landed = load(committed)
    assert (landed["settings"], landed["short"]) == ({"events": 7}, load(short))


RATE = f"{OURS.name}, 1,000 sessions: events/s"


def rounds(ours: list[float], peers: list[float], cpu_us: float = 40.0, calibration_us: float = 1.0) -> Document:
    found = [rate(OURS.name, value, cpu_us, number) for number, value in enumerate(ours, 1)]
    found += [rate(BARE_DETECT, value, 3.0, number) for number, value in enumerate(peers, 1)]
    return document(rates=found, calibration_us=[calibration_us])


def change(name: str, old: Document, new: Document) -> Change:
    (found,) = (one for one in compare(old, new) if one.name == name)
    return found


@cases(
    "old, new, verdict",
    {
        "nothing changed": (([30, 30], [100, 100]), ([30, 30], [100, 100]), Verdict.SAME),
        "faster beside the same peer": (([30, 30], [100, 100]), ([36, 36], [100, 100]), Verdict.BETTER),
        "slower beside the same peer": (([30, 30], [100, 100]), ([24, 24], [100, 100]), Verdict.WORSE),
        "half as fast as is the peer": (([30, 30], [100, 100]), ([15, 15], [50, 50]), Verdict.SAME),
        "less than the least change": (([30, 30], [100, 100]), ([29, 29], [100, 100]), Verdict.SAME),
        "within the spread of rounds": (([20, 40], [100, 100]), ([24, 24], [100, 100]), Verdict.SAME),
    },
)
def test_a_rate_is_compared_as_a_multiple_of_the_peers(
    old: tuple[list[float], list[float]], new: tuple[list[float], list[float]], verdict: Verdict
) -> None:
    assert change(RATE, rounds(*old), rounds(*new)).verdict is verdict


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
