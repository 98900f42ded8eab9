"""Histories run in several processes by ranges of seeds, with their outcomes in order of the seeds."""

import gc
import logging
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from benchmarks.simulator.mistakes import make
from benchmarks.simulator.outcome import Outcome
from benchmarks.simulator.runs import run, shorten

_AT_ONCE: Final = 10
"""Histories that a process runs before it reports their outcomes."""
_WARM: Final = 4
"""Histories that fill the caches of SQL statements and patterns, once before the processes are forked."""


class Batch(NamedTuple):
    """A range of seeds for one process."""

    first: int
    histories: int
    fault: str
    whole: bool
    """Continue after a failed history."""


class Result(NamedTuple):
    """The result of a batch: histories run, CPU seconds, and the failed outcomes."""

    histories: int
    cpu_s: float
    failed: tuple[Outcome, ...]


def work(batch: Batch) -> Result:
    """Run a batch; the plan of each failed history is shortened."""
    began = time.process_time()
    gc.collect()
    failed: list[Outcome] = []
    done = 0
    for seed in range(batch.first, batch.first + batch.histories):
        outcome = run(seed)
        done += 1
        if not outcome.ok:
            failed.append(shorten(outcome))
            if not batch.whole:
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
    """Yield the results of all batches in order of their seeds."""
    batches = [
        Batch(seed, min(_AT_ONCE, first + histories - seed), fault, whole)
        for seed in range(first, first + histories, _AT_ONCE)
    ]
    warm_up()
    with multiprocessing.get_context("fork").Pool(processes, prepare, (fault,)) as pool:
        yield from pool.imap(work, batches)
