"""`haltline init --framework`: its changes of programs, programs it refuses, and its questions."""

import ast
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from haltline.cli.frameworks.detecting import in_program, in_project, named, proposed
from haltline.cli.frameworks.guarding import guarded_program
from haltline.cli.frameworks.rows import Framework
from haltline.cli.frameworks.table import FRAMEWORKS
from haltline.cli.operator import init_program
from tests.builders import cases
from tests.cli.initializing import init
from tests.examples.unguarded import unguarded

pytestmark = pytest.mark.usefixtures("folder")

IMPORTS = "from haltline import Guard, GuardSettings\nfrom haltline.interventions.agent.integrations."
GUARD = 'guard = Guard(GuardSettings.from_env(agent_id="a"))\n'
PYDANTIC_AI = IMPORTS + "pydantic_ai import HaltlineCapability\n"


@pytest.mark.parametrize(
    ("framework", "program", "expected"),
    [
        pytest.param(
            "pydantic-ai",
            '"""Mine."""\nfrom pydantic_ai import Agent\n\nagent = Agent("m")  # a comment\n',
            f'"""Mine."""\nfrom pydantic_ai import Agent\n\n{PYDANTIC_AI}\n{GUARD}'
            'agent = Agent("m", capabilities=[HaltlineCapability(guard)])  # a comment\n',
            id="a call on one line",
        ),
        pytest.param(
            "pydantic-ai",
            "import pydantic_ai as p\n\na = p.Agent(\n    'm',\n    tools=[x],  # é\n    # more\n)\n",
            f"import pydantic_ai as p\n\n{PYDANTIC_AI}\n{GUARD}"
            "a = p.Agent(\n    'm',\n    tools=[x],  # é\n"
            "    capabilities=[HaltlineCapability(guard)],\n    # more\n)\n",
            id="an argument a line, a renamed module, and letters of two bytes",
        ),
        pytest.param(
            "pydantic-ai",
            "from pydantic_ai import Agent\n@one\ndef f():\n    return Agent()\ndef g(guard):\n    return Agent()\n",
            f"from pydantic_ai import Agent\n\n{PYDANTIC_AI}haltline_{GUARD}\n\n@one\ndef f():\n"
            "    return Agent(capabilities=[HaltlineCapability(haltline_guard)])\ndef g(guard):\n"
            "    return Agent(capabilities=[HaltlineCapability(haltline_guard)])\n",
            id="two functions share one guard, under a name that is free",
        ),
        pytest.param(
            "openai-agents",
            "from agents import Agent, Runner\na = Agent(name='a', tools=TOOLS)\nRunner.run_sync(a, 'x',)\n",
            f"from agents import Agent, Runner\n\n{IMPORTS}openai_agents import HaltlineAgents\n{GUARD}"
            "adapter = HaltlineAgents(guard)\na = Agent(name='a', tools=adapter.guarded(TOOLS))\n"
            "Runner.run_sync(a, 'x', hooks=adapter.hooks)\n",
            id="two kinds of changes",
        ),
        pytest.param(
            "crewai",
            "import crewai\ndef f(c):\n    result = c.kickoff(\n        inputs={},\n    )\n    return result\n",
            f"import crewai\n\n{IMPORTS}crewai import guarded\ndef f(c):\n    {GUARD}    with guarded(guard):\n"
            "        result = c.kickoff(\n            inputs={},\n        )\n    return result\n",
            id="a statement within a block",
        ),
        pytest.param(
            "google-adk",
            "from google.adk.apps import App\nfrom google.adk.runners import Runner\nr = Runner(app=App(name='a'))\n",
            "from google.adk.apps import App\nfrom google.adk.runners import Runner\n\n"
            f"{IMPORTS}google_adk import HaltlinePlugin\n{GUARD}"
            "r = Runner(app=App(name='a', plugins=[HaltlinePlugin(guard)]))\n",
            id="the app and not its runner",
        ),
        pytest.param(
            "agent-framework",
            "from agent_framework import Agent\r\na = Agent(c)\r\n",
            f"from agent_framework import Agent\n\n{IMPORTS}agent_framework import haltline_middleware\n{GUARD}"
            "a = Agent(c, middleware=[*haltline_middleware(guard)])\n".replace("\n", "\r\n"),
            id="line ends of Windows",
        ),
        pytest.param(
            "langchain",
            "import langchain.agents as l\nimport langgraph.prebuilt\na = l.create_agent(m)\n"
            "b = langgraph.prebuilt.create_react_agent(m, [t])\n",
            "import langchain.agents as l\nimport langgraph.prebuilt\n\n"
            f"{IMPORTS}langchain import HaltlineMiddleware, guarded\n{GUARD}"
            "a = l.create_agent(m, middleware=[HaltlineMiddleware(guard)])\n"
            "b = guarded(langgraph.prebuilt.create_react_agent, guard)(m, [t])\n",
            id="one of LangChain and one of LangGraph",
        ),
        pytest.param(
            "opentelemetry",
            "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider\n"
            "trace.set_tracer_provider(TracerProvider(resource=r))\n",
            "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider\n\n"
            f"{IMPORTS}opentelemetry import watched\n{GUARD}"
            "trace.set_tracer_provider(watched(TracerProvider(resource=r), guard.settings))\n",
            id="a provider of spans",
        ),
    ],
)
def test_a_program_is_put_behind_a_guard(framework: str, program: str, expected: str) -> None:
    if "\r" in expected:
        expected = expected.replace("\r\n", "\n").replace("\n", "\r\n")
    Path("a.py").write_bytes(program.encode())
    assert init("--framework", framework, "--yes", "a.py").exit_code == 0
    assert Path("a.py").read_bytes().decode() == expected
    again = init("--framework", framework, "--yes", "a.py")
    assert (again.exit_code, "nothing to change" in again.stdout) == (0, True)
    assert Path("a.py").read_bytes().decode() == expected


