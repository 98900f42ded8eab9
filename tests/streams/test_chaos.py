"""A shorter form of `make chaos`: everything that runs is struck under load, and nothing is lost or counted twice.

Workers, sink, console, an agent with a guard, and the broker: each is ended while the others go on.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require_kafka

REPOSITORY = Path(__file__).parents[2]
EVERY_DEED_ONCE = ("--once", "--seed", "1", "--workers", "2", "--rate", "40", "--sessions", "60")
WITHIN_S = 400.0


@pytest.mark.kafka
def test_nothing_is_lost_or_counted_twice_when_everything_is_killed_frozen_and_restarted() -> None:
    require_kafka()
    done = subprocess.run(
        [sys.executable, "-u", "-m", "benchmarks.chaos", *EVERY_DEED_ONCE],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    print(done.stdout, done.stderr)  # shown when the test fails: the story of who was struck when
    assert done.returncode == 0, "something differs: see the verdict above"
    assert "ok     the console's read model is that of the topics" in done.stdout
    assert "ok     a kill from before stands for an agent that is restarted" in done.stdout
    assert "ok     the audit table holds each record of the deleted topic once" in done.stdout
    assert "ok     damage to a state is kept and ends nobody for good" in done.stdout
    assert "VERDICT: nothing lost, nothing counted twice." in done.stdout
