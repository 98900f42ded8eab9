"""Runs a module and notes, every millisecond of processor time, where its main thread is.

Costs about a hundredth, and what waits is not counted. A call into C counts for the line
that makes it. `python -m benchmarks.sampler OUT MODULE ARGUMENTS...`; OUT is written when
the module ends in order.
"""

import runpy
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType

import orjson

EVERY_S = 0.001


class Sampler:
    """Counts of stacks: code objects, the innermost first, and the innermost one's line."""

    def __init__(self) -> None:
        self._stacks: Counter[tuple[int, tuple[CodeType, ...]]] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _take(self, _number: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        line, codes = frame.f_lineno or 0, []  # None in what the compiler put in
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        self._stacks[line, tuple(codes)] += 1

    def as_json(self) -> bytes:
        """A list of [count, line, [[file, function], ...]]."""
        return orjson.dumps(
            [
                [count, line, [[code.co_filename, code.co_qualname] for code in codes]]
                for (line, codes), count in self._stacks.items()
            ]
        )


def main(arguments: Sequence[str]) -> None:
    out, module, *rest = arguments
    sys.argv = [module, *rest]
    sampler = Sampler()
    sampler.start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sampler.stop()
        Path(out).write_bytes(sampler.as_json())


if __name__ == "__main__":
    main(sys.argv[1:])
