"""The console's database as a remote one: faults of the database or its client strike around a transaction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy import Connection, Engine


class _Database:
    """An engine that calls `around` before and after each transaction, where the thread may end or a failure be raised.

    Never within a transaction: all histories of a process share one connection to SQLite.
    """

    def __init__(self, engine: Engine, around: Callable[[], object]) -> None:
        self._engine = engine
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run a transaction between two calls of `around`."""
        self._around()
        with self._engine.begin() as connection:
            yield connection
        self._around()


def far_away(engine: Engine, around: Callable[[], object]) -> Engine:
    """Return this engine with `around` called before and after each transaction."""
    return cast("Engine", _Database(engine, around))
