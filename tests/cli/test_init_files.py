"""`haltline init FILE`: JavaScript, agents that would stay unguarded, hosts of MCP servers, and `--undo`."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from haltline.cli.frameworks.table import FRAMEWORKS
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
AT_ADDRESSES = """{"mcpServers": {
  "docs": {"type": "http", "url": "https://docs.example/v1/mcp?a=1", "headers": {"Authorization": "Bearer x"}},
  "my own": {"httpUrl": "http://localhost:3845"},
  "web": {"url": "https://x.example/mcp"}
}}
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


def test_servers_at_an_address_come_behind_proxies_of_their_own_and_what_is_left_is_printed() -> None:
    Path(".mcp.json").write_text(AT_ADDRESSES)
    done = init(".mcp.json", "--yes")
    assert done.exit_code == 1, "one is left"
    written = json.loads(Path(".mcp.json").read_text())["mcpServers"]
    commands = {shlex.split(line)[3]: shlex.split(line) for line in done.stdout.splitlines() if "haltline mcp-" in line}
    ports = {name: words[-1] for name, words in commands.items()}
    assert len({*ports.values()}) == 3
    assert written == {
        "docs": {
            "type": "http",
            "url": f"http://127.0.0.1:{ports['docs']}/v1/mcp?haltline=docs",
            "headers": {"Authorization": "Bearer x"},
        },
        "my own": {"httpUrl": f"http://127.0.0.1:{ports['my own']}/?haltline=my%20own"},
        "web": {"url": "https://x.example/mcp"},
    }
    assert commands["docs"][4:-1] == ["--url", "https://docs.example/v1/mcp?a=1", "--port"]
    assert f'"url": "http://127.0.0.1:{ports["web"]}/mcp?haltline=web"' in done.stdout
    again = init(".mcp.json", "--yes")
    assert (again.exit_code, "docs" in again.output, "web: expected headers" in again.stderr) == (1, False, True)
    assert init("--undo", ".mcp.json", "--yes").exit_code == 0
    assert Path(".mcp.json").read_text() == AT_ADDRESSES


