"""A short form of `make chaos`: faults of all processes under load, with nothing lost or counted twice.

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
WITHIN_S = 1200.0
"""On a machine that has something else to do; some two minutes where it has not."""
ENDS_WITHIN_S = 120.0


@pytest.mark.wide
@pytest.mark.kafka
def test_nothing_is_lost_or_counted_twice_when_everything_is_killed_frozen_and_restarted() -> None:
    require_kafka()
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "benchmarks.chaos", *EVERY_DEED_ONCE],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            shown, _ = run.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            run.terminate()  # it ends its broker and workers, which would go on otherwise
            shown, _ = run.communicate(timeout=ENDS_WITHIN_S)
    print(shown)  # where the test fails: the story of who was struck when, and what differs
    assert run.returncode == 0, "something differs, or it took too long: see above"
    assert "ok     the console's read model is that of the topics" in shown
    assert "ok     an earlier kill is in force for a restarted agent" in shown
    assert "ok     the audit table holds each record of the deleted topic once" in shown
    assert "ok     damage to a state is kept and ends no process permanently" in shown
    assert "VERDICT: nothing lost, nothing counted twice." in shown
