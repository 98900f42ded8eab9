import pytest

from haltline.detectors.session.unread_execution import UnreadExecution
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import bash, event, fires_at

FOUND = ("unread_execution", "high")


@pytest.mark.parametrize(
    ("result", "fires"),
    [
        pytest.param(bash(0, "ls", unread_from=4096), [(0, *FOUND)], id="a command that was cut"),
        pytest.param(bash(0, "ls"), [], id="a command that is whole"),
        pytest.param(bash(0, "x" * 300_000), [(0, *FOUND)], id="a command longer than what is read"),
        pytest.param(bash(0, "x" * 200_000), [], id="a long command that is read whole"),
        pytest.param(
            event(0, "delete_assets", args={"asset_ids": ["a"]}, unread_from=16),
            [(0, *FOUND)],
            id="a list that was cut",
        ),
        pytest.param(
            event(0, "Write", args={"file_path": "/a"}, unread_from=4096), [], id="a long text that is written"
        ),
        pytest.param(bash(0, "ls", unread_from=4096, outcome=Outcome.REFUSED), [], id="refused before"),
    ],
)
def test_fires(result: ActionEvent, fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(UnreadExecution(), [result]) == fires
