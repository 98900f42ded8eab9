"""`haltline init FILE`: agents that would stay unguarded, and hosts of MCP servers."""

import json
from pathlib import Path

import pytest

from haltline.cli.frameworks.table import FRAMEWORKS
from tests.builders import cases
from tests.cli.initializing import init

pytestmark = pytest.mark.usefixtures("folder")

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
  "here": {"httpUrl": "http://127.0.0.1:8766/"},
  "git": {"command": "uvx"}
}}
"""


def test_the_servers_of_a_host_come_behind_the_proxy_and_all_else_stays() -> None:
    Path(".mcp.json").write_text(SERVERS)
    assert init(".mcp.json", "--yes").exit_code == 0
    expected = json.loads(SERVERS)
    proxied = {"files": ("npx", "-y", "files", "/é"), "git": ("uvx",)}
    for name, command in proxied.items():
        expected["mcpServers"][name] = {"command": "haltline", "args": ["mcp-proxy", "--name", name, "--", *command]}
    assert Path(".mcp.json").read_text() == json.dumps(expected, indent=2, ensure_ascii=False) + "\n"
    assert "nothing to change" in init(".mcp.json", "--yes").stdout


def test_servers_at_an_address_stay_and_the_command_of_a_proxy_is_printed() -> None:
    Path(".mcp.json").write_text(AT_ADDRESSES)
    done = init(".mcp.json", "--yes")
    assert done.exit_code == 1
    assert "    haltline mcp-proxy --name docs --url 'https://docs.example/v1/mcp?a=1'" in done.stdout.splitlines()
    written = json.loads(AT_ADDRESSES)
    written["mcpServers"]["git"] = {"command": "haltline", "args": ["mcp-proxy", "--name", "git", "--", "uvx"]}
    assert json.loads(Path(".mcp.json").read_text()) == written
    assert init(".mcp.json", "--yes").exit_code == 1


@cases(
    "text, problem",
    {
        "comments": ('{"mcpServers": {} // mine\n}', "expected JSON, got: "),
        "no servers": ('{"other": {}}', "expected servers under mcpServers or servers, got none"),
        "neither a command nor an address": ('{"servers": {"web": {}}}', "web: expected a command with args, or an"),
    },
)
def test_a_host_s_file_of_another_shape_is_left_alone(text: str, problem: str) -> None:
    Path("mcp.json").write_text(text)
    done = init("mcp.json", "--yes")
    assert (done.exit_code, problem in done.stderr, Path("mcp.json").read_text()) == (1, True, text), done.output


PYDANTIC_FIRST = "from pydantic_ai import Agent\na = Agent('x')\n"
OPENAI_FIRST = "from agents import Agent, Runner\na = Agent(name='x', tools=[t])\nRunner.run_sync(a, 'x')\n"
SMOL_FIRST = "from smolagents import CodeAgent\na = CodeAgent()\nb = CodeAgent(managed_agents=[a])\n"


@pytest.mark.parametrize(
    ("framework", "first", "second", "problem"),
    [
        ("pydantic-ai", PYDANTIC_FIRST, "class B(Agent): ...\nB('y')", "line 3: expected Agent only in calls"),
        ("pydantic-ai", PYDANTIC_FIRST, "Agent.from_file('y')", "line 3: expected Agent only in calls"),
        ("pydantic-ai", PYDANTIC_FIRST, "print(f'{Agent(1)}')", "got another use in an f-string"),
        ("pydantic-ai", PYDANTIC_FIRST, "def f(b: Annotated[X, D(Agent)]): ...", "line 3: expected Agent only in"),
        ("pydantic-ai", PYDANTIC_FIRST, "import pydantic_ai\np = pydantic_ai", "line 4: expected pydantic_ai only in"),
        ("pydantic-ai", PYDANTIC_FIRST, "from pydantic_ai import *\n", "line 3: expected imports by name, got *"),
        ("pydantic-ai", PYDANTIC_FIRST, "from other import Agent", "line 1: expected one import of Agent, got several"),
        ("pydantic-ai", PYDANTIC_FIRST, "def f(b=Agent('y')): ...", "line 3: expected the agent in a statement of its"),
        ("pydantic-ai", "from pydantic_ai import Agent\n", "def f(b=Agent('y')): ...",
         "line 2: expected the agent in a"),
        ("pydantic-ai", "from pydantic_ai import Agent\n", "@Agent('y').tool\ndef f(): ...",
         "line 2: expected the agent"),
        ("openai-agents", OPENAI_FIRST, "Agent(**cfg)", "line 4: expected arguments by name, got **"),
        ("openai-agents", OPENAI_FIRST, "Agent('y', None, [t])", "line 4: expected arguments by name, got several"),
        ("openai-agents", OPENAI_FIRST, "Agent(name='y', mcp_servers=[s])", "line 4: expected no mcp_servers="),
        ("openai-agents", OPENAI_FIRST, "a.clone(tools=[y])", "line 4: expected tools only where the agent is made"),
        ("openai-agents", OPENAI_FIRST, "a.tools.append(y)", "line 4: expected tools only where the agent is made"),
        ("openai-agents", OPENAI_FIRST, "a.mcp_servers = [y]", "line 4: expected tools only where the agent is made"),
        ("smolagents", SMOL_FIRST, "c = CodeAgent()", "line 4: expected one agent with all others as a part of it"),
        ("google-adk", "from google.adk import App, Runner\na = App()\nRunner(app=a)\n", "Runner(agent=x)", "line 4: "),
        ("langchain", "from langgraph.prebuilt import create_react_agent\na = create_react_agent(m, [t])\n",
         "make = create_react_agent", "line 3: expected create_react_agent only in calls"),
        ("opentelemetry", "from opentelemetry.sdk.trace import TracerProvider\np = TracerProvider()\n",
         "class P(TracerProvider): ...", "line 3: expected TracerProvider only in calls"),
    ],
)  # fmt: skip
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
        ("openai-agents", OPENAI_FIRST + "self.tools = [t]\nb = Agent(name='y')\n"),
        ("google-adk", "from google.adk import App, Runner\na = App()\nr = Runner(app=a)\n"),
        ("smolagents", SMOL_FIRST),
    ],
)
def test_a_program_whose_every_agent_is_guarded_is_changed(framework: str, program: str) -> None:
    Path("a.py").write_text(program)
    assert init("--framework", framework, "--yes", "a.py").exit_code == 0
