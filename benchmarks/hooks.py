"""`python -m benchmarks.hooks`: processor time of Claude Code's hook and its service, beside Python's start.

An edit's two hooks in turns with a Python that does nothing: with a service that decides here, and with one whose
broker does not answer. Processor time is that of the hook's process, and the service's over all calls.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson

from benchmarks import command
from benchmarks.processes import cpu_s
from haltline.cli.agent.hook_request import place, request_reply
from haltline.cli.agent.hook_settings import command_of

_SERVICE = [sys.executable, "-P", "-m", "haltline.cli.agent.service"]
_NOTHING = [sys.executable, "-I", "-S", "-c", "pass"]
_START_S = 30.0
WAYS: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "decides here": ({"local": True}, {"HALTLINE_MODE": "local"}),
    "no broker answers": ({"bootstrap": "127.0.0.1:1"}, {"HALTLINE_BOOTSTRAP": "127.0.0.1:1"}),
}
"""The options of the hook, and the settings of its service."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Milliseconds of processor time a call, the median; the service's is the mean."""

    calls: int
    hook_ms: float
    service_ms: float
    nothing_ms: float


def measure(edits: int, options: dict[str, object], settings: dict[str, str], folder: Path) -> Cost:
    """Two hooks for each edit."""
    hook = command_of("claude-code", options)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HALTLINE_")}
    environ["HALTLINE_RUN_DIR"] = str(folder)
    socket = place(hook[4:], environ)
    service = subprocess.Popen([*_SERVICE, socket], env=environ | settings, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + _START_S
        while request_reply(socket, "\0ping", b"") is None and time.monotonic() < until_s:
            time.sleep(0.1)
        for text in _hooks(3):
            _cpu_ms(hook, environ, text)
        before_s = cpu_s(service.pid) or 0.0
        took = [(_cpu_ms(hook, environ, text), _cpu_ms(_NOTHING, environ, b"")) for text in _hooks(edits)]
        service_s = (cpu_s(service.pid) or 0.0) - before_s
    finally:
        service.terminate()
        service.wait()
    hooks, nothings = zip(*took, strict=True)
    return Cost(
        calls=len(took),
        hook_ms=median(hooks),
        service_ms=service_s * 1000 / len(took),
        nothing_ms=median(nothings),
    )


def _hooks(edits: int) -> Iterator[bytes]:
    for number in range(edits):
        edit = {"file_path": f"/src/m{number % 7}.py", "old_string": f"return {number}", "new_string": f"{number + 1}"}
        hook = {
            "session_id": "bench",
            "cwd": "/src",
            "tool_name": "Edit",
            "tool_input": edit,
            "tool_use_id": f"t{number}",
        }
        yield orjson.dumps(hook | {"hook_event_name": "PreToolUse"})
        yield orjson.dumps(hook | {"hook_event_name": "PostToolUse", "tool_response": {"edited": number}})


def _cpu_ms(program: Sequence[str], environ: dict[str, str], text: bytes) -> float:
    """The processor time of a process that reads the text. Raises RuntimeError if a hook was not read."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(program, env=environ, input=text, capture_output=True, check=False)
    if done.returncode == 2:
        raise RuntimeError(done.stderr.decode())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = command.options("benchmarks.hooks", __doc__, "--edits 60")
    parser.add_argument("--edits", type=int, default=30, help="two hooks each (%(default)s)")
    args = parser.parse_args(arguments)
    for name, (options, settings) in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="haltline-hooks-") as folder:
            cost = measure(args.edits, options, settings, Path(folder))
        print(
            f"{name}: hook {cost.hook_ms:.1f} ms, service {cost.service_ms:.1f} ms, "
            f"Python that does nothing {cost.nothing_ms:.1f} ms ({cost.calls} calls)"
        )
    return 0


if __name__ == "__main__":
    command.run(main)
