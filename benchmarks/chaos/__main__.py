"""`python -m benchmarks.chaos`: kill, freeze and restart all processes under load, and compare the results.

A seed determines each fault, its process and its time, but not the timing of processes. Exit 0 only if no run differs
from the results of the pure core for the same events.
"""

import argparse
import gc
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from benchmarks import command
from benchmarks.chaos import poison
from benchmarks.chaos.run import Run, Settings
from benchmarks.chaos.series import Result, every_difference, seeds_of, shown_in_full, summary
from benchmarks.chaos.system import System
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.kafka_jars import fetch, missing_tools
from haltline.streams.local.subprocesses import Children, interruptible

_SHORT_S = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code: 0 when nothing differs in any run, else 1."""
    args = options(arguments)
    if missing := missing_tools():
        print(f"chaos: expected {' and '.join(missing)}; got no such command on PATH", file=sys.stderr)
        return 1
    results: list[Result] = []
    with interruptible():
        for seed in args.seeds:
            settings = Settings(
                seed=seed,
                seconds=args.seconds,
                once=args.once,
                workers=args.workers,
                rate=args.rate,
                sessions=args.sessions,
            )
            results.append(_one(settings, number=len(results) + 1, of=len(args.seeds)))
            gc.collect()  # otherwise clients of the stopped broker would keep connecting
    print("", *summary(results), sep="\n", flush=True)
    return 0 if all(result.ok for result in results) else 1


def _one(settings: Settings, *, number: int, of: int) -> Result:
    """Run one run from the broker's start to the verdict. Its events are printed when it is the only run."""
    folder = Path(tempfile.mkdtemp(prefix="haltline-chaos-"))
    lasts = "four waves" if settings.once else f"{settings.seconds:g} s"
    counted = f"{number} of {of}: " if of > 1 else ""
    print(
        f"{counted}seed {settings.seed}, {settings.workers} workers, {settings.rate} events/s, {lasts}: {folder}",
        flush=True,
    )
    result = Result(seed=settings.seed, lasts=lasts, took_s=0.0, error="it was interrupted", kept=str(folder))
    try:
        with (folder / "story.txt").open("w", buffering=1) as story:
            result = _conducted(settings, folder, lasts, _teller(story, shown=of == 1))
    finally:
        if result.ok:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            (folder / "differences.txt").write_text("\n".join(every_difference(result)) + "\n")
    print(f"{counted}{result.verdict}" if of > 1 else "", flush=True)
    if of == 1 or not result.ok:
        print(*shown_in_full(result), sep="\n", flush=True)
    return result


def _conducted(settings: Settings, folder: Path, lasts: str, tell: Callable[[str], None]) -> Result:
    began = time.monotonic()
    compared, error = [], ""
    try:
        children = Children(folder / "logs", env=poison.install(folder / "site"))
        with LocalKafka(folder / "kafka", jars=fetch()) as kafka, children:
            system = System(kafka, children, folder, seed=settings.seed, workers=settings.workers, tell=tell)
            compared = Run(system, settings).all()
    except Exception as failure:  # the next seed runs anyway
        error = f"{type(failure).__name__}: {failure}"
        tell(error)
    took_s = time.monotonic() - began
    return Result(seed=settings.seed, lasts=lasts, took_s=took_s, checks=compared, error=error, kept=str(folder))


def _teller(story: TextIO, *, shown: bool) -> Callable[[str], None]:
    def tell(line: str) -> None:
        print(line, file=story)
        if shown:
            print(line, flush=True)

    return tell


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments; `seeds` has one per run, in order. Exits the process at an invalid argument."""
    parser = command.options("benchmarks.chaos", __doc__, "--seed 9722 --runs 10 --seconds 300")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_seconds, default=300.0, help="how long the load runs (%(default)s)")
    length.add_argument(
        "--short", action="store_const", const=_SHORT_S, dest="seconds", help=f"{_SHORT_S:g} s: every fault once"
    )
    length.add_argument("--once", action="store_true", help="four waves, each as soon as all processes are back")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seed", type=lambda text: [int(text)], dest="seeds", metavar="SEED", help="seed of the first run (random)"
    )
    seeds.add_argument("--seeds", type=_seeds, metavar="SEED,SEED", help="seeds of the first runs, in this order")
    parser.add_argument("--runs", type=_at_least_one, help="number of runs, with increasing seeds (one for each seed)")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=int, default=300, help="events per second (%(default)s)")
    parser.add_argument("--sessions", type=int, default=200)
    args = parser.parse_args(arguments)
    args.seeds = seeds_of(args.seeds or [random.SystemRandom().randrange(10_000)], args.runs)
    return args


def _seeds(text: str) -> list[int]:
    return [int(seed) for seed in text.split(",")]


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def _seconds(text: str) -> float:
    if not (seconds := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"expected more than 0 s, got {text}")
    return seconds


if __name__ == "__main__":
    command.run(main)
