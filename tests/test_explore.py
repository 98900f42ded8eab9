import os
import re
import sys
from pathlib import Path

from tests.locks import ROOT
from tests.programs import ended

RARE = """
from hypothesis import given, strategies as st

@given(st.integers(0, 10**9))
def test_a_property(number):
    assert number % 1000 < 990, f"found {number}"

def test_no_property():
    assert False, "explore leaves it out"
"""


def explored(folder: Path, *words: str) -> str:
    """The output of a run that fails, in a folder of its own, or the first run's example would be there."""
    folder.mkdir()
    (folder / "test_rare.py").write_text(RARE)
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "test_rare.py"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = ended(sys.executable, *words, *options, cwd=folder, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "explore leaves it out" not in done.stdout
    return done.stdout


def test_what_is_found_with_a_new_seed_is_found_again_by_the_command_that_is_named(tmp_path: Path) -> None:
    first = explored(tmp_path / "first", "-m", "tests.explore", "--minutes", "1")
    (again,) = re.findall(r"^again: python (.*) TEST$", first, re.MULTILINE)
    assert "@reproduce_failure" in first
    found = re.compile("found [0-9]+")
    second = explored(tmp_path / "second", *again.split(), "-k", "test_a_property")
    assert set(found.findall(first)) == set(found.findall(second)) != set()
