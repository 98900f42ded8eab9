"""`haltline init FILE` for programs in JavaScript and TypeScript."""

import shutil
import subprocess
from pathlib import Path

import pytest

from haltline.cli.frameworks.table import FRAMEWORKS
from tests.builders import cases
from tests.cli.initializing import init

pytestmark = pytest.mark.usefixtures("folder")

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
            "expected a call of generateText, streamText, imported",
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
        "a class of agents": (
            "vercel-ai",
            'import { ToolLoopAgent } from "ai";\nnew ToolLoopAgent({});\n',
            "expected no ToolLoopAgent",
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
