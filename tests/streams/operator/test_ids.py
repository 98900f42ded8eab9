"""One place says which id is meant: for sessions, agents, missions, decisions, requests and whatever else has ids."""

import pytest

from haltline.streams.operator.ids import Ambiguous, NotFound, resolve

IDS = ("night", "night-7", "night-8", "day-1")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        pytest.param("day-1", "day-1", id="a whole id"),
        pytest.param("d", "day-1", id="the beginning of one"),
        pytest.param("night", "night", id="a whole id that is also the beginning of others"),
    ],
)
def test_an_id_is_found_by_its_beginning(given: str, meant: str) -> None:
    assert resolve("session", given, IDS) == meant


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
    with pytest.raises(error, match=says):
        resolve("session", given, IDS, hint="try another")
