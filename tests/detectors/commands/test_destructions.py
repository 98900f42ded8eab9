import pytest

from haltline.detectors.commands import Badness, Destruction, destructions
from haltline.detectors.commands.model import MAX_COMMAND_CHARS, MAX_FOUND
from tests.detectors.commands import cases


@pytest.mark.parametrize(("command", "losses"), cases.parameters(*cases.COMMAND_FILES))
def test_what_is_destroyed(command: str, losses: tuple[str, ...]) -> None:
    assert cases.tuples(destructions(command)) == losses


def test_of_very_many_the_severe_ones_are_reported_and_what_stands_behind_the_limit_is_not_read() -> None:
    words = [f"f{i}" for i in range(MAX_FOUND)]

    found = destructions(f"for f in {' '.join([*words, '/etc'])}; do rm -rf $f; done")

    assert {d.target for d in found} == {f"path={word}" for word in (*words[:-1], "/etc")}
    found = destructions(f"rm {' '.join(f'f{i}' for i in range(1000))}; rm -rf /etc")

    assert len(found) == MAX_FOUND
    assert Destruction("rm", "path=/etc", Badness.SEVERE) in found
    assert destructions("#" + "x" * MAX_COMMAND_CHARS + "\nrm -rf /") == ()


def test_where_the_session_stands_tells_what_a_bare_name_is() -> None:
    found = destructions("rm a; cd ..; rm b", cwd="/home/u/work/")

    assert found == (
        Destruction("rm", "path=/home/u/work/a", Badness.PLAIN),
        Destruction("rm", "path=/home/u/b", Badness.PLAIN),
    )
    assert cases.tuples(destructions("rm -rf *", cwd="/tmp/job")) == ("rm path=/tmp/job/* SCRATCH",)
    assert cases.tuples(destructions("cat x > sda", cwd="/dev")) == ("write_device device=/dev/sda SEVERE",)


@pytest.mark.parametrize("command", ["rm -rf *", "rm -rf .", "rm -rf ../work", "rm -rf /home/u", "find . -delete"])
def test_the_working_directory_and_its_parents_are_severe(command: str) -> None:
    assert [d.badness for d in destructions(command, cwd="/home/u/work")] == [Badness.SEVERE]
