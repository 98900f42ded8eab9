"""Histories in, sessions with what was wasted out: several files at once, and each file once."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from haltline.schemas.policy import Policy
from haltline.streams.scan.results import Known, ScannedFile

_SMALL_BYTES = 4 * 2**20
"""So little in all is read in this process: another one takes a second to start."""


def scan(
    files: Iterable[tuple[str, Path]],
    policy: Policy,
    known: Known,
    *,
    processes: int | None = None,
    step: Callable[[int], object] = lambda _: None,
) -> Iterator[ScannedFile]:
    """What is in each file, which comes with its agent's name ("": as the content says), in any order.

    Files that have not changed since they are in `known` are not read again. `step` is called with the bytes of each.
    """
    to_read: list[tuple[int, str, Path]] = []
    for agent, path in files:
        try:
            found, size = known.of(path), path.stat().st_size
        except OSError as error:
            yield ScannedFile(str(path), skipped=[f"{path}: {error.strerror or error}"], is_recording=False)
            continue
        if found is not None:
            step(size)
            yield found
        else:
            to_read.append((size, agent, path))
    to_read.sort(key=lambda one: -one[0])  # the largest first, or it is waited for at the end
    workers = min(processes or os.cpu_count() or 1, len(to_read))
    if workers <= 1 or sum(size for size, _, _ in to_read) < _SMALL_BYTES:
        for size, agent, path in to_read:
            yield known.add(_read(agent, path, policy))
            step(size)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = pool.map(_read, *zip(*((a, p, policy) for _, a, p in to_read), strict=True), chunksize=1)
        for (size, _, _), one in zip(to_read, jobs, strict=True):
            yield known.add(one)
            step(size)


def _read(agent: str, path: Path, policy: Policy) -> ScannedFile:
    from haltline.streams.scan.files import read_file  # noqa: PLC0415  # loads every rule

    return read_file(agent, path, policy)
