import sys
from pathlib import Path

import pytest

from haltline.cli.base_commands import BESIDE_AGENTS, PROCESSOR
from tests.programs import ended

SAMPLE = Path(__file__).resolve().parents[3] / "streams/importing/samples/google_adk.json"


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


EACH = f"""
import sys; sys.modules.update(dict.fromkeys({sorted(PROCESSOR)!r}))
from haltline.cli.__main__ import main
for arguments in {[*([one, "--help"] for one in BESIDE_AGENTS), ["import", str(SAMPLE)]]!r}:
    sys.argv[1:] = arguments
    print("@@")
    try: main()
    except SystemExit as ended: print("code", ended.code or 0)
"""


def test_the_commands_run_and_a_recording_is_imported_without_the_processor() -> None:
    done = ended(sys.executable, "-c", EACH)
    assert (done.returncode, done.stderr) == (0, f"haltline: import: {SAMPLE}: google-adk: 19 events\n")
    *helps, imported = done.stdout.split("@@\n")[1:]
    for command, text in zip(BESIDE_AGENTS, helps, strict=True):
        words = " ".join(text.split())
        assert all(one in words for one in (f"haltline {command}", "Example: haltline", "Exit codes: ", "code 0"))
    assert len(imported.splitlines()) == 19 + 1
