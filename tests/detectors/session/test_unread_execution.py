from haltline.detectors.session.unread_execution import UnreadExecution
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import bash, cases, event, fires_at

FOUND = ("unread_execution", "high")


@cases(
    "result, fires",
    {
        "a command that was cut": (bash(0, "ls", unread_from=4096), [(0, *FOUND)]),
        "a command that is whole": (bash(0, "ls"), []),
        "a command longer than what is read": (bash(0, "x" * 300_000), [(0, *FOUND)]),
        "a long command that is read whole": (bash(0, "x" * 200_000), []),
        "a list that was cut": (event(0, "delete_assets", args={"asset_ids": ["a"]}, unread_from=16), [(0, *FOUND)]),
        "a long text that is written": (event(0, "Write", args={"file_path": "/a"}, unread_from=4096), []),
        "refused before": (bash(0, "ls", unread_from=4096, outcome=Outcome.REFUSED), []),
    },
)
def test_fires(result: ActionEvent, fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(UnreadExecution(), [result]) == fires
