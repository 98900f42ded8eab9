"""Runs a command as a person does: at a terminal of its own, below nothing, and with the code typed that it shows.

As a program (`python -m tests.at_terminal PROGRAM ...`) it leaves the tree of its parent before it starts the command.
"""

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.programs import ended

_ROOT: Final = Path(__file__).resolve().parents[1]
_CODE: Final = re.compile(rb"type (\d+): ")


def at_terminal(*command: str, env: Mapping[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The ended command; its output has all that the terminal showed."""
    path = os.pathsep.join(filter(None, (env.get("PYTHONPATH"), str(_ROOT))))
    return ended(sys.executable, "-m", "tests.at_terminal", *command, env={**env, "PYTHONPATH": path}, cwd=cwd)


def main(command: list[str]) -> int:
    read, write = os.pipe()
    if not os.fork():
        os.setsid()
        above = os.getpid()
        if not os.fork():
            while os.getppid() == above:  # it is below nothing only when that has ended
                time.sleep(0.001)
            code = _typed(command)
            os.write(write, bytes([code]))
        os._exit(0)
    os.close(write)
    return ord(os.read(read, 1) or b"\x7f")


def _typed(command: list[str]) -> int:
    child, terminal = pty.fork()
    if not child:
        os.execvp(command[0], command)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # all that had the terminal have ended
            break
        os.write(1, part)
        shown += part
        if found := _CODE.search(shown):
            os.write(terminal, found[1] + b"\n")
            shown = b""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
