"""What the sampler writes, the report can read."""

import subprocess
import sys
from pathlib import Path

import orjson

from benchmarks.profiling import texts
from benchmarks.sampler import Sampler

REPOSITORY = Path(__file__).parents[2]
BUSY = """
def add():
    return sum(range(1000))

def work():
    for _ in range(20_000):
        add()

work()
"""


def test_a_module_that_was_sampled_is_reported_by_line_and_function(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    out = tmp_path / "samples.json"
    subprocess.run(
        [sys.executable, "-m", "benchmarks.sampler", str(out), "busy"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": f"{REPOSITORY}:{tmp_path}"},
        check=True,
    )
    stacks = [stack for stack in orjson.loads(out.read_bytes()) if "importlib" not in str(stack)]
    summary, details = texts(stacks, {"main": 0.5}, 20_000)
    assert "20,000 events" in summary
    assert "busy.py:3  return sum(range(1000))" in details
    assert "busy.py  work" in details


class FrameWithoutALine:
    """Python 3.11 and later: the line of an instruction that the compiler put in is None."""

    f_lineno = None
    f_code = test_a_module_that_was_sampled_is_reported_by_line_and_function.__code__
    f_back = None


def test_a_sample_without_a_line_is_reported_as_of_line_0() -> None:
    sampler = Sampler()
    sampler._take(0, FrameWithoutALine())  # type: ignore[arg-type]  # real frames cannot be made
    _, details = texts(orjson.loads(sampler.as_json()), {"main": 0.5}, 1)
    assert details.splitlines()[1].strip().endswith("test_profiling.py:0")  # below the name of the clone, perhaps
