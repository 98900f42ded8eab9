"""A trial: a child process decides records first. A record that ends the process ends the child, not the worker.

The child is a fork, so it has the worker's states, policy and plug-ins, and none of its threads: it sends nothing. What
ends it is the record, or a lock that another thread held at the fork: a record counts as bad only if it also ends a
second child alone. A child that the kernel kills where others left it no memory says nothing about a record, nor does
a worker that is killed, stopped or cut off meanwhile.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from haltline.streams.runtime.changelog import RawRecord

MEMORY_MIB: Final = 256
"""What one record may need of memory. An event has at most 1 MiB, and a state 4 MiB."""
_SPARE_MIB: Final = MEMORY_MIB // 2
"""More than the usual records of a child take. Where a process that takes so much is killed, no record is to blame."""
_AT_ONCE_S: Final = 1.0
"""After this many seconds a child decides no further record, because the worker then needs as long for them."""
_DECIDED: Final = b"."
_REPORT_BYTES: Final = 64 * 1024
_MIB: Final = 1024 * 1024
_PEAK_UNIT: Final = 1 if sys.platform == "darwin" else 1024

log = logging.getLogger(__name__)


class Trial(NamedTuple):
    """The result of a trial."""

    decided: int
    """The number of records that were decided, from the first on."""
    why: str = ""
    """Why the next record was not; empty if it was not tried."""


Try = Callable[[Callable[[RawRecord], object], Sequence[RawRecord], float], Awaitable[Trial]]
"""Makes a trial, as `in_child` does."""


async def in_child(decide: Callable[[RawRecord], object], records: Sequence[RawRecord], limit_s: float) -> Trial:
    """Decide these records in a child process, each within `limit_s` seconds.

    Where there can be no such process, or it is killed for lack of memory, all are returned as decided: none was tried.
    """
    try:
        code, report = await _forked(decide, records, limit_s)
        is_killed_anyway = code == -signal.SIGKILL and (await _forked(_take_memory, records[:1], limit_s))[0] == code
    except OSError as failure:
        log.warning("records are read without a trial: %s", failure)
        return Trial(len(records))
    if is_killed_anyway:
        log.warning("records are read without a trial: a process with %d MiB is killed at once", _SPARE_MIB)
        return Trial(len(records))
    text = report.lstrip(_DECIDED)
    decided = len(report) - len(text)
    return Trial(decided, text.decode(errors="replace") or _end(code, decided, limit_s))


async def _forked(
    decide: Callable[[RawRecord], object], records: Sequence[RawRecord], limit_s: float
) -> tuple[int, bytes]:
    """Return the exit code of a child process, and what it wrote. Raises OSError if there can be none."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if not pid:
            _decide(decide, records, limit_s, writing)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    os.set_blocking(reading, False)  # a process that a plug-in started may keep the other end open
    report = b""
    try:
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        with contextlib.suppress(BlockingIOError):
            report = os.read(reading, _REPORT_BYTES)
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
    return os.waitstatus_to_exitcode(status), report


def _take_memory(_: RawRecord) -> None:
    b"x" * (_SPARE_MIB * _MIB)  # all of it is written


def _end(code: int, decided: int, limit_s: float) -> str:
    if code == -signal.SIGALRM:
        return f"no decision within {limit_s:g} s"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return "" if code == 0 and decided else f"ended with exit status {code}"


def _decide(
    decide: Callable[[RawRecord], object], records: Sequence[RawRecord], limit_s: float, writing: int
) -> NoReturn:
    """Decide, in the child; write a mark for each decided record, then the failure if there is one."""
    try:
        _be_alone(writing)
        limit = _limit_memory()
        until = time.monotonic() + _AT_ONCE_S
        for record in records:
            signal.setitimer(signal.ITIMER_REAL, limit_s)  # also ends the child of a worker that was killed
            decide(record)
            is_large = _peak_bytes() > limit  # a detector's MemoryError does not come up to here
            os.write(writing, f"more than {MEMORY_MIB} MiB of memory".encode() if is_large else _DECIDED)
            if is_large or time.monotonic() > until:
                break
    except BaseException as failure:
        os.write(writing, repr(failure)[:1000].encode(errors="replace"))
    finally:
        os._exit(0)


def _be_alone(writing: int) -> None:
    """Share neither signals nor connections nor ports with the worker, and be the first to end if memory runs out."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, writing)
    os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
    logging.disable()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _limit_memory() -> int:
    """Limit the memory of this process, with some room above what a record may need, and return that, as its peak."""
    with contextlib.suppress(OSError, ValueError):  # no Linux, or a lower limit of the system
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2 * MEMORY_MIB * _MIB, resource.RLIM_INFINITY))
    return _peak_bytes() + MEMORY_MIB * _MIB


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT
