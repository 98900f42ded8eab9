"""`python -m benchmarks.overhead`: the cost of a guarded call, compared with an unguarded one and with a peer's.

The same three tools of a coding agent (read, edit, test) in turns: unguarded, with agentsentinel-sdk's
`guarded_action` under a policy that allows them, with a guard in mode `async` over a broker, and in mode `local` with
every default detector that is not in shadow. Each piece of work runs in every way before the next one, and the best
pieces count, since other load only adds time. Both wall time and processor time of the calling thread are measured;
only wall time includes the peer's waits for its disk.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from rich.console import Console

from benchmarks import command
from benchmarks.reporting.machine import machine
from benchmarks.reporting.table import table_of
from haltline.interventions.agent import Guard
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker

BARE, PEER, ASYNC, LOCAL = "bare call", "agentsentinel-sdk", "haltline, async", "haltline, local"
_CALLS_PER_TURN = 3
_PIECE_TURNS = 20
_SESSION_PIECES = 5
"""Pieces of a session, before another one begins."""

Tool = Callable[..., str]
Wrap = Callable[[Tool], Tool]


class _Work:
    """The tools: they do as little as possible, with a new result each time."""

    def __init__(self) -> None:
        self._turns = 0

    def read_file(self, path: str) -> str:
        return f"def f_{path[-6:]}():\n    return {self._turns}\n" * 8

    def edit_file(self, path: str, old: str, new: str) -> str:  # noqa: ARG002 - tools have arguments
        self._turns += 1
        return f"edited {path} {self._turns}"

    def run_tests(self, path: str) -> str:  # noqa: ARG002 - as above
        return f"{self._turns} passed in 0.{self._turns % 97}s"


@dataclass
class Cost:
    """The cost of one way of calling, in microseconds per call: its best piece and its median piece."""

    name: str
    best_us: float
    median_us: float
    cpu_us: float
    """Processor time of the calling thread, in the best piece."""


@dataclass
class Measured:
    """One run."""

    pieces: int
    costs: list[Cost] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        peer = next(cost for cost in self.costs if cost.name == PEER)
        return {
            "pieces": self.pieces,
            "costs": [asdict(cost) | {"times_peer": cost.best_us / peer.best_us} for cost in self.costs],
            "machine": machine(),
        }


def in_turns(pieces: int) -> dict[str, list[tuple[float, float]]]:
    """Run every way in turns, piece by piece; by way, the wall and CPU nanoseconds per call of each piece."""
    with tempfile.TemporaryDirectory(prefix="haltline-bench-") as folder, EmbeddedBroker() as broker:
        broker.ensure_topics(Topics())
        with _peer(Path(folder)) as peer:
            ways: dict[str, Callable[[ExitStack], Wrap]] = {
                BARE: lambda _: lambda tool: tool,
                PEER: lambda _: peer,
                ASYNC: lambda stack: stack.enter_context(Guard(agent_id="bench", bootstrap=broker.bootstrap)).tool,
                LOCAL: lambda stack: stack.enter_context(Guard(agent_id="bench", mode="local")).tool,
            }
            return _in_turns(ways, pieces)


def measure(pieces: int) -> Measured:
    """Measure every way: its best and its median piece."""
    return Measured(
        pieces,
        [
            Cost(
                name,
                best_us=min(wall for wall, _ in of_way) / 1000,
                median_us=median(wall for wall, _ in of_way) / 1000,
                cpu_us=min(cpu for _, cpu in of_way) / 1000,
            )
            for name, of_way in in_turns(pieces).items()
        ],
    )


def _in_turns(ways: dict[str, Callable[[ExitStack], Wrap]], pieces: int) -> dict[str, list[tuple[float, float]]]:
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for first in range(0, pieces, _SESSION_PIECES):
        with ExitStack() as stack:
            tools = {name: _tools(way(stack)) for name, way in ways.items()}
            for calls in tools.values():
                _turns(calls, range(-3, 0))
            for piece in range(first, min(first + _SESSION_PIECES, pieces)):
                for name, calls in tools.items():
                    turns = range(piece * _PIECE_TURNS, (piece + 1) * _PIECE_TURNS)
                    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
                    _turns(calls, turns)
                    cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
                    made = len(turns) * _CALLS_PER_TURN
                    took[name].append((wall / made, cpu / made))
    return took


def _tools(wrap: Wrap) -> tuple[Tool, Tool, Tool]:
    work = _Work()
    return wrap(work.read_file), wrap(work.edit_file), wrap(work.run_tests)


def _turns(tools: tuple[Tool, Tool, Tool], turns: range) -> None:
    read_file, edit_file, run_tests = tools
    for turn in turns:
        path = f"src/pkg{turn % 7}/module_{turn % 60}.py"
        read_file(path=path)
        edit_file(path=path, old=f"return {turn}", new=f"return {turn + 1}")
        run_tests(path=f"tests/test_{turn % 60}.py")


@contextmanager
def _peer(folder: Path) -> Iterator[Wrap]:
    """agentsentinel-sdk as in its documentation: a policy with budgets, prices, and a ledger on disk."""
    from agent_sentinel import PolicyEngine, guarded_action  # noqa: PLC0415 - reads the working directory

    before = Path.cwd()
    os.chdir(folder)
    Path(".agent-sentinel").mkdir()  # for its ledger: it creates this folder only once in a process
    try:
        PolicyEngine.configure(session_budget=1e6, run_budget=1e6)
        yield lambda tool: guarded_action(name=tool.__name__, cost_usd=0.00001)(tool)
    finally:
        os.chdir(before)


def show(measured: Measured, console: Console) -> None:
    """Print the tables."""
    peer = next(cost for cost in measured.costs if cost.name == PEER)
    columns = ["", "us, best", "us, median", "CPU us, best", "of the peer's"]
    table = table_of(f"A guarded call, in {measured.pieces} pieces", columns)
    for cost in measured.costs:
        times = f"{cost.best_us / peer.best_us:.2f} ({cost.cpu_us / peer.cpu_us:.2f} by CPU)"
        table.add_row(cost.name, f"{cost.best_us:.1f}", f"{cost.median_us:.1f}", f"{cost.cpu_us:.1f}", times)
    console.print(table)
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"This process at most {memory_mib:.0f} MiB", highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    args = _options().parse_args(arguments)
    measured = measure(args.pieces)
    if args.json:
        print(orjson.dumps(measured.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        show(measured, Console() if sys.stdout.isatty() else Console(width=120))
    return 0


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.overhead", __doc__, "--pieces 20")
    parser.add_argument(
        "--pieces", type=int, default=100, help=f"pieces of {_PIECE_TURNS * _CALLS_PER_TURN} calls (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    command.run(main)
