"""A function applied to many tasks, in one process or several."""

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

Task = TypeVar("Task")
Done = TypeVar("Done")

_work: Callable[[Any], Any]
"""The function of a worker process."""


def run(work: Callable[[Task], Done], tasks: Sequence[Task], *, jobs: int, what: str, console: Console) -> list[Done]:
    """Return the results of `work` in order of the tasks. With several jobs, all must be picklable."""
    hidden = not console.is_terminal
    if jobs == 1:
        return [work(task) for task in track(tasks, what, console=console, disable=hidden)]
    with multiprocessing.Pool(jobs, _begin, (work,)) as pool:
        done = pool.imap(_do, tasks, chunksize=8)
        return list(track(done, what, total=len(tasks), console=console, disable=hidden))


def _begin(work: Callable[[Any], Any]) -> None:
    global _work  # noqa: PLW0603 - sent once to each process, instead of with each task
    _work = work


def _do(task: Any) -> Any:
    return _work(task)
