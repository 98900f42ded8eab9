"""One place says which id is meant: for sessions, agents, missions, decisions, requests and whatever else has ids."""

import pytest

from haltline.streams.operator.ids import Ambiguous, NotFound, resolve

IDS = ("night", "night-7", "night-8", "day-1")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        pytest.param(
            "n", Ambiguous, "session n: .* of one id: night, night-7, night-8$", id="the beginning of several"
        ),
        pytest.param("noon", NotFound, "session not found: noon; try another$", id="the beginning of none"),
        pytest.param("NIGHT-7", NotFound, "session not found: NIGHT-7", id="in other letters"),
        pytest.param("", NotFound, "session not found: ", id="nothing is the beginning of nothing"),
    ],
)
def test_what_is_not_found_is_reported(given: str, error: type[Exception], says: str) -> None:
    assert resolve("session", "night", IDS) == "night", "a whole id may also be the beginning of others"
    with pytest.raises(error, match=says):
        resolve("session", given, IDS, hint="try another")
