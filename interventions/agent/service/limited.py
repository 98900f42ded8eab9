"""A limit on the processor time that one call takes of the local service, whose loop all sessions share.

A text can take minutes to read. Threads would not help, as regular expressions do not let others run meanwhile. So the
step of the loop that reads it is interrupted: its call counts as one that could not be judged in time.
"""

import contextlib
import signal
import threading
from collections.abc import Awaitable, Coroutine, Generator, Iterator
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

LIMIT_S: Final = 3.0
"""Seconds of processor time; a first call takes one, others little. A hook waits for 8 s, and its agent for 60."""
_T = TypeVar("_T")


class Overdue(BaseException):
    """A step took too long. No Exception, because that would count as a failure of the detector that was running."""


class Limited(Awaitable[_T]):
    """A coroutine each of whose steps raises Overdue at the limit; waiting does not count.

    In other threads than the main one nothing is limited.
    """

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, _T]:
        """Run the coroutine, step by step."""
        step = partial(self._work.send, None)
        while True:
            try:
                with in_time():
                    waits_for = step()
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]  # of the coroutine
            try:
                yield waits_for
            except BaseException as error:  # including a cancellation
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, None)


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Raise Overdue in a block that takes more processor time than the limit."""
    if threading.current_thread() is not threading.main_thread():  # signals arrive there alone
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        raise Overdue(f"it could not be read within {LIMIT_S:g} s")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
