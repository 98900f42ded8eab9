import sys
from pathlib import Path

import pytest

from haltline.cli.app import COMMANDS
from haltline.cli.base_commands import PROCESSOR
from haltline.cli.common import Exit
from tests.programs import ended
from tests.streams.commands import haltline

SAMPLE = Path(__file__).resolve().parents[3] / "streams/importing/samples/atif.json"


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
    done = ended(sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'haltline[{extra}]'" in done.stderr


@pytest.mark.parametrize(
    ("command", "lacking", "extra"),
    [(["up"], "deltalake", "processor"), (["console"], "uvicorn", "console")],
    ids=["up", "console"],
)
def test_a_command_of_an_extra_names_it_and_begins_nothing(
    command: list[str], lacking: str, extra: str, tmp_path: Path
) -> None:
    program = (
        "import importlib.util as util, sys; found = util.find_spec\n"
        f"util.find_spec = lambda name, *of: None if name == {lacking!r} else found(name, *of)\n"
        f"if {lacking!r} == 'uvicorn': sys.modules['uvicorn'] = None\n"
        f"sys.argv[1:] = {command!r}\n"
        "from haltline.cli.__main__ import main; main()"
    )
    done = ended(sys.executable, "-c", program, cwd=tmp_path)
    expected = f"haltline: {command[0]} needs {lacking}, which is not installed: pip install 'haltline[{extra}]'"
    assert done.stderr.startswith(expected), done.stderr
    assert (done.returncode, [*tmp_path.iterdir()]) == (2, [])


def test_a_guard_without_a_broker_names_the_variables_in_one_line() -> None:
    done = haltline("intake")
    assert done.exit_code == Exit.USAGE
    assert done.stderr.startswith(
        "haltline: intake: bootstrap: expected Kafka's address (host:port) for mode 'blocking'"
    )
    assert done.stderr.endswith("read HALTLINE_BOOTSTRAP and HALTLINE_MODE\n")


EACH = f"""
import sys; sys.modules.update(dict.fromkeys({sorted(PROCESSOR)!r}))
from haltline.cli.__main__ import main
for arguments in {[*([one, "--help"] for one in COMMANDS["Run beside agents"]), ["import", str(SAMPLE)]]!r}:
    sys.argv[1:] = arguments
    print("@@")
    try: main()
    except SystemExit as ended: print("code", ended.code or 0)
"""


def test_the_commands_run_and_a_recording_is_imported_without_the_processor() -> None:
    done = ended(sys.executable, "-c", EACH)
    assert (done.returncode, done.stderr) == (0, f"haltline: import: {SAMPLE}: atif: 13 events\n")
    *helps, imported = done.stdout.split("@@\n")[1:]
    for command, text in zip(COMMANDS["Run beside agents"], helps, strict=True):
        words = " ".join(text.split())
        assert all(one in words for one in (f"haltline {command}", "Example: haltline", "Exit codes: ", "code 0"))
    assert len(imported.splitlines()) == 13 + 1


def test_a_folder_without_recordings_is_reported(tmp_path: Path) -> None:
    done = haltline("import", tmp_path)
    expected = f"haltline: import: expected recordings in {tmp_path}, got none\n"
    assert (done.exit_code, done.stderr) == (Exit.NO, expected)
