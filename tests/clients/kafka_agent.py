"""A session of the TypeScript client, in a process of its own that does what a test tells it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from tests.builders import some
from tests.clients.kafkajs import require_kafkajs
from tests.clients.typescript import CLIENT, require_built

_PROGRAM: Final = Path(__file__).with_name("kafka_agent.mjs")
_END_WITHIN_S: Final = 60
_PATIENT: Final = {"budgetS": 20, "startBudgetS": 20, "fetchWaitMs": 10}  # a busy machine is no silent worker


class Raised(Exception):
    def __init__(self, name: str, code: str | None, reason: str) -> None:
        super().__init__(f"{name}: {code}: {reason}")
        self.code = code
        self.reason = reason


class Agent:
    """`with Agent(bootstrap, sessionId="s1", mode="blocking") as agent: agent("call", "delete_asset", {...})`."""

    def __init__(self, bootstrap: str | None, **options: Any) -> None:
        """`bootstrap` None: of `localSession`, without Kafka and its library."""
        environ, settings = dict(os.environ), {"agentId": "cleaner"} | options
        if bootstrap is None:
            settings = {"command": [sys.executable, "-m", "haltline.cli"]} | settings
        else:
            environ["NODE_PATH"] = str(require_kafkajs())
            settings = _PATIENT | {"bootstrap": bootstrap, "sessionId": "s1"} | settings
        self._open = "local" if bootstrap is None else "open"
        command = [require_built(), str(_PROGRAM), str(CLIENT / "dist"), json.dumps(settings)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ, text=True)

    def __call__(self, name: str, *given: Any) -> Any:
        """Raises Raised for what the session threw."""
        self.ask(name, *given)
        return self.answer()

    def ask(self, name: str, *given: Any) -> None:
        stdin = some(self.process.stdin)
        stdin.write(json.dumps([name, *given]) + "\n")
        stdin.flush()

    def answer(self) -> Any:
        line = some(self.process.stdout).readline()
        assert line, "the agent's process has ended"
        answer = json.loads(line)
        if "raised" in answer:
            raise Raised(answer["raised"], answer["code"], answer["reason"])
        return answer["is"]

    def attempts(self, times: int, name: str = "delete_asset", args: Any = None) -> list[str | None]:
        """The results of this many calls: `executed`, or the code of the refusal."""
        actual: list[str | None] = []
        for _ in range(times):
            try:
                actual.append(self("call", name, args or {"asset_id": "fact_sales"}))
            except Raised as raised:
                actual.append(raised.code)
        return actual

    def __enter__(self) -> Self:
        self(self._open)
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
