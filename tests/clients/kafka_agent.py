"""A session of the TypeScript client, in a process of its own that does what a test tells it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from tests.clients.kafkajs import require_kafkajs
from tests.clients.typescript import CLIENT, require_built
from tests.interventions.cases import some

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

    def __init__(self, bootstrap: str, **options: Any) -> None:
        environ = os.environ | {"NODE_PATH": str(require_kafkajs())}
        settings = _PATIENT | {"bootstrap": bootstrap, "sessionId": "s1", "agentId": "cleaner"} | options
        self._begin(settings, environ)

    def _begin(self, settings: dict[str, Any], environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [require_built(), str(_PROGRAM), str(CLIENT / "dist"), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            text=True,
        )

    _open = "open"

    @property
    def process(self) -> subprocess.Popen[str]:
        return self._process

    def __call__(self, name: str, *given: Any) -> Any:
        """Raises Raised for what the session threw."""
        self.ask(name, *given)
        return self.answer()

    def ask(self, name: str, *given: Any) -> None:
        stdin = some(self._process.stdin)
        stdin.write(json.dumps([name, *given]) + "\n")
        stdin.flush()

    def answer(self) -> Any:
        line = some(self._process.stdout).readline()
        assert line, "the agent's process has ended"
        answer = json.loads(line)
        if "raised" in answer:
            raise Raised(answer["raised"], answer["code"], answer["reason"])
        return answer["is"]

    def attempts(self, times: int, name: str = "delete_asset", args: Any = None) -> list[str | None]:
        """What came of so many calls: `executed`, or the code of the refusal."""
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
            self._process.kill()  # its session goes on, and so would it
        else:
            self("end")
        self.stop()

    def stop(self) -> None:
        """Waits until the process has ended by itself: there is nothing more to read."""
        some(self._process.stdin).close()
        some(self._process.stdout).close()
        try:
            self._process.wait(timeout=_END_WITHIN_S)
        finally:
            self._process.kill()
            self._process.wait()


class _LocalAgent(Agent):
    _open = "local"

    def __init__(self, **options: Any) -> None:
        command = [sys.executable, "-m", "haltline.cli"]
        self._begin({"command": command, "agentId": "cleaner"} | options, dict(os.environ))


def local_agent(**options: Any) -> Agent:
    """Of `localSession`, without Kafka and its library."""
    return _LocalAgent(**options)
