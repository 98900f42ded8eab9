"""What runs beside an agent needs the base installation only."""

import subprocess
import sys

import pytest

from haltline.streams.__main__ import BESIDE_AGENTS, PROCESSOR


@pytest.mark.parametrize("command", BESIDE_AGENTS)
def test_the_command_runs_without_the_processor(command: str) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(PROCESSOR)!r}))\n"
        f"sys.argv[1:] = [{command!r}, '--help']\n"
        "from haltline.streams.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"haltline {command}" in done.stdout
    words = " ".join(done.stdout.split())
    assert "Example: haltline" in words
    assert "Exit codes: " in words
