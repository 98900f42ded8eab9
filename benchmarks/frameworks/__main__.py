"""`python -m benchmarks.frameworks`: the cost of a guarded call in each framework, compared with an unguarded one.

The agents and scripted models are those of the conformance tests, each with its real library in its environment
(`make environments`), with and without their adapter in turns. The guard is in mode `async` and publishes to a broker
in another process; the calls only read, so none waits for a verdict. JavaScript frameworks get verdicts from an intake
in another process (`clients/typescript/benchmarks/overhead.mjs`).
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console

from benchmarks import command
from benchmarks.frameworks.calls import FEW, MANY, MANY_OF
from benchmarks.reporting.machine import machine
from benchmarks.reporting.table import Table
from haltline.cli.frameworks import FRAMEWORKS
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.clients.typescript import is_built
from tests.conformance.environments import PACKAGES, drivers, is_made, python_of
from tests.locks import ROOT

COMMITTED: Final = ROOT / "benchmarks" / "results" / "frameworks.json"
LEFT_OUT: Final = {
    "mcp": "its proxy is a process of its own, so there is no call of a framework beside it",
}
"""Drivers that cannot be measured, with the reason."""
_WIDTH: Final = 160
_COLUMNS: Final = (
    "framework",
    "unguarded call, CPU",
    "guarded call, CPU",
    "overhead, CPU",
    "ratio, CPU",
    "unguarded call, wall time",
    "guarded call, wall time",
)


def measurable() -> list[str]:
    """The drivers of frameworks whose agent exists without an adapter, too."""
    in_python = {row.name for row in FRAMEWORKS.values() if row.language == "python"}
    names = [name for name, adapter in drivers().items() if adapter in in_python and name not in LEFT_OUT]
    return [*names, *in_javascript()]


def in_javascript() -> list[str]:
    """The drivers of frameworks in JavaScript, which one process of Node measures."""
    return [name for name, adapter in drivers().items() if adapter in PACKAGES]


def _measured_in_node(names: Sequence[str], bootstrap: str) -> list[dict[str, Any]]:
    """Measure one of them. Raises CalledProcessError if Node or the intake fails."""
    intake = [
        sys.executable,
        "-m",
        "haltline.cli",
        "intake",
        "--bootstrap",
        bootstrap,
        "--port",
        "0",
        "--mode",
        "async",
    ]
    with subprocess.Popen(intake, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            command = ["node", "benchmarks/overhead.mjs", process.stdout.readline().strip()]
            done = subprocess.run(command, cwd=PACKAGES["typescript"], stdout=subprocess.PIPE, check=True)
        finally:
            process.terminate()
    found = [orjson.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    return [one for one in found if one["driver"] in names]


def measure(names: Sequence[str], seconds: float, console: Console) -> dict[str, Any]:
    """Measure each framework in turn; for one that cannot be measured, the reason."""
    found: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="haltline-bench-") as home, EmbeddedBroker() as broker:
        broker.ensure_topics(Topics())
        javascript = [name for name in names if name in in_javascript()]
        for name in [name for name in names if name not in javascript]:
            adapter = drivers()[name]
            if not is_made(adapter):
                left_out[name] = f"no .venvs/{adapter}: make environments"
                continue
            command = [str(python_of(adapter)), "-m", "benchmarks.frameworks.calls", name, broker.bootstrap]
            environ = os.environ | {"HOME": home, "PYTHONWARNINGS": "ignore", "CREWAI_DISABLE_TELEMETRY": "true"}
            done = subprocess.run(
                [*command, str(seconds)], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
            )
            if done.returncode:
                left_out[name] = done.stderr.strip().splitlines()[-1]
            else:
                found.append(orjson.loads(done.stdout.splitlines()[-1]))
            console.print(f"{name}: {left_out.get(name, 'measured')}", highlight=False)
        if javascript and is_built():
            found += _measured_in_node(javascript, broker.bootstrap)
        elif javascript:
            left_out |= dict.fromkeys(javascript, "no build of clients/typescript: make typescript")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "calls": {"few": FEW, "many": MANY} | MANY_OF,
        "frameworks": found,
        "left_out": left_out,
        "load": os.getloadavg()[0],
        "machine": machine(),
    }


def rows(document: dict[str, Any]) -> list[list[str]]:
    """One row for each framework."""
    lines = []
    for one in document["frameworks"]:
        plain, guarded = one["plain_cpu_us"], one["guarded_cpu_us"]
        times = f"{guarded / plain:.2f} times" if plain > 0 else "-"
        clock = [f"{one[f'{way}_wall_us']:,.0f} us" for way in ("plain", "guarded")]
        cpu = [f"{us:,.0f} us" for us in (plain, guarded, guarded - plain)]
        lines.append([one["driver"], *cpu, times, *clock])
    return lines


def markdown(document: dict[str, Any]) -> str:
    """The page's table, with what it was measured on."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "| --- " * len(_COLUMNS) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows(document)]
    on = document["machine"]
    note = f"Measured {document['date'][:10]} on {on['cpu']}, {on['cores']} cores, load average {document['load']:.1f}."
    return "\n".join([*lines, "", note]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 when a framework could not be measured."""
    names = measurable()
    parser = command.options(
        "benchmarks.frameworks",
        __doc__,
        "example: python -m benchmarks.frameworks --only pydantic_ai,dspy --seconds 10",
    )
    parser.add_argument("--only", default=",".join(names), help="the frameworks to measure (%(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each (%(default)s)")
    parser.add_argument(
        "--json", type=Path, default=Path("build/frameworks.json"), metavar="FILE", help="(%(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="keep the results, which the documentation site shows")
    args = parser.parse_args(arguments)
    if unknown := set(args.only.split(",")) - set(names):
        parser.error(f"--only: expected some of {', '.join(names)}, got {', '.join(sorted(unknown))}")
    document = measure(args.only.split(","), args.seconds, Console(stderr=True))
    for file in [args.json, *([COMMITTED] if args.write else [])]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    left = [f"{name}: {why}" for name, why in document["left_out"].items()]
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    Table("A call in each framework, and the same call guarded", list(_COLUMNS), rows(document), left).show(console)
    return 1 if document["left_out"] else 0


if __name__ == "__main__":
    command.run(main)
