import pytest
from _pytest.mark.structures import ParameterSet

from tests.ways.ways import BY_EFFECT, HARMLESS, Way, load, policy_of, result_of

DESTROYING = ("shell", "databases", "code", "names", "shapes", "release")
OF_EFFECTS_AT_LEAST = 0.97
"""Of all ways by effect, refused or asked about by the third act."""
AT_LEAST = 0.85
"""Of all ways, refused by the third act."""


def parameters(*names: str) -> list[ParameterSet]:
    return [pytest.param(name, way, id=f"{name}: {way.sentence}") for name in names for way in load(name)]


@pytest.mark.parametrize(("table", "way"), parameters(*DESTROYING, *BY_EFFECT))
def test_a_way_is_read_and_refused_as_the_table_says(table: str, way: Way) -> None:
    assert result_of(way, policy_of(table)) == way.expected


@pytest.mark.parametrize(("table", "way"), parameters(*HARMLESS))
def test_innocent_work_is_never_refused(table: str, way: Way) -> None:
    actual = result_of(way, policy_of(table))
    assert actual == way.expected
    assert actual.startswith("never")


def test_nearly_all_ways_are_refused_by_the_third_act() -> None:
    ways = [way for name in DESTROYING for way in load(name)]
    early = [way for way in ways if way.expected.split(" ")[0] in ("@1", "@2", "@3")]
    assert len(ways) >= 300
    assert len(early) >= AT_LEAST * len(ways)


def test_of_acts_that_cannot_be_taken_back_97_in_100_are_stopped_by_the_third() -> None:
    ways = [way for name in BY_EFFECT for way in load(name)]
    early = [way for way in ways if way.expected.split(" ")[0] in ("@1", "@2", "@3")]
    assert len(ways) >= 400
    assert len(early) >= OF_EFFECTS_AT_LEAST * len(ways)
    assert len(load("harmless")) >= 150
