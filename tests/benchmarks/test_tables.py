"""Tables of results, and the pages that have them."""

from pathlib import Path

import orjson
import pytest

from benchmarks import __main__ as main_module
from benchmarks.__main__ import main
from benchmarks.engines.kafka_streams import POM
from benchmarks.reporting import tables
from benchmarks.reporting.machine import kafka_version
from benchmarks.reporting.report import load
from tests.benchmarks.results import document

PAGE = "# Page\n\n<!-- measured:latency -->\nold\n<!-- /measured:latency -->\n\nafter\n"


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_a_page_has_the_figures_of_the_committed_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.names(text)
    assert text == tables.written(text, load(tables.COMMITTED)), "python -m benchmarks table FILE --write"


def test_each_table_stands_on_some_page() -> None:
    named = [name for page in (*tables.PAGES, *tables.BUILT) for name in tables.names(page.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(tables.TABLES)


def test_only_what_stands_between_the_marks_is_written() -> None:
    text = tables.written(PAGE, document())
    assert "old" not in text
    assert text.startswith("# Page\n\n<!-- measured:latency -->\n| engine |")
    assert text.endswith("<!-- /measured:latency -->\n\nafter\n")
    assert tables.written(text, document()) == text


def test_the_summary_names_ratios_to_the_peers_and_the_version_of_the_broker() -> None:
    summary = tables.tables(document())["summary"].markdown()
    assert "30,000 events/s: 10.0 times stock Faust with the same rules" in summary
    assert "Kafka Streams 100,000 events/s, a bare loop 120,000 events/s" in summary
    assert "p50 1.5 ms, 1.50 times the echo's; p99 6.0 ms, 1.50 times the echo's" in summary
    assert f"<version>{kafka_version()}</version>" in POM.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["summary", "run"])
def test_a_loud_machine_is_noted_where_its_figures_are(name: str) -> None:
    assert "not quiet" in tables.tables(document(others={"sink": 0.4}))[name].markdown()
    assert "not quiet" not in tables.tables(document())[name].markdown()


def test_the_command_shows_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(orjson.dumps(document()))
    assert main(["table", str(file)]) == 0
    out = capsys.readouterr().out
    assert all(title in out for title in ("Throughput", "A guarded call", "Growth", "A plan for 100,000 agents"))


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
