"""Who cares for the table may be interrupted anywhere: nothing looks tampered with, and doing it again completes it."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.table import TableOptimizer

from haltline.streams.audit import maintenance as caring
from haltline.streams.audit.maintenance import Caretaker
from tests.streams.audit.records import NOW_MS
from tests.streams.audit.tables import DAY_MS, Audit


class Crash(BaseException):
    """The process is gone at this point."""


class Faults:
    """Counts what changes the table, and breaks off before or behind one of them."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.behind = False
        self.changes = 0

    def around(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changing(*arguments: Any, **named: Any) -> Any:
            self.changes += 1
            hit = self.changes == self.at
            if hit and not self.behind:
                raise Crash
            done = change(*arguments, **named)
            if hit:
                raise Crash
            return done

        return changing


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    made = Faults()
    monkeypatch.setattr(caring, "write_deltalake", made.around(write_deltalake))
    for owner, name in ((DeltaTable, "update"), (DeltaTable, "delete"), (TableOptimizer, "compact")):
        monkeypatch.setattr(owner, name, made.around(getattr(owner, name)))
    return made


@pytest.fixture
def audit(audit: Audit) -> Audit:
    """With some days more."""
    audit.write(80, 20, at_ms=NOW_MS + 10 * DAY_MS)
    return audit


def erase(care: Caretaker) -> object:
    return care.erase(session_id="s1")


def retain(care: Caretaker) -> object:
    return care.retain(5, today=date.fromordinal(date(1970, 1, 1).toordinal() + NOW_MS // DAY_MS + 10))


@pytest.mark.parametrize(
    ("act", "at", "behind"),
    [(erase, 2, True), (erase, 3, True), (retain, 1, True), (Caretaker.compact, 1, False)],
    ids=["behind what is erased, before it is stated how much it was", "at the end",
         "behind what is to be dropped, before it is", "before files are put together"],
)  # fmt: skip
def test_an_interruption_looks_like_no_tampering_and_doing_it_again_completes_it(
    audit: Audit, faults: Faults, act: Callable[[Caretaker], object], at: int, behind: bool
) -> None:
    care = audit.care()
    faults.at, faults.behind = at, behind
    with pytest.raises(Crash):
        act(care)
    assert audit.verify().problems == []
    faults.at = None
    act(care)
    found = audit.verify()
    assert (found.problems, found.unfinished) == ([], 0)
    assert (found.rows, found.erased) == (20 if act is retain else 100, 33 if act is erase else 0)


def test_an_erasure_that_was_interrupted_covers_no_more_rows_than_it_meant(audit: Audit, faults: Faults) -> None:
    care = audit.care()
    faults.at, faults.behind = 2, True
    with pytest.raises(Crash):
        erase(care)
    assert audit.verify().unfinished == 1
    (row,) = audit.rows("SELECT DISTINCT summary FROM audit WHERE kind = 'erased'")
    more = {"kind": "'erased'", "summary": f"'{row['summary']}'", "raw": "NULL"}
    audit.table().update(updates=more, predicate="session_id = 's2'")
    problems = [problem.what for problem in audit.verify().problems]
    assert any("it meant to erase 33 rows, and 66 say that it erased them" in what for what in problems)
