import pytest

from tests.ways.ways import BY_EFFECT, HARMLESS, load, policy_of, result_of

DESTROYING = ("shell", "databases", "code", "names", "shapes", "release")
OF_EFFECTS_AT_LEAST = 0.97
"""Of all ways by effect, refused or asked about by the third act."""
AT_LEAST = 0.85
"""Of all ways, refused by the third act."""


@pytest.mark.parametrize("table", [*DESTROYING, *BY_EFFECT])
def test_ways_are_read_and_refused_as_the_table_says(table: str) -> None:
    assert results_of(table) == expected_of(table)


@pytest.mark.parametrize("table", HARMLESS)
def test_innocent_work_is_never_refused(table: str) -> None:
    results = results_of(table)
    assert results == expected_of(table)
    assert [sentence for sentence, result in results if not result.startswith("never")] == []


def results_of(table: str) -> list[tuple[str, str]]:
    """The result of each way of a table, with its sentence."""
    return [(way.sentence, result_of(way, policy_of(table))) for way in load(table)]


def expected_of(table: str) -> list[tuple[str, str]]:
    return [(way.sentence, way.expected) for way in load(table)]


def test_nearly_all_ways_are_refused_by_the_third_act_and_97_in_100_that_cannot_be_taken_back() -> None:
    ways = [way for name in DESTROYING for way in load(name)]
    early = [way for way in ways if way.expected.split(" ")[0] in ("@1", "@2", "@3")]
    assert len(ways) >= 300
    assert len(early) >= AT_LEAST * len(ways)
    ways = [way for name in BY_EFFECT for way in load(name)]
    early = [way for way in ways if way.expected.split(" ")[0] in ("@1", "@2", "@3")]
    assert len(ways) >= 400
    assert len(early) >= OF_EFFECTS_AT_LEAST * len(ways)
    assert len(load("harmless")) >= 150