@cases(
    "framework, program, problem",
    {
        "no agent in it": ("pydantic-ai", "import pydantic_ai\nrun()\n", "got no such call"),
        "no Python": ("pydantic-ai", "def broken(:\n", "expected a Python program"),
        "a list that is made elsewhere": ("pydantic-ai",
            "from pydantic_ai import Agent\na = Agent(capabilities=mine())\n",
            "line 2: expected a list for capabilities="),
        "arguments that are not written there": ("pydantic-ai",
            "from pydantic_ai import Agent\na = Agent(**options)\n", "line 2: expected arguments by name, got **"),
        "two statements on a line": ("pydantic-ai", "from pydantic_ai import Agent\nx = 1; a = Agent()\n",
            "line 2: expected a statement on a line of its own"),
        "what would not compile": ("pydantic-ai", "from pydantic_ai import Agent\na = (\n    Agent)(x for x in y)\n",
            "expected a result that compiles"),
        "a name that is taken": ("smolagents", "from smolagents import CodeAgent\nguarded = 1\na = CodeAgent()\n",
            "line 2: expected no guarded of the program's own"),
        "hooks of its own": ("claude-agent-sdk",
            "from claude_agent_sdk import ClaudeAgentOptions\no = ClaudeAgentOptions(hooks=HOOKS)\n",
            "line 2: expected no hooks= yet"),
        "a text that would be indented": ("crewai", 'import crewai\nc.kickoff(inputs={"a": """\nx\n"""})\n',
            "line 2: expected a statement without a text of several lines"),
        "a loop": ("crewai", "import crewai\nfor x in c.kickoff():\n    pass\n", "line 2: expected a statement of its"),
        "an agent of ADK under a condition": ("google-adk", "import google.adk\nif x:\n    root_agent = make()\n",
            "line 3: expected root_agent made once"),
        "a byte order mark": ("ag2", "\ufeffimport ag2\n", "without a byte order mark"),
        "mixed line ends": ("ag2", "import ag2\r\nx = 1\n", "expected one kind of line ends"),
    },
)  # fmt: skip
def test_a_program_of_another_shape_is_left_alone_and_the_lines_are_printed(
    framework: str, program: str, problem: str
) -> None:
    Path("a.py").write_bytes(program.encode())
    done = init("--framework", framework, "--yes", "a.py")
    assert done.exit_code == 1, done.output
    assert problem in done.stderr
    assert "Nothing is written." in done.stderr
    assert FRAMEWORKS[framework].how in done.stdout
    assert 'guard = Guard(GuardSettings.from_env(agent_id="a"))' in done.stdout
    assert Path("a.py").read_bytes().decode() == program
    assert [file.name for file in Path().iterdir()] == ["a.py"]


