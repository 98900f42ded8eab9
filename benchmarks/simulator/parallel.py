"""Histories in several processes: ranges of seeds, their outcomes in order."""

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
"""Histories that a process runs before it says how they ended."""
_WARM: Final = 4
"""Histories that fill the caches of statements and patterns, once for all processes."""


class Batch(NamedTuple):
    """Some seeds in order, for one process."""

    first: int
    histories: int
    fault: str
    whole: bool
    """Goes on behind one that fails."""


class Result(NamedTuple):
    """Of a batch."""

    histories: int
    cpu_s: float
    failed: tuple[Outcome, ...]


def work(batch: Batch) -> Result:
    """Runs a batch; the first that fails is shortened."""
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
    """What histories share is made once, before the processes begin."""
    quiet()
    for seed in range(_WARM):
        run(seed)
    gc.collect()


def prepare(fault: str) -> None:
    """Once in each process."""
    if fault:
        make(fault)
    gc.freeze()
    gc.disable()


def quiet() -> None:
    """The product's log is not what is looked at here, and what a killed process leaves behind is no mistake."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None


def results(first: int, histories: int, processes: int, fault: str, *, whole: bool) -> Iterator[Result]:
    """Of all batches, in order of their seeds."""
    batches = [
        Batch(seed, min(_AT_ONCE, first + histories - seed), fault, whole)
        for seed in range(first, first + histories, _AT_ONCE)
    ]
    warm_up()
    with multiprocessing.get_context("fork").Pool(processes, prepare, (fault,)) as pool:
        yield from pool.imap(work, batches)
