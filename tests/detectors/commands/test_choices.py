"""What is chosen for the programs that follow is read as if their command lines named it."""

import pytest

from haltline.detectors.commands.rows import examples_of
from haltline.detectors.commands.shell import choices
from haltline.detectors.commands.shell.interpreter import exports, invocations


@pytest.mark.parametrize(("row", "is_read", "line"), examples_of("choices"))
def test_each_row_is_read_in_its_example_and_not_in_the_other(row: str, is_read: bool, line: str) -> None:
    option = row.split("|")[2].split(maxsplit=1)[0]
    last = invocations(line)[-1]
    assert any(word.startswith(f"{option}=") for word in last.argv) is is_read


@pytest.mark.parametrize("line", [line for _, is_read, line in examples_of("choices") if is_read])
def test_a_choice_of_an_earlier_call_is_read_before_the_next_one(line: str) -> None:
    first, _, last = line.rpartition(" && ")
    chosen = choices.kept({}, exports(first))
    assert invocations(f"{choices.as_line(chosen)}{last}")[-1].argv == invocations(line)[-1].argv


def test_a_variable_that_is_unset_chooses_nothing_any_more() -> None:
    chosen = choices.kept({}, exports("export AWS_ENDPOINT_URL=http://localhost:4566"))
    assert choices.kept(chosen, exports("unset AWS_ENDPOINT_URL")) == {}


def test_users_in_addresses_are_not_kept() -> None:
    assert choices.kept({}, exports("export DATABASE_URL=postgres://u:secret@localhost/app_test")) == {
        "DATABASE_URL": "postgres://localhost/app_test"
    }


def test_variables_that_choose_nothing_are_not_kept() -> None:
    assert choices.kept({}, exports("export GREETING=hello")) == {}