@pytest.mark.parametrize("row", [row for row in FRAMEWORKS.values() if row.edits], ids=lambda row: row.name)
def test_every_example_can_be_put_behind_a_guard(row: Framework) -> None:
    example = Path(__file__).resolve().parents[2] / row.path
    assert "Guard(" in guarded_program(unguarded(example.read_text(encoding="utf-8")), row, "a")


def test_the_changes_are_shown_and_only_written_when_that_is_agreed_to() -> None:
    program = "import dspy\nx = dspy.ReAct('a -> b')\n"
    Path("a.py").write_text(program)
    shown = init("a.py", "--dry-run")
    assert (shown.exit_code, "+x = guarded(dspy.ReAct('a -> b'), guard)" in shown.stdout) == (0, True)
    refused = init("a.py")
    assert (refused.exit_code, "expected --yes, --dry-run, or a terminal" in refused.stderr) == (2, True)
    assert Path("a.py").read_text() == program


@pytest.mark.parametrize("saved", ["# mine\n", None])
def test_what_was_saved_while_the_question_was_asked_is_kept(
    monkeypatch: pytest.MonkeyPatch, saved: str | None
) -> None:
    Path("a.py").write_text("import dspy\nx = dspy.ReAct('a -> b')\n")

    def agree(*_: object, **__: object) -> bool:
        Path("a.py").unlink()
        if saved is not None:
            Path("a.py").write_text(saved)
        return True

    monkeypatch.setattr(init_program, "agreed", agree)
    done = init("a.py")
    assert (done.exit_code, "a.py: expected the file as it was read, got another one" in done.stderr) == (2, True)
    assert [(file.name, file.read_text()) for file in Path().iterdir()] == ([("a.py", saved)] if saved else [])


@pytest.mark.parametrize("name", [row.name for row in FRAMEWORKS.values() if "/" not in row.program])
def test_without_a_file_the_program_of_the_page_is_written(name: str) -> None:
    done = init("--framework", name, "--yes")
    assert done.exit_code == 0, done.output
    (file,) = Path().iterdir()
    example = Path(__file__).resolve().parents[2] / FRAMEWORKS[name].path
    assert file.read_bytes() == example.read_bytes()
    if file.suffix == ".py":
        ast.parse(file.read_text())
    assert "nothing to change" in init("--framework", name, "--yes").stdout
    file.write_text("mine")
    assert (init("--framework", name, "--yes").exit_code, file.read_text()) == (2, "mine")


def test_a_program_of_another_language_gets_its_lines_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Framework(
        name="vercel-ai", title="Vercel", program="clients/a.mjs", packages=("ai",), how="generateText(guarded(o, s))",
        ends="`Refused`", language="javascript",
    )  # fmt: skip
    monkeypatch.setitem(FRAMEWORKS, row.name, row)
    Path("a.mjs").write_text("import { generateText } from 'ai'\n")
    Path("package.json").write_text('{"dependencies": {"ai": "^7"}, "devDependencies": ["no table"]}')
    for words in (("a.mjs",), ("--framework", row.name)):
        done = init("--yes", *words)
        assert (done.exit_code, row.how in done.stdout, "Nothing is written." in done.stderr) == (1, True, True)
    Path("a.ts").write_text("import x from 'y'\n")
    done = init("--framework", "mcp", "a.ts")
    assert (done.exit_code, "haltline mcp-proxy --name files -- SERVER" in done.stdout) == (1, True)


