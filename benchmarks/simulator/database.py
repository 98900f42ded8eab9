"""The console's database, as one far away: what happens to it, or to its reader, happens around a transaction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy import Connection, Engine


class _Database:
    """An engine that calls `around` before each transaction and after it: the thread may end, or the answer be lost.

    Not within one: all histories of a process share one connection to SQLite.
    """

    def __init__(self, engine: Engine, around: Callable[[], object]) -> None:
        self._engine = engine
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction."""
        self._around()
        with self._engine.begin() as connection:
            yield connection
        self._around()


def far_away(engine: Engine, around: Callable[[], object]) -> Engine:
    """This engine, with that called around its transactions."""
    return cast("Engine", _Database(engine, around))
