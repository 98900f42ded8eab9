"""`python -m benchmarks.simulator`: histories of haltline under faults, each from its seed, on all cores.

A history that fails prints its seed, the steps of its plan without which it does not fail, and what differs.
`--seed N --histories 1 --trace` prints each step of one; the same seed gives the same bytes.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

# Sets are iterated in the order of their hashes, which has to be the same in each process.
if __name__ == "__main__" and os.environ.get("PYTHONHASHSEED") != "0":
    os.execve(
        sys.executable,
        [sys.executable, "-m", "benchmarks.simulator", *sys.argv[1:]],
        {**os.environ, "PYTHONHASHSEED": "0"},
    )

from benchmarks import command
from benchmarks.simulator.mistakes import ALL, BY_NAME, make
from benchmarks.simulator.outcome import Outcome
from benchmarks.simulator.parallel import quiet, results
from benchmarks.simulator.runs import run

_AT_MOST: Final = 400
"""The number of histories within which a mistake has to be found."""
_SHOWN: Final = 8


def simulate(first: int, histories: int, processes: int, fault: str = "") -> int:
    """Run histories and print the results. Return the number that failed."""
    began, done, cpu_s, wrong = time.monotonic(), 0, 0.0, 0
    for result in results(first, histories, processes, fault, whole=not fault):
        done += result.histories
        cpu_s += result.cpu_s
        for outcome in result.failed:
            wrong += 1
            show(outcome)
        if fault and wrong:
            break
    seconds = time.monotonic() - began
    print(
        f"{done:,} histories from seed {first} on in {seconds:,.0f} s, {cpu_s / max(done, 1) * 1000:.0f} ms of a core "
        f"each: {wrong} failed."
    )
    return wrong


def show(outcome: Outcome) -> None:
    """Print a failed history: its seed, steps and differences."""
    print(f"seed {outcome.seed}: WRONG with these {len(outcome.plan)} steps:")
    for step in outcome.plan:
        print(f"    {step}")
    for difference in outcome.differences[:_SHOWN]:
        print(f"  {difference:.500}")
    if len(outcome.differences) > _SHOWN:
        print(f"  and {len(outcome.differences) - _SHOWN} differences more")
    print(f"  processes ended: {'; '.join(outcome.ends)[:600]}", flush=True)


def found_after(fault: str, first: int, processes: int) -> tuple[int, Outcome | None]:
    """Return the number of histories until a mistake is found, and that history; None when it is not found."""
    done = 0
    for result in results(first, _AT_MOST, processes, fault, whole=False):
        if result.failed:
            return done + result.histories, result.failed[0]
        done += result.histories
    return done, None


def table(first: int, processes: int) -> int:
    """Print after how many histories each mistake is found, as Markdown. Return the number of those not found."""
    print("| mistake | found after | steps | what differs |\n| --- | ---: | ---: | --- |")
    missed = 0
    for mistake in ALL:
        count, outcome = found_after(mistake.name, first, processes)
        missed += outcome is None
        found = f"not in {count:,} | | "
        if outcome is not None:
            difference = outcome.differences[0].partition(":")[0].partition("(")[0].strip()
            found = f"{count:,} | {len(outcome.plan)} | {difference:.80}"
        print(f"| {mistake.what} | {found} |", flush=True)
    return missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code: 1 when a history failed or a mistake was not found."""
    options = _options().parse_args(arguments)
    processes = options.processes or os.cpu_count() or 1
    if options.table:
        return int(table(options.seed, processes) > 0)
    if options.trace:
        quiet()
        if options.fault:
            make(options.fault)
        outcome = run(options.seed, tell=print)
        if not outcome.ok:
            show(outcome)
        return int(not outcome.ok)
    if options.fault:
        count, found = found_after(options.fault, options.seed, processes)
        if found is None:
            print(f"{options.fault}: not found in {count:,} histories")
            return 1
        print(f"{options.fault}: found after {count:,} histories")
        show(found)
        return 0
    return int(simulate(options.seed, options.histories, processes) > 0)


def _options() -> argparse.ArgumentParser:
    parser = command.options("benchmarks.simulator", __doc__, "--seed 7 --histories 20")
    parser.epilog = f"mistakes for --fault: {', '.join(BY_NAME)}"
    parser.add_argument("--seed", type=int, default=1, help="of the first history (%(default)s)")
    parser.add_argument("--histories", type=int, default=1_000, help="how many (%(default)s)")
    parser.add_argument("--processes", type=int, default=0, help="how many at a time (one for each core)")
    parser.add_argument("--trace", action="store_true", help="print each step of the history of --seed")
    parser.add_argument("--fault", choices=[*BY_NAME], default="", metavar="NAME", help="with a mistake in the rules")
    parser.add_argument("--table", action="store_true", help="after how many histories each mistake is found")
    return parser


if __name__ == "__main__":
    sys.exit(main())
