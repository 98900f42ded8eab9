"""`python -m benchmarks.service`: what a call costs by the ways of the agent's side, each in turn.

In process with a local guard, over the local service's socket, and over its HTTP. Milliseconds from before the call to
its verdict, and from its result to the end of the report.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import command
from haltline.interventions.agent import Guard
from haltline.interventions.agent.frame.session import Allowed, FrameworkSession
from haltline.interventions.agent.service.client import Connection, ServiceSession

_OWN = {"HALTLINE_MODE": "local", "HALTLINE_AGENT_ID": "bench"}


class _OverHttp:
    """A session over HTTP, as a program in another language asks."""

    def __init__(self, kept: dict[str, str]) -> None:
        self._url = kept["url"]
        self._headers = {"Authorization": f"Bearer {kept['key']}", "Content-Type": "application/json"}
        self._token = self._ask("begin", agent_id="bench")["token"]

    def before(self, call_id: str, name: str, args: Any) -> str:
        return str(self._ask("propose", token=self._token, call_id=call_id, action=name, args=args)["answer"])

    def after(self, call_id: str, output: str) -> None:
        self._ask("end", token=self._token, call_id=call_id, output=output)

    def _ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        asked = urllib.request.Request(f"{self._url}/v2/{verb}", json.dumps(fields).encode(), self._headers)
        with urllib.request.urlopen(asked) as answer:
            return dict(json.load(answer))


def measure(calls: int) -> dict[str, tuple[float, float, float]]:
    """Return, by way, the median of asking, that of reporting, and the 99th percentile of asking."""
    with tempfile.TemporaryDirectory(prefix="hl") as folder:
        environ = os.environ | _OWN | {"HALTLINE_RUN_DIR": folder, "HOME": folder, "XDG_STATE_HOME": folder}
        program = [sys.executable, "-m", "haltline.cli", "agent", "--http", "0"]
        with subprocess.Popen(program, env=environ, stdout=subprocess.PIPE, text=True) as service:
            try:
                path = Path([(service.stdout.readline() if service.stdout else "").strip() for _ in range(2)][1])
                over_socket = ServiceSession(lambda on_order: Connection(path, on_order), {"agent_id": "bench"})
                ways: dict[str, Any] = {
                    "in process": FrameworkSession(Guard(mode="local", agent_id="bench")),
                    "socket": over_socket,
                    "HTTP": _OverHttp(json.loads(path.with_suffix(".http").read_text())),
                }
                took = {name: [_call(way, number) for number in range(-20, calls)][20:] for name, way in ways.items()}
                over_socket.end()
            finally:
                service.terminate()
    return {name: _summary(times) for name, times in took.items()}


def _call(way: FrameworkSession | ServiceSession | _OverHttp, number: int) -> tuple[float, float]:
    began = time.perf_counter()
    verdict = way.before(f"c{number}", "read_file", {"path": f"src/m{number}.py"})
    asked = time.perf_counter()
    way.after(verdict.call_id if isinstance(verdict, Allowed) else f"c{number}", f"text of {number} " * 20)
    return (asked - began) * 1000, (time.perf_counter() - asked) * 1000


def _summary(times: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    asked, reported = zip(*times, strict=True)
    return median(asked), median(reported), sorted(asked)[len(asked) * 99 // 100]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = command.options("benchmarks.service", __doc__, "--calls 1000")
    parser.add_argument("--calls", type=int, default=400, help="by each way (%(default)s)")
    args = parser.parse_args(arguments)
    for name, (asked, reported, slow) in measure(args.calls).items():
        print(f"{name}: asked {asked:.2f} ms (99th percentile {slow:.2f}), reported {reported:.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
