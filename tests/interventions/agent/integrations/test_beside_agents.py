"""What runs beside an agent needs the base installation only."""

import subprocess
import sys
from pathlib import Path

import pytest

from haltline.cli.base_commands import BESIDE_AGENTS, PROCESSOR


@pytest.mark.parametrize(
    ("command", "extra"),
    [(["intake"], "intake"), (["mcp-proxy", "--url", "http://a/mcp"], "mcp")],
    ids=["intake", "mcp"],
)
def test_what_an_extra_brings_is_named_when_it_is_not_there(command: list[str], extra: str) -> None:
    program = (
        f"import sys; sys.modules['aiohttp'] = None; sys.argv[1:] = {[*command, '--bootstrap', 'a:1']!r}\n"
        "from haltline.cli.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'haltline[{extra}]'" in done.stderr


@pytest.mark.parametrize("command", BESIDE_AGENTS)
def test_the_command_runs_without_the_processor(command: str) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(PROCESSOR)!r}))\n"
        f"sys.argv[1:] = [{command!r}, '--help']\n"
        "from haltline.cli.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"haltline {command}" in done.stdout
    words = " ".join(done.stdout.split())
    assert "Example: haltline" in words
    assert "Exit codes: " in words


def test_a_recording_is_imported_without_the_processor() -> None:
    sample = Path(__file__).resolve().parents[3] / "streams/importing/samples/google_adk.json"
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(PROCESSOR)!r}))\n"
        f"sys.argv[1:] = ['import', {str(sample)!r}]\n"
        "from haltline.cli.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 19), done.stderr
