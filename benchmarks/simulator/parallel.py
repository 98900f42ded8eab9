"""Histories run in several processes by ranges of seeds, with their outcomes in order of the seeds."""

import gc
import logging
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache, partial
from typing import Final, NamedTuple

from benchmarks.simulator.mistakes import make
from benchmarks.simulator.outcome import Outcome
from benchmarks.simulator.runs import run, shorten

_AT_ONCE: Final = 10
"""Histories that a process runs before it reports their outcomes."""
_WARM: Final = 4
"""Histories that fill the caches of SQL statements and patterns, once before the processes are forked."""


class Result(NamedTuple):
    """The result of a range of seeds: histories run, CPU seconds, and the failed outcomes."""

    histories: int
    cpu_s: float
    failed: tuple[Outcome, ...]


def work(seeds: range, *, whole: bool) -> Result:
    """Run the histories of some seeds, up to the first that fails unless `whole`; a failed plan is shortened."""
    began = time.process_time()
    gc.collect()
    failed: list[Outcome] = []
    done = 0
    for seed in seeds:
        outcome = run(seed)
        done += 1
        if not outcome.ok:
            failed.append(shorten(outcome))
            if not whole:
                break
    return Result(done, time.process_time() - began, tuple(failed))


@cache
def warm_up() -> None:
    """Fill the caches that histories share, once, before the processes are forked."""
    quiet()
    for seed in range(_WARM):
        run(seed)
    gc.collect()


def prepare(fault: str) -> None:
    """Prepare one process of the pool."""
    if fault:
        make(fault)
    gc.freeze()
    gc.disable()


def quiet() -> None:
    """Silence the product's log and warnings about resources that killed processes leave behind."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None


def results(first: int, histories: int, processes: int, fault: str, *, whole: bool) -> Iterator[Result]:
    """Yield the results in order of the seeds."""
    end = first + histories
    ranges = [range(seed, min(seed + _AT_ONCE, end)) for seed in range(first, end, _AT_ONCE)]
    warm_up()
    with multiprocessing.get_context("fork").Pool(processes, prepare, (fault,)) as pool:
        yield from pool.imap(partial(work, whole=whole), ranges)