@cases(
    "text, problem",
    {
        "comments": ('{"mcpServers": {} // mine\n}', "expected JSON, got: "),
        "no servers": ('{"other": {}}', "expected servers under mcpServers or servers, got none"),
        "neither a command nor an address": ('{"servers": {"web": {}}}', "web: expected a command with args, or an"),
        "a log-in": ('{"servers": {"web": {"url": "https://x/mcp"}}}', "web: expected headers with a token, got none"),
        "a variable": ('{"servers": {"web": {"url": "https://${X}/mcp"}}}', "web: expected http://... or https://..."),
        "another transport": ('{"servers": {"web": {"type": "sse", "url": "http://[::1]/"}}}', "got another transport"),
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


SETUP = """import { httpSession } from "haltline";
import { guarded } from "haltline/%s";
const session = httpSession({ url: "http://127.0.0.1:8765", agentId: "a" });
"""


@cases(
    "framework, program, expected",
    {
        "several lines, a trailing comma and a comment": (
            "vercel-ai",
            (
                "import { generateText, tool } from \"ai\"; // the SDK\nimport z from 'zod'\n\n"
                "await generateText(\n  { model, tools: { a: tool({ b: [1, 2] }) } }, // one\n);\n"
            ),
            "import { generateText, tool } from \"ai\"; // the SDK\nimport z from 'zod'\n" + SETUP % "vercel" + "\n"
            "await generateText(guarded(\n  { model, tools: { a: tool({ b: [1, 2] }) } }, session), // one\n);\n",
        ),
        "texts and patterns with signs, another name and a session of its own": (
            "vercel-ai",
            (
                '"use strict";\nimport { streamText as go } from "ai";\nconst session = /[)(]/g;\n'
                "const r = go({ prompt: `a ${x(`)`)} )`, stop: ')' });\nr.generateText(1, 2);\n"
            ),
            '"use strict";\nimport { streamText as go } from "ai";\n'
            + (SETUP % "vercel").replace("const session", "const haltlineSession")
            + "const session = /[)(]/g;\n"
            "const r = go(guarded({ prompt: `a ${x(`)`)} )`, stop: ')' }, haltlineSession));\nr.generateText(1, 2);\n",
        ),
        "an agent of the Vercel AI SDK": (
            "vercel-ai",
            'import { ToolLoopAgent } from "ai";\nexport const agent = new ToolLoopAgent({ model, tools: { a } });\n',
            'import { ToolLoopAgent } from "ai";\n'
            + SETUP % "vercel"
            + "export const agent = new ToolLoopAgent(guarded({ model, tools: { a } }, session));\n",
        ),
        "an agent that is made, in TypeScript, with line ends of Windows": (
            "mastra",
            'import type { Tool } from "x";\r\nimport { Agent, type B } from "@mastra/core/agent";\r\n'
            "const a: number = 1;\r\n" + "export const b = new Agent({ id: 'a' });\r\n",
            'import type { Tool } from "x";\r\nimport { Agent, type B } from "@mastra/core/agent";\r\n'
            + (SETUP % "mastra").replace("\n", "\r\n")
            + "const a: number = 1;\r\nexport const b = new Agent(guarded({ id: 'a' }, session));\r\n",
        ),
    },
)
def test_a_program_is_put_behind_a_guard_and_taken_back(framework: str, program: str, expected: str) -> None:
    file = Path("a.ts" if framework == "mastra" else "a.mjs")
    file.write_bytes(program.encode())
    assert init("--framework", framework, "--yes", str(file)).exit_code == 0
    assert file.read_bytes().decode() == expected
    assert "nothing to change" in init("--framework", framework, "--yes", str(file)).stdout
    if file.suffix == ".mjs" and (node := shutil.which("node")) is not None:
        subprocess.run([node, "--check", str(file)], check=True)
    assert init("--undo", str(file), "--yes").exit_code == 0
    assert file.read_bytes().decode() == program


@cases(
    "framework, program, problem",
    {
        "no call": (
            "vercel-ai",
            'import { tool } from "ai";\n',
            "expected a call of generateText, streamText, ToolLoopAgent, imported",
        ),
        "another way to import": (
            "vercel-ai",
            'const { generateText } = require("ai");\ngenerateText({});\n',
            "got none",
        ),
        "two arguments": (
            "vercel-ai",
            'import { generateText } from "ai";\ngenerateText(a, b);\n',
            "line 2: expected a call with",
        ),
        "a class of an older release": (
            "vercel-ai",
            'import { Experimental_Agent } from "ai";\nnew Experimental_Agent({});\n',
            "expected no Experimental_Agent, got one: use ToolLoopAgent",
        ),
        "a name that is taken": (
            "mastra",
            'import { Agent } from "@mastra/core";\nconst guarded = new Agent({});\n',
            "expected no guarded",
        ),
        "a subclass": (
            "mastra",
            'import { Agent } from "@mastra/core";\nnew Agent({});\nclass B extends Agent {}\n',
            "line 3: expected Agent",
        ),
    },
)
def test_a_program_of_another_shape_is_left_alone_and_the_lines_are_printed(
    framework: str, program: str, problem: str
) -> None:
    Path("a.mjs").write_text(program)
    done = init("--framework", framework, "--yes", "a.mjs")
    assert (done.exit_code, problem in done.stderr, Path("a.mjs").read_text()) == (1, True, program), done.output
    assert FRAMEWORKS[framework].how in done.stdout


def test_a_program_in_another_language_is_left_alone() -> None:
    Path("a.py").write_text("x = 1\n")
    done = init("--framework", "mastra", "--yes", "a.py")
    assert (done.exit_code, "expected a program in JavaScript or TypeScript, got a.py" in done.stderr) == (1, True)


PYDANTIC_FIRST = "from pydantic_ai import Agent\na = Agent('x')\n"
OPENAI_FIRST = "from agents import Agent, Runner\na = Agent(name='x', tools=[t])\nRunner.run_sync(a, 'x')\n"
SMOL_FIRST = "from smolagents import CodeAgent\na = CodeAgent()\nb = CodeAgent(managed_agents=[a])\n"


ALONE = {
    ("pydantic-ai", PYDANTIC_FIRST): {
        "class B(Agent): ...\nB('y')": "line 3: expected Agent only in calls",
        "Agent.from_file('y')": "line 3: expected Agent only in calls",
        "print(f'{Agent(1)}')": "got another use in an f-string",
        "def f(b: Annotated[X, D(Agent)]): ...": "line 3: expected Agent only in",
        "import pydantic_ai\np = pydantic_ai": "line 4: expected pydantic_ai only in",
        "from pydantic_ai import *\n": "line 3: expected imports by name, got *",
        "from other import Agent": "line 1: expected one import of Agent, got several",
        "def f(b=Agent('y')): ...": "line 3: expected the agent in a statement of its",
    },
    ("pydantic-ai", "from pydantic_ai import Agent\n"): {
        "def f(b=Agent('y')): ...": "line 2: expected the agent in a",
        "@Agent('y').tool\ndef f(): ...": "line 2: expected the agent",
    },
    ("openai-agents", OPENAI_FIRST): {
        "Agent(**cfg)": "line 4: expected arguments by name, got **",
        "Agent('y', None, [t])": "line 4: expected arguments by name, got several",
        "Agent(name='y', mcp_servers=[s])": "line 4: expected no mcp_servers=",
        "a.clone(tools=[y])": "line 4: expected a copy without tools of its own",
        "a.tools.append(y)": "line 4: expected tools only where the agent is made",
        "a.mcp_servers = [y]": "line 4: expected mcp_servers only where the agent",
    },
    ("smolagents", SMOL_FIRST): {
        "c = CodeAgent()": "line 4: expected one agent with all others as a part of it",
    },
    ("google-adk", "from google.adk import App, Runner\na = App()\nRunner(app=a)\n"): {
        "Runner(agent=x)": "line 4: ",
    },
    ("langchain", "from langgraph.prebuilt import create_react_agent\na = create_react_agent(m, [t])\n"): {
        "make = create_react_agent": "line 3: expected create_react_agent only in calls",
    },
    ("opentelemetry", "from opentelemetry.sdk.trace import TracerProvider\np = TracerProvider()\n"): {
        "class P(TracerProvider): ...": "line 3: expected TracerProvider only in calls",
    },
    ("crewai", "import crewai\nc.kickoff()\n"): {
        "pool.submit(c.kickoff)": "line 3: expected c.kickoff only in calls",
        "x = lambda: c.kickoff()": "got one that runs later",
        "x = [c.kickoff_async()]": "got one that runs later",
    },
}
"""By framework and the beginning of a program: second lines that leave an agent unguarded, and what is reported."""


@pytest.mark.parametrize(
    ("framework", "first", "second", "problem"),
    [(*begins, second, problem) for begins, lines in ALONE.items() for second, problem in lines.items()],
)
def test_nothing_is_written_where_a_second_agent_would_stay_unguarded(
    framework: str, first: str, second: str, problem: str
) -> None:
    Path("a.py").write_text(f"{first}{second}\n")
    done = init("--framework", framework, "--yes", "a.py")
    assert (done.exit_code, problem in done.stderr) == (1, True), done.output
    assert FRAMEWORKS[framework].how in done.stdout
    assert Path("a.py").read_text() == f"{first}{second}\n"


@pytest.mark.parametrize(
    ("framework", "program"),
    [
        ("openai-agents", OPENAI_FIRST + "self.tools = [t]\nb = Agent(name='y')\nc = a.clone(name='z')\n"),
        ("google-adk", "from google.adk import App, Runner\na = App()\nr = Runner(app=a)\n"),
        ("smolagents", SMOL_FIRST),
        ("crewai", "import crewai\nasyncio.run(c.kickoff_async())\n"),
    ],
)
def test_a_program_whose_every_agent_is_guarded_is_changed(framework: str, program: str) -> None:
    Path("a.py").write_text(program)
    assert init("--framework", framework, "--yes", "a.py").exit_code == 0
