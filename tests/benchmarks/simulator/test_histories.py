"""Whole histories: the product's own code under faults, from a seed."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.simulator.outcome import Outcome
from benchmarks.simulator.plan import Deed, Step, plan_of
from benchmarks.simulator.runs import run, shorten

ROOT = Path(__file__).parents[3]


def _command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.simulator", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seed", range(100, 106))
def test_nothing_differs_after_a_history(seed: int) -> None:
    assert run(seed).differences == []


def test_the_same_seed_gives_the_same_bytes_in_each_process() -> None:
    one, other = _command("--seed", "7", "--trace"), _command("--seed", "7", "--trace")
    assert one.returncode == 0, one.stderr
    assert one.stdout == other.stdout
    assert one.stdout.count("\n") > 100


def test_a_mistake_is_found_and_its_seed_printed() -> None:
    found = _command("--fault", "rows before positions", "--processes", "1")
    assert found.returncode == 0, found.stderr
    assert "rows before positions: found after" in found.stdout
    assert "WRONG" in found.stdout


def test_all_kinds_of_faults_come_and_in_some_histories_only_a_few_of_them_again_and_again() -> None:
    plans = [[step.deed for step in plan_of(seed, ["w"], ["r"])] for seed in range(200)]
    assert {deed for plan in plans for deed in plan} == set(Deed)
    assert any(len(plan) >= 8 and len(set(plan)) <= 3 for plan in plans)


def test_a_failing_plan_is_shortened_to_the_steps_that_matter() -> None:
    steps = [Step(float(at), Deed.KILL, f"worker-{at}") for at in range(6)]

    def fails_with_two(seed: int, plan: object) -> Outcome:
        differs = {steps[1], steps[4]} <= set(plan)  # type: ignore[call-overload]  # a plan
        return Outcome(seed, plan, ["differs"] if differs else [])  # type: ignore[arg-type]  # as above

    assert shorten(Outcome(1, steps, ["differs"]), fails_with_two).plan == [steps[1], steps[4]]
