"""Each row of programs has two examples, one that is an act by it and one that is none."""

import pytest

from haltline.detectors.commands import destructions
from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.effects.programs import DOMAINS, TABLE
from haltline.detectors.commands.rows import examples_of, rows_of
from haltline.detectors.commands.shell.interpreter import invocations


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
