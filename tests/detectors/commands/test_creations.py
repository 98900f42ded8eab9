import pytest

from haltline.detectors.commands import creations, destructions, made_elsewhere
from tests.detectors.commands import cases


@pytest.mark.parametrize(("command", "made"), cases.parameters("creations"))
def test_creations(command: str, made: tuple[str, ...]) -> None:
    assert (*creations(command), *made_elsewhere(command)) == made


def test_what_is_made_has_the_name_under_which_it_is_destroyed() -> None:
    command = "cat <<E > ./t.py\nx\nE\npython t.py; rm t.py"

    assert creations(command, cwd="/w") == tuple(d.target for d in destructions(command, cwd="/w")) == ("path=/w/t.py",)
