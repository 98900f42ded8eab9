"""One framework, in its own environment: `python -m benchmarks.frameworks.calls DRIVER BOOTSTRAP SECONDS`.

Short and long runs, unguarded and guarded, in turns. Their difference is the cost of a call with its model turn,
without the start and the end of a run. Prints one line of JSON.
"""

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.frameworks.plain import plain_driver
from haltline.interventions.agent import Guard
from tests.conformance import harness
from tests.conformance.harness import Call, numbered

FEW, MANY = 3, 15
"""Calls of a run; some drivers end a run after 20 turns."""
MANY_OF: Final = {"claude_agent_sdk": 63}
"""Its runs start and end a process that takes seconds, so that few calls could not be measured beside it."""
MIN_ROUNDS: Final = 3
"""The minimum number of rounds; without a given time there is one, as a trial."""
_run_number = 0


def script(calls: int) -> list[list[Call]]:
    """A call in each turn: of a tool that only reads, with new arguments each time."""
    global _run_number  # noqa: PLW0603 - a detector would answer repetition with hints
    _run_number += 1
    return [[Call("get_asset", {"asset_id": f"table_{_run_number}_{number}"})] for number in range(calls)]


def measured(run: Callable[[list[list[Call]]], Any], calls: int) -> tuple[float, float]:
    """Wall and CPU seconds of one run, including child processes that have ended."""
    harness.ran.clear()
    turns = numbered(script(calls))
    cpu, wall = _cpu_s(), time.perf_counter()
    seen = run(turns)
    cpu, wall = _cpu_s() - cpu, time.perf_counter() - wall
    if seen.stopped or len(harness.ran) != calls:
        raise RuntimeError(f"expected {calls} calls, got {len(harness.ran)}: {seen.stopped}")
    return wall, cpu


def _cpu_s() -> float:
    of = (resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in of)


def measure(driver: str, bootstrap: str, seconds: float) -> dict[str, Any]:
    """Microseconds of each call: the medians of all rounds."""
    real: Any = importlib.import_module(f"tests.conformance.drivers.{driver}")
    plain: Any = plain_driver(Path(real.__file__))
    is_async = not real.SYNC
    with Guard(agent_id=f"bench-{driver}", bootstrap=bootstrap, mode="async") as guard:
        ways: dict[str, Callable[[list[list[Call]]], Any]] = {
            "plain": lambda turns: plain.run(None, turns, is_async=is_async),
            "guarded": lambda turns: real.run(guard, turns, is_async=is_async),
        }
        for way in ways.values():  # loads modules and connects
            measured(way, FEW)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        until = time.monotonic() + seconds
        rounds, many = MIN_ROUNDS if seconds else 1, MANY_OF.get(driver, MANY)
        while len(found["plain"]) < rounds or time.monotonic() < until:
            order = list(ways.items())
            for name, way in order if len(found["plain"]) % 2 else order[::-1]:
                (few_s, few_cpu_s), (many_s, many_cpu_s) = measured(way, FEW), measured(way, many)
                calls = many - FEW
                found[name].append(((many_s - few_s) / calls * 1e6, (many_cpu_s - few_cpu_s) / calls * 1e6))
        if guard.dropped:
            raise RuntimeError(f"expected every record at the broker, got {guard.dropped} dropped")
    return {
        "driver": driver,
        "rounds": len(found["plain"]),
        **{
            f"{name}_{what}_us": median(one[index] for one in of_way)
            for name, of_way in found.items()
            for index, what in enumerate(("wall", "cpu"))
        },
    }


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr  # output of a framework is not the result
    print(json.dumps(measure(sys.argv[1], sys.argv[2], float(sys.argv[3]))), file=out)
