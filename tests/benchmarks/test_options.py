"""How long a run is, and what is kept of how it was asked for."""

from pathlib import Path

import pytest

from benchmarks.__main__ import options
from benchmarks.run import PARTS, settings_of


@pytest.mark.parametrize(
    ("words", "events", "rounds"),
    [
        pytest.param([], 500_000, 2, id="a quarter of an hour"),
        pytest.param(["--long"], 1_000_000, 3, id="long"),
        pytest.param(["--short"], 80_000, 2, id="short"),
        pytest.param(["--long", "--rounds", "5"], 1_000_000, 5, id="what is named counts"),
    ],
)
def test_the_length_of_a_run(words: list[str], events: int, rounds: int) -> None:
    args = options(words)
    assert (args.events, args.rounds, args.only) == (events, rounds, list(PARTS))


def test_results_keep_the_settings_without_paths() -> None:
    settings = settings_of(options(["--only", "sink", "--logs", "here"]))
    assert settings["sink_events"] == 200_000
    assert settings["only"] == ["sink"]
    assert not any(isinstance(value, str | Path) for value in settings.values())
