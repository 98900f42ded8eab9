"""A sink that runs for years keeps nothing of the commits that it has made."""

import gc
import tracemalloc
from pathlib import Path

from benchmarks.sink_memory import commit_often

WARM, MEASURED, ROWS = 4, 10, 40


def test_python_keeps_nothing_of_a_commit(tmp_path: Path) -> None:
    commits = commit_often(tmp_path, WARM + MEASURED, ROWS)
    held = []
    tracemalloc.start()
    try:
        for done in commits:
            if done in {WARM, WARM + MEASURED}:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    before, after = held
    # One kept row would be some 3 kB for each of the 400; the generator of events keeps a little of its own.
    assert after - before < 100_000
