"""Programs that `haltline init` has written: they run with the real library; `--undo` keeps later changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import cases
from tests.cli.initializing import init
from tests.conformance.environments import python_of, require_environment

pytestmark = pytest.mark.usefixtures("folder")

PROGRAM = "import dspy\n\nx = dspy.ReAct('a -> b')\nprint(x)\n"
LOADS = """
from google.adk.cli.utils.agent_loader import AgentLoader
app = AgentLoader(".").load_agent("shop")
print(type(app).__name__, app.name, app.root_agent.name, [plugin.name for plugin in app.plugins])
"""
SERVERS = """{
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "files", "/é"]},
    "git":   { "command" : "uvx" },
    "done":  {"command": "haltline", "args": ["mcp-proxy", "--", "x"], "env": {"A": "}"}}
  }, "other": [1,2]
}
"""


def run(python: Path, *words: str) -> list[str]:
    environ = os.environ | {"HALTLINE_MODE": "local", "PYTHONPATH": os.pathsep.join(sys.path)}
    if python != Path(sys.executable):
        environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run([str(python), *words], capture_output=True, text=True, check=False, timeout=120, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_adk_loads_the_app_that_init_has_made_of_a_root_agent() -> None:
    require_environment("google-adk")
    Path("shop").mkdir()
    Path("shop/agent.py").write_text(
        "from google.adk.agents import Agent\n\nroot_agent = Agent(name='cleaner', model='gemini-2.5-flash')\n"
    )
    assert init("shop/agent.py", "--yes").exit_code == 0
    assert run(python_of("google-adk"), "-c", LOADS)[-1] == "App shop cleaner ['haltline']"


def test_the_servers_of_a_host_come_behind_the_proxy_and_all_else_stays() -> None:
    Path(".mcp.json").write_text(SERVERS)
    assert init(".mcp.json", "--yes").exit_code == 0
    proxy = '"command": "haltline", "args": ["mcp-proxy", "--name", "files", "--", "npx", "-y", "files", "/é"]'
    expected = SERVERS.replace('"command": "npx", "args": ["-y", "files", "/é"]', proxy)
    expected = expected.replace(
        '"command" : "uvx"', '"command" : "haltline", "args": ["mcp-proxy", "--name", "git", "--", "uvx"]'
    )
    assert Path(".mcp.json").read_text() == expected
    assert "nothing to change" in init(".mcp.json", "--yes").stdout
    assert init("--undo", ".mcp.json", "--yes").exit_code == 0
    assert Path(".mcp.json").read_text() == SERVERS


@cases(
    "text, problem",
    {
        "comments": ('{"mcpServers": {} // mine\n}', "expected JSON, got: "),
        "no servers": ('{"other": {}}', "expected servers under mcpServers or servers, got none"),
        "an address": ('{"servers": {"web": {"url": "http://x"}}}', "web: expected a command with args"),
    },
)
def test_a_host_s_file_of_another_shape_is_left_alone(text: str, problem: str) -> None:
    Path("mcp.json").write_text(text)
    done = init("mcp.json", "--yes")
    assert (done.exit_code, problem in done.stderr, Path("mcp.json").read_text()) == (1, True, text), done.output


def test_undo_shows_the_changes_asks_and_keeps_what_was_changed_since() -> None:
    Path("a.py").write_text(PROGRAM)
    assert init("a.py", "--yes").exit_code == 0
    Path("a.py").write_text("# mine\n" + Path("a.py").read_text().replace("print(x)", "print(x, 1)\nprint(2)"))
    shown = init("--undo", "a.py", "--dry-run")
    assert (shown.exit_code, "+x = dspy.ReAct('a -> b')" in shown.stdout) == (0, True)
    assert (init("--undo", "a.py").exit_code, "guarded(" in Path("a.py").read_text()) == (2, True)
    assert init("--undo", "a.py", "--yes").exit_code == 0
    assert Path("a.py").read_text() == "# mine\n" + PROGRAM.replace("print(x)", "print(x, 1)\nprint(2)")
    again = init("--undo", "a.py", "--yes")
    assert (again.exit_code, "expected a file that haltline init has written" in again.stderr) == (1, True)


def test_undo_deletes_a_program_that_init_has_made_unless_it_was_changed() -> None:
    assert init("--framework", "dspy", "--yes").exit_code == 0
    whole = Path("agent.py").read_text()
    Path("agent.py").write_text(whole + "# mine\n")
    assert "got a changed one" in init("--undo", "agent.py", "--yes").stderr
    Path("agent.py").write_text(whole)
    assert init("--undo", "agent.py", "--yes").exit_code == 0
    assert not Path("agent.py").exists()


@pytest.mark.parametrize("words", [("--undo",), ("--undo", "a.py", "--framework", "dspy")])
def test_undo_wants_a_file_alone(words: tuple[str, ...]) -> None:
    done = init(*words)
    assert (done.exit_code, "--undo: expected FILE beside it" in done.stderr) == (2, True)


def test_undo_refuses_where_a_line_that_init_wrote_was_changed_and_what_is_kept_for_it_is_for_this_user_alone() -> None:
    Path("a.py").write_text(PROGRAM)
    assert init("a.py", "--yes").exit_code == 0
    changed = Path("a.py").read_text().replace("'a -> b'", "'a -> c'")
    Path("a.py").write_text(changed)
    done = init("--undo", "a.py", "--yes")
    assert done.exit_code == 1
    assert "got a change there since: x = guarded(dspy.ReAct('a -> b'), guard). Nothing is written" in done.stderr
    assert Path("a.py").read_text() == changed
    (kept,) = (Path(os.environ["XDG_STATE_HOME"]) / "haltline" / "init").iterdir()
    assert (kept.stat().st_mode & 0o777, json.loads(kept.read_text())["before"]) == (0o600, PROGRAM)
