"""What the drivers of frameworks in JavaScript share: a Node as long as the driver lives, and the real intake.

The session that the intake is asked about is the guard of the case. Node runs the framework with the adapter of
`clients/typescript`, whose build `make typescript` makes; its tools are the harness's, called back line by line.
"""

import contextlib
import functools
import json
import subprocess
from dataclasses import asdict
from typing import Any, Final

from haltline.interventions.agent import Guard
from tests.builders import some
from tests.conformance.drivers._intakes import Intakes
from tests.conformance.environments import PACKAGES
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOL, Run, Script

PACKAGE: Final = PACKAGES["typescript"]


@functools.cache
def intakes() -> Intakes:
    return Intakes()


class Node:
    """One program of clients/typescript/conformance."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._runs = 0
        self._process: subprocess.Popen[str] | None = None

    def run(self, guard: Guard, script: Script, *, is_async: bool) -> Run:
        self._runs += 1
        session_id = f"{self._name}-{self._runs}"
        intakes().guards[session_id] = guard
        asked = {
            "url": intakes().url,
            "sessionId": session_id,
            "effects": EFFECTS,
            "stream": is_async,
            "script": [[asdict(call) for call in turn] for turn in script],
            "input": INPUT,
            "cached": CACHED,
            "output": OUTPUT,
            "end": END,
        }
        try:
            return self._ended(asked)
        except BaseException:  # such as the case's alarm: what the process does by now is not known
            self._stop()
            raise

    def _ended(self, asked: dict[str, Any]) -> Run:
        process = self._started()
        self._say(process, asked)
        for line in some(process.stdout):
            message = json.loads(line)
            if "call" not in message:
                return Run(**message)
            self._say(process, {"answer": message["call"], **done(message["name"], message["args"])})
        raise RuntimeError(f"{self._name}: expected the end of a run, got the end of the process")

    def _say(self, process: subprocess.Popen[str], message: dict[str, Any]) -> None:
        stdin = some(process.stdin)
        stdin.write(json.dumps(message) + "\n")
        stdin.flush()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = ["node", f"conformance/{self._name}.mjs"]  # it ends with its stdin
            self._process = subprocess.Popen(
                command, cwd=PACKAGE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self._process = None


def done(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool's call."""
    try:
        return {"result": TOOL[name](**args)}
    except Exception as error:
        return {"error": str(error)}
