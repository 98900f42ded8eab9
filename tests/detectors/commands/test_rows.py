"""Each row of programs has two examples, one that is an act by it and one that is none; a policy adds its own."""

import re
from itertools import chain
from pathlib import Path

import pytest

from haltline.detectors.commands import destructions
from haltline.detectors.commands.creations import _MADE
from haltline.detectors.commands.effects import methods, rows
from haltline.detectors.commands.effects.programs import DOMAINS, TABLE
from haltline.detectors.commands.rows import cells, examples_of, rows_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.features.explanation import explain
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.policy import Policy
from tests.builders import cases
from tests.schemas.test_expressions import slow_texts

FOLDER = Path(__file__).parents[3]


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_row_applies_to_its_first_example_and_not_to_its_second(domain: str) -> None:
    found = [(row, example, applies(row, example)) for row, _, example in examples_of(domain)]
    assert found == [(row, example, expected) for row, expected, example in examples_of(domain)]
    assert [
        row for row in rows_of(domain) if {good for of, good, _ in examples_of(domain) if of == row} != {True, False}
    ] == []


def applies(row: str, command: str) -> bool:
    """Whether a command line has acts, of which the row finds one."""
    source = row.partition(" #")[0].strip()
    by_rows = {one.source for invocation in invocations(command) for one in rows.matching(TABLE, invocation)}
    return source in by_rows and destructions(command) != ()


OWN = Policy(
    rows=("destroys | acmectl tenant drop | !--archived | acme:tenant/{--region}/{$1}", "destroys | acmectl sunset")
)


@cases(
    "command, targets",
    {
        "a command of the policy's own row": ("acmectl tenant drop 7 --region eu", ["acme=tenant/eu/7"]),
        "beside an act by a built-in row": (
            "acmectl tenant drop 7 --region eu && dropdb shop",
            ["acme=tenant/eu/7", "database=shop"],
        ),
        "a verb that no built-in row has": ("acmectl sunset 7", ["acmectl=acmectl sunset 7"]),
        "another condition": ("acmectl tenant show 7", []),
    },
)
def test_a_policy_adds_rows(command: str, targets: list[str]) -> None:
    found = explain("bash", {"command": command}, OWN, None)
    assert [act.target for act in found.acts] == targets


def test_a_row_of_a_policy_that_cannot_be_read_says_what_is_expected() -> None:
    with pytest.raises(ValueError, match=r"expected `effect \| program and words"):
        Classifier(Policy(rows=("acmectl tenant drop",)))


def test_the_page_about_reading_names_each_file_of_rows_with_a_line_of_it() -> None:
    table = (FOLDER / "docs" / "reading.md").read_text().partition("| table | a line says |")[2].partition("\n\n")[0]
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in table.splitlines()[2:]]
    named = {
        tuple(re.findall(r"`(\w+)`", names)): example.strip("`").replace(r"\|", "|") for names, _, example in cells
    }
    stems = {one.stem for one in (FOLDER / "detectors" / "commands" / "rows").glob("*.txt")}
    assert {name for names in named for name in names} == stems
    assert [line for names, line in named.items() if all(line not in rows_of(name) for name in names)] == []


@pytest.mark.wide
def test_conditions_of_rows_take_time_linear_in_the_text() -> None:
    listed = [*TABLE.rows.values(), *_MADE.rows.values()]
    cells = [cell for row in chain(*listed) for cell in (*row.conditions, *row.target.split(","), row.target)]
    cells += [cell for row in chain(*methods._ROWS.values()) for cell in (*row.conditions, row.owner)]
    written = {text for cell in cells for text in re.findall(r"/(.+)/i?(?:\}|\Z)", cell)}
    unbounded = [one for one in map(rows.pattern, written) if re.search(r"(?<!\\)\)[*+]", one.pattern)]
    assert len(written) > 400
    assert [one.pattern for one in unbounded if next(slow_texts(one, whole=False), None)] == []
    slow = rows.pattern(r"-\w*X\w*|[ugo]*[oa][ugo]*w|add-\S*\s+privileged|<.*\sdel")
    assert next(slow_texts(slow, whole=False), None) is None


def test_each_name_of_a_table_is_used() -> None:
    sources = "".join(file.read_text() for file in (FOLDER / "detectors").rglob("*.py"))
    tables = "".join(f" {' '.join(rows_of(name))} " for name in ("words", "combinations"))
    names = {name[0] for table in ("words", "expressions", "masks") for name in map(cells, rows_of(table))}
    used = (
        name
        for name in names
        if f'"{name}"' in sources or f"{name.rpartition(' ')[0]} {{" in sources or f"@{name} " in tables
    )
    assert names - {*used} == set()
