"""Each framework has a page with its program, the program's output, and a row in the index."""

import pytest

from haltline.cli.frameworks import FRAMEWORKS, Framework
from tests.conformance.environments import OWN, drivers
from tests.docs.frameworks import FOLDER, INDEX, drivers_of, index, page_of
from tests.docs.pages import anchors
from tests.locks import ROOT

EACH = pytest.mark.parametrize("row", FRAMEWORKS.values(), ids=FRAMEWORKS)


@EACH
def test_the_blocks_of_a_page_are_current(row: Framework) -> None:
    text = (FOLDER / f"{row.name}.md").read_text(encoding="utf-8")
    assert text == page_of(row), "python -m tests.docs.frameworks"
    assert (ROOT / row.program).read_text(encoding="utf-8") in text


@EACH
def test_a_page_says_what_a_kill_does_how_hints_arrive_and_what_to_know(row: Framework) -> None:
    sections = {"five-minutes", "how-a-kill-ends-the-run", "how-hints-reach-the-model", "what-to-know"}
    assert anchors(FOLDER / f"{row.name}.md") >= sections
    program = (ROOT / row.program).read_text(encoding="utf-8").lower()
    assert "real model" in program or row.name in {"mcp", "opentelemetry"}, "how a real model is put in"


def test_the_index_has_the_table_of_all_and_every_adapter_a_page_and_a_row() -> None:
    assert INDEX.read_text(encoding="utf-8") == index(), "python -m tests.docs.frameworks"
    of_frameworks = {driver for driver, adapter in drivers().items() if adapter != OWN}
    assert of_frameworks == {driver for row in FRAMEWORKS.values() for driver in drivers_of(row)}
    assert {file.stem for file in FOLDER.glob("*.md")} - {"index"} == FRAMEWORKS.keys()