@cases(
    "words, problem",
    {
        "a framework that is not known": (("--framework", "autogpt"), "expected one of langchain, "),
        "nothing to show": (("--dry-run",), "--dry-run: expected --framework or FILE"),
        "two tasks at once": (("two.py", "--operator", "ada"), "expected no option of haltline.toml"),
        "a file that is not there": (("none.py",), "none.py: expected a program, got no such file"),
        "a program of two": (("two.py",), "imports several: langchain, dspy"),
        "a file that is too long": (("large.py",), "expected a program of at most 1000000 bytes"),
        "a file that is no text": (("binary.py",), "expected a program as UTF-8 text"),
    },
)
def test_what_cannot_be_used_is_named(words: tuple[str, ...], problem: str) -> None:
    Path("two.py").write_text("import dspy, langchain\n")
    Path("large.py").write_text("#" * 1_000_001)
    Path("binary.py").write_bytes(b"\xff\xfe")
    done = init(*words)
    assert (done.exit_code, problem in done.stderr) == (2, True), done.output


def test_the_framework_is_told_by_imports_then_by_the_project_and_named_by_name_or_number(folder: Path) -> None:
    assert in_program("from google.adk.agents import LlmAgent\nimport mcp\n") == ["google-adk", "mcp"]
    assert in_program("from google.genai import types\nimport mcpx\n") == []
    (folder / "requirements.txt").write_text("# my own\nSmolAgents[openai]>=1\n-r other.txt\n")
    assert in_project(folder) == ["smolagents"]
    (folder / "requirements.txt").unlink()
    (folder / "pyproject.toml").write_text(
        '[project]\ndependencies = ["crewai>=1"]\n[dependency-groups]\ndev = ["dspy", {include-group = "x"}]\n'
        '[tool.poetry.dependencies]\nag2 = "^1"\n'
    )
    assert in_project(folder) == ["dspy", "ag2", "crewai"]
    assert proposed("import strands", folder) == ("strands", "the program imports it")
    assert proposed("import os", folder) == ("dspy", "this project requires it")
    (folder / "pyproject.toml").write_text("[project\n")
    (folder / "package.json").write_text("[" * 100_000)
    assert in_project(folder) == []
    assert named(" Pydantic_AI ") is FRAMEWORKS["pydantic-ai"]
    assert named("1") is next(iter(FRAMEWORKS.values()))
    for wrong in ("0", "99", "9" * 5000, "²", ""):
        with pytest.raises(ValueError, match="expected one of"):
            named(wrong)


def test_on_a_terminal_it_asks_for_the_framework_and_the_program_and_shows_the_changes(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\ndependencies = ["dspy"]\n')
    (folder / "tidy.py").write_text("import dspy\nx = dspy.ReAct('a -> b')\n")
    (folder / "haltline.toml").write_text("")
    ours, theirs = pty.openpty()
    (folder / "home" / ".claude").mkdir(parents=True)
    os.write(ours, b"\ny\nautogpt\n\ntidy.py\ny\n")  # the empty answer takes what is proposed
    environ = os.environ | {"COLUMNS": "200", "XDG_CONFIG_HOME": str(folder), "HOME": str(folder / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "haltline.cli", "init"],
        stdin=theirs, capture_output=True, text=True, check=False, env=environ, timeout=60,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "expected one of langchain" in done.stdout + done.stderr
    assert "dspy: this project requires it" in done.stdout
    assert "+x = guarded(dspy.ReAct('a -> b'), guard)" in done.stdout
    assert "guarded(" in (folder / "tidy.py").read_text()
    assert "haltline.toml: kept" in done.stdout
    assert "claude-code is used on this machine" in done.stdout
    assert "hook_client.py --local" in (folder / "home" / ".claude" / "settings.json").read_text()


def test_a_program_that_appeared_while_the_question_was_asked_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_program, "agreed", lambda *_, **__: bool(Path("agent.py").write_text("mine")))
    done = init("--framework", "dspy")
    assert (done.exit_code, "agent.py: expected no file there" in done.stderr) == (2, True)
    assert [(file.name, file.read_text()) for file in Path().iterdir()] == [("agent.py", "mine")]
