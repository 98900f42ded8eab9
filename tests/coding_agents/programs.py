"""Coding agents in .tools/coding-agents, whose hooks are tested with the programs themselves.

`python -m tests.coding_agents.programs` (`make coding-agents`) installs what locks/coding-agents names, unless it is
there: 1.3 GB. No install script runs; of the agents that are binaries, the package of this system has it.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.programs import missing

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".tools/coding-agents"
LOCK: Final = ROOT / "locks/coding-agents"
_SYSTEM: Final = f"{sys.platform}-{'x64' if platform.machine() == 'x86_64' else platform.machine()}"
_CODEX: Final = "vendor/*/bin/codex"
PROGRAMS: Final = {
    "claude-code": f"claude-code-{_SYSTEM}/claude",
    "claude-code of May 2026": f"claude-code-2026-05-{_SYSTEM}/claude",
    "codex": f"codex-{_SYSTEM}/{_CODEX}",
    "gemini-cli": ".bin/gemini",
    "opencode": f"opencode-{_SYSTEM}/bin/opencode",
}


def require(agent: str) -> Path:
    """The program of an agent."""
    found = next((FOLDER / "node_modules").glob(PROGRAMS[agent]), None)
    if found is None or not _is_made():
        missing(f"expected {agent} in .tools/coding-agents, got none for {_SYSTEM}; make coding-agents (npm)")
    return found


def _is_made() -> bool:
    stamp = FOLDER / ".made-for"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == _stamp()


def _stamp() -> str:
    return f"{hashlib.sha256((LOCK / 'package-lock.json').read_bytes()).hexdigest()}\n"


def main() -> int:
    if _is_made():
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file in LOCK.glob("package*.json"):
        shutil.copy(file, FOLDER)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    try:
        subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"coding agents: {error}; the tests that run them are skipped", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    (FOLDER / ".made-for").write_text(_stamp(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
