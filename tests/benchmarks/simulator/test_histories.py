"""Whole histories: the product's own code under faults, from a seed."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.simulator.runs import run

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


# Histories with a defect on purpose, until one is found.
@pytest.mark.parametrize(
    "mistake", ["commit before states", pytest.param("rows before positions", marks=pytest.mark.wide)]
)
def test_a_mistake_is_found_and_its_seed_printed(mistake: str) -> None:
    found = _command("--fault", mistake, "--processes", "1")
    assert found.returncode == 0, found.stderr
    assert f"{mistake}: found after" in found.stdout
    assert "WRONG" in found.stdout
