"""Whatever is done to the table behind haltline's back shows, with the first record that it was done to."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from arro3.core import Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from haltline.schemas.keys import make_keys
from haltline.streams.audit.row_consistency import difference
from tests.cases import cases
from tests.streams.audit.records import NOW_MS, TOPICS, event
from tests.streams.audit.tables import AT_7, FIRST, OF_FIRST, READER, Audit, add, writer


def test_a_verification_says_what_it_proved_over_several_sinks(audit: Audit, tmp_path: Path) -> None:
    found = audit.verify()
    assert (found.problems, found.rows, found.partitions, found.unsigned, found.erased) == ([], 80, 2, 0, 0)
    assert found.checkpoints >= 8
    assert (found.verdict.words, audit.verify(signed=False).verdict.words) == ("VERIFIED", "INTACT, UNSIGNED")
    public, audit.public = audit.public, make_keys(tmp_path / "another.pem")
    problems = audit.verify().problems
    assert {"its signature is not that of the public key" in problem.what for problem in problems} == {True}
    audit.public = public
    audit.table().delete(AT_7)
    assert {audit.verify(signed=signed).verdict.words for signed in (True, False)} == {"NOT INTACT"}
    Path(audit.table().file_uris()[0]).unlink()  # one of the table's: what was deleted from stays in the folder
    assert any("a file is missing or damaged" in problem.what for problem in audit.verify().problems)


def change(column: str, value: str, where: str = AT_7) -> Callable[[DeltaTable], object]:
    return lambda table: table.update(updates={f'"{column}"': value}, predicate=where)


def remove(where: str) -> Callable[[DeltaTable], object]:
    return lambda table: table.delete(predicate=where)


def repeat(table: DeltaTable) -> None:
    again = list(QueryBuilder().register("audit", table).execute(f"SELECT * FROM audit WHERE {AT_7}"))
    write_deltalake(table, Table.from_batches(again), mode="append")


def make_anew(audit: Audit) -> None:
    """Changes a record, and makes all that follows from it anew, as whoever knows how it is done can."""
    value = event(event_id="another", session_id="s1").to_json()
    shutil.rmtree(audit.uri)
    sink = writer(audit.uri, FIRST)
    for n in range(40):
        result = event(event_id=f"e{2 * n}", session_id=f"s{2 * n % 3}").to_json()
        add(sink, FIRST, n, value=value if n == 7 else result)
    sink.flush(NOW_MS)


SWAP = change("offset", 'CASE WHEN "offset" = 7 THEN 8 ELSE 7 END', f'{OF_FIRST} AND "offset" IN (7, 8)')


@cases(
    "tamper, offset, what",
    {
        "another value": (change("raw", "'{}'"), 7, "its key, time, headers or value were changed"),
        "another hash": (change("chain_hash", "'00'"), 7, "its hash does not follow"),
        "another session's": (change("session_id", "'s9'"), 7, "its column session_id says 's9'"),
        "taken out of the chain": (change("chain_hash", "NULL"), 7, "a row without a hash"),
        "removed": (remove(AT_7), 8, "it was written behind offset 7, and stands behind 6: rows were removed"),
        "the first removed": (remove(f'{OF_FIRST} AND "offset" < 5'), 5, "it was written behind offset 4, and stands "),
        "doubled": (repeat, 7, "it comes again, or in another order"),
        "two in another order": (SWAP, 7, ""),
    },
)
def test_the_first_record_that_breaks_is_named(audit: Audit, tamper: Any, offset: int, what: str) -> None:
    tamper(audit.table())
    first = audit.verify(signed=False).problems[0]
    assert (first.place, first.offset) == (f"{TOPICS.actions}[0]", offset)
    assert what in first.what


def test_each_column_that_follows_from_the_record_is_derived_again(audit: Audit) -> None:
    (row,) = audit.rows(f"SELECT * FROM audit WHERE {AT_7}")
    assert difference(row, READER) == ""
    changed = {
        "session_id": "s9", "action": None, "summary": "fine", "decode_error": "x", "event_time": None,
        "timestamp": None, "ingested_at": None, "cost_usd": 99.0, "seq": 77, "flag": True, "policy_version": 9,
        "targets": None, "headers": "x", "event_date": None,
    }  # fmt: skip
    for name, value in changed.items():
        assert difference(row | {name: value}, READER).startswith(f"its column {name} says {value!r}")


def test_a_chain_that_was_recreated_is_not_the_one_that_was_signed(audit: Audit) -> None:
    kept = audit.checkpoints()
    make_anew(audit)
    assert audit.verify(signed=False).ok
    problems = audit.verify(witness=kept).problems
    assert "its hash is not the one that was signed" in problems[0].what


def test_a_table_that_was_rolled_back_does_not_reach_what_its_log_says_was_written(audit: Audit) -> None:
    audit.table().restore(2)
    problems = audit.verify(signed=False).problems
    assert [problem.place for problem in problems] == [f"{TOPICS.actions}[0]", f"{TOPICS.actions}[1]"]
    assert all("it was rolled back" in problem.what for problem in problems)


def test_a_table_that_was_put_back_log_and_all_does_not_reach_what_was_signed_and_kept_elsewhere(
    audit: Audit, tmp_path: Path
) -> None:
    shutil.copytree(audit.uri, tmp_path / "before")
    audit.write(80, 40)
    kept = audit.checkpoints()
    shutil.rmtree(audit.uri)
    shutil.copytree(tmp_path / "before", audit.uri)
    assert audit.verify().ok
    problems = audit.verify(witness=kept).problems
    assert ["it was rolled back" in problem.what for problem in problems] == [True, True]


def test_one_session_s_content_is_gone_and_the_rest_is_still_proved(audit: Audit) -> None:
    care = audit.care()
    rows = care.erase(session_id="s1")
    assert rows == 27
    left = audit.rows("SELECT raw, key, session_id, action FROM audit WHERE kind = 'erased'")
    assert left == [{"raw": None, "key": None, "session_id": None, "action": None}] * 27
    found = audit.verify()
    assert (found.problems, found.erased) == ([], 27)
    result = audit.rows("SELECT \"by\", reason FROM audit WHERE kind = 'audit.statement'")
    assert result == [{"by": "ada", "reason": "request 12"}] * 2  # before it was done, and afterwards
    care.compact()
    care.vacuum(kept_hours=0)
    assert not any(b'"s1"' in file.read_bytes() for file in audit.uri.rglob("*.parquet"))
    assert audit.verify().ok
    assert care.erase(session_id="s1") == 0
    assert care.erase(agent_id=event().agent_id) == 80 - rows
    assert audit.verify().ok
    with pytest.raises(ValueError, match="got neither or both"):
        care.erase()


def test_content_that_was_erased_without_a_statement_is_a_problem(audit: Audit) -> None:
    erased = {"kind": "'erased'", "raw": "NULL", "summary": "'erased by statement x'"}
    audit.table().update(updates=erased, predicate=AT_7)
    problem, left = audit.verify().problems
    assert "and its content was erased" in left.what
    assert (problem.offset, problem.what) == (7, "its content is gone, and no statement says who erased it")
