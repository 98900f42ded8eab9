"""A shorter form of `make chaos`: everything is struck under load, and nothing is lost or counted twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require_kafka

REPOSITORY = Path(__file__).parents[2]
SEED = "1"
SECONDS = "40"  # every deed once, with time between them
WITHIN_S = 600.0


@pytest.mark.kafka
def test_nothing_is_lost_or_counted_twice_when_everything_is_killed_frozen_and_restarted() -> None:
    require_kafka()
    done = subprocess.run(
        [sys.executable, "-u", "-m", "benchmarks.chaos", "--seconds", SECONDS, "--seed", SEED, "--rate", "200"],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    print(done.stdout, done.stderr)  # shown when the test fails: the story of who was struck when
    assert done.returncode == 0, "something differs: see the verdict above"
    assert "VERDICT: nothing lost, nothing counted twice." in done.stdout
