"""A session of the npm package, in a process of its own that does what a test tells it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from tests.builders import some
from tests.clients.typescript import CLIENT, require_built

_PROGRAM: Final = Path(__file__).with_name("node_agent.mjs")
_END_WITHIN_S: Final = 60


class Raised(Exception):
    """What the session threw: its name, code and reason."""


class Agent:
    """`with Agent(sessionId="s1") as agent: agent("call", "delete_asset", {...})`; options of `localSession`."""

    def __init__(self, **options: Any) -> None:
        settings = {"agentId": "cleaner", "command": [sys.executable, "-m", "haltline.cli"]} | options
        command = [require_built(), str(_PROGRAM), str(CLIENT / "dist"), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, name: str, *given: Any) -> Any:
        """Raises Raised for what the session threw."""
        stdin = some(self.process.stdin)
        stdin.write(json.dumps([name, *given]) + "\n")
        stdin.flush()
        line = some(self.process.stdout).readline()
        assert line, "the agent's process has ended"
        answer = json.loads(line)
        if "raised" in answer:
            raise Raised(answer["raised"], answer["code"], answer["reason"])
        return answer["is"]

    def __enter__(self) -> Self:
        self("open")
        return self

    def __exit__(self, exception_type: object, *_: object) -> None:
        if exception_type is not None:
            self.process.kill()  # its session goes on, and so would it
        else:
            self("end")
        self.stop()

    def stop(self) -> None:
        """Waits until the process has ended by itself: there is nothing more to read."""
        some(self.process.stdin).close()
        some(self.process.stdout).close()
        try:
            self.process.wait(timeout=_END_WITHIN_S)
        finally:
            self.process.kill()
            self.process.wait()
