"""Whatever is done to the table behind haltline's back shows, with the first record that it was done to."""

import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from arro3.core import Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from haltline.schemas.keys import make_keys
from haltline.streams.audit.chain import (
    CHECKPOINT,
    ERASED,
    KEPT_OF_ERASED,
    LOST,
    Head,
    chained,
)
from haltline.streams.audit.columns import to_arrow
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.row_consistency import difference
from haltline.streams.audit.signing import load_signer
from haltline.streams.audit.statements import INTENDED
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.writer import Place
from tests.builders import cases
from tests.streams.audit.records import NOW_MS, TOPICS, event
from tests.streams.audit.tables import AT_7, DAY_MS, FIRST, OF_FIRST, READER, Audit, add, writer


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


def test_rows_of_a_topic_that_is_gone_are_passed_over_and_counted_and_their_chain_holds(audit: Audit) -> None:
    opinions = Place(f"{TOPICS.prefix}opinions", 0)
    sink = audit.writer(opinions)
    add(sink, opinions, *range(5), value=b'{"v":1,"opinion_id":"o1","detector":"stagnation","outcome":"runaway"}')
    sink.flush(NOW_MS, closing=True)
    of_topic = f"\"topic\" = '{opinions.topic}'"
    audit.table().update(updates={'"kind"': "'opinion'", '"summary"': "'as it was'"}, predicate=of_topic)
    found = audit.verify()
    assert (found.problems, found.rows, found.passed_over, found.verdict.words) == ([], 85, 5, "VERIFIED")
    change("raw", "'{}'", f'{of_topic} AND "offset" = 3')(audit.table())
    (problem,) = audit.verify().problems
    assert (problem.place, problem.offset) == (f"{opinions.topic}[0]", 3)


def test_a_chain_that_was_recreated_is_not_the_one_that_was_signed(audit: Audit) -> None:
    kept = audit.checkpoints()
    # Whoever knows how it is done can change a record, and make all that follows from it anew.
    shutil.rmtree(audit.uri)
    sink = writer(audit.uri, FIRST)
    for n in range(40):
        own = {"event_id": "another", "session_id": "s1"}
        fields = own if n == 7 else {"event_id": f"e{2 * n}", "session_id": f"s{2 * n % 3}"}
        add(sink, FIRST, n, value=event(**fields).to_json())
    sink.flush(NOW_MS)
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


def test_the_digest_of_what_was_lost_is_that_of_the_first_release() -> None:
    """Those of records are in the golden rows."""
    row: dict[str, object] = {"sink": "audit", "topic": "haltline.actions", "partition": 2, "offset": 3}
    row |= {"timestamp_ms": 17, "kind": LOST, "summary": "lost: offsets 3 to 5"}
    head = chained(row, Head(2, "ab" * 32), until=5)
    assert row["record_digest"] == "c2bdf31a218c8403df41f8bb77da83bc4775ad87b25591c42029887577ae6213"
    assert head == Head(5, "7d275c98fe2c283ecb57c84d320acaa2999de6f1d6c7fd8caef8472f4aa21b71")
    assert row["chain_hash"] == head.hash


RECORDS = f"kind <> '{CHECKPOINT}'"


def as_written(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that was read, as the sink had it when it wrote it."""
    again = dict(row)
    for name in ("timestamp", "ingested_at", "event_time"):
        if isinstance(value := again[name], datetime):
            again[name] = int((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    again["event_date"] = again["event_date"].toordinal() - date(1970, 1, 1).toordinal()
    return again


def test_a_partition_whose_rows_are_all_gone_is_missed_by_its_checkpoints_or_the_table_s_log(audit: Audit) -> None:
    audit.table().delete(predicate=OF_FIRST)
    (problem,) = audit.verify().problems
    assert (problem.place, "it has no rows, and a checkpoint was signed at 39" in problem.what) == (str(FIRST), True)
    audit.table().delete(predicate=f"kind = '{CHECKPOINT}' AND \"partition\" = 0")
    (problem,) = audit.verify().problems
    what = "it has no rows, and the table's log says that rows up to 39 were written"
    assert (problem.place, what in problem.what) == (str(FIRST), True)


def test_a_table_without_checkpoints_or_an_empty_one_in_its_place_is_not_proved_with_a_key(
    audit: Audit, tmp_path: Path
) -> None:
    kept = audit.checkpoints()
    audit.table().delete(predicate=f"kind = '{CHECKPOINT}'")
    assert audit.verify(signed=False).ok
    (problem,) = audit.verify().problems
    assert "expected at least one checkpoint" in problem.what
    audit.uri = tmp_path / "empty"
    DeltaAuditTable(audit.uri).open()
    (problem,) = audit.verify().problems
    assert "it has no records at all" in problem.what
    assert {problem.place for problem in audit.verify(witness=kept).problems} == {str(FIRST), f"{TOPICS.actions}[1]"}


def test_a_chain_recreated_without_the_rows_that_were_signed_is_found(audit: Audit) -> None:
    signed = {(result["partition"], result["offset"]) for result in audit.checkpoints()}
    heads: dict[int, Head] = {}
    forged = []
    for row in audit.rows(f'SELECT * FROM audit WHERE {RECORDS} ORDER BY "partition", "offset"'):
        place = (row["partition"], row["offset"])
        if place in signed and row["offset"] != 39:
            continue
        again = as_written(row)
        if row["offset"] == 39:
            again["offset"] = 40  # one behind the last that was signed
        if place == (0, 1):
            again |= {"raw": event(event_id="e2", session_id="forged").to_json(), "session_id": "forged"}
        heads[row["partition"]] = chained(again, heads.get(row["partition"]))
        forged.append(again)
    audit.table().delete(predicate=RECORDS)
    write_deltalake(audit.table(), to_arrow(forged), mode="append")
    whats = [problem.what for problem in audit.verify().problems]
    assert any("a checkpoint was signed of it, and it is not there" in what for what in whats)


def test_what_the_rows_of_a_statement_and_of_what_was_erased_say_is_what_was_signed(audit: Audit) -> None:
    audit.care().erase(session_id="s1")
    assert audit.verify().ok
    audit.table().update(updates={"level": "'KILL'"}, predicate="kind = 'erased'")
    assert "its column level says 'KILL', and its content was erased" in audit.verify().problems[0].what
    audit.table().update(updates={'"by"': "'bob'"}, predicate="kind = 'audit.statement'")
    assert any("its column by says 'bob'" in problem.what for problem in audit.verify().problems)


def test_who_erases_or_drops_from_a_signed_table_needs_its_key(audit: Audit, tmp_path: Path) -> None:
    make_keys(tmp_path / "another.pem")
    for signer, actual in ((None, "got none"), (load_signer(tmp_path / "another.pem"), "got key")):
        care = audit.care(signer=signer)
        with pytest.raises(ValueError, match=rf"erase: .* is signed: expected its key .*, {actual}"):
            care.erase(session_id="s1")
        with pytest.raises(ValueError, match=rf"retain: .* is signed: expected its key .*, {actual}"):
            care.retain(5)
    found = audit.verify()
    assert (found.problems, found.erased) == ([], 0)


def test_dropping_up_to_records_that_were_lost_leaves_the_rest_proved(audit: Audit) -> None:
    writer = audit.writer(FIRST)
    writer.lost(FIRST, 40, 49)
    writer.flush(NOW_MS, closing=True)
    assert audit.verify().ok  # also when they are the last
    later = NOW_MS + 10 * DAY_MS
    add(writer, FIRST, *range(50, 60), at_ms=later)
    writer.flush(later, closing=True)
    assert audit.verify().ok
    (last,) = audit.rows("SELECT max(event_date) AS day FROM audit")
    assert audit.care().retain(5, today=last["day"]) > 80
    found = audit.verify()
    assert (found.problems, found.rows) == ([], 10)


def row_at(audit: Audit, offset: int) -> dict[str, Any]:
    (row,) = audit.rows(f'SELECT * FROM audit WHERE {OF_FIRST} AND "offset" = {offset}')
    return row


def put_back(audit: Audit, was: Mapping[str, Any], other: str) -> None:
    """Puts the content of an erased row back, and erases that of another one with the same statement."""
    at = f'{OF_FIRST} AND "offset" = '
    (erased,) = audit.rows(f"SELECT summary FROM audit WHERE {at}{was['offset']}")
    assert erased["summary"].startswith("erased by statement ")
    audit.table().delete(predicate=f"{at}{was['offset']}")
    write_deltalake(audit.table(), to_arrow([as_written(was)]), mode="append")
    gone = {f'"{name}"': "NULL" for name in was if name not in KEPT_OF_ERASED}
    gone |= {"kind": f"'{ERASED}'", "summary": f"'{erased['summary']}'"}
    audit.table().update(updates=gone, predicate=at + other)


@pytest.mark.parametrize("dropped", [False, True], ids=["at once", "after some of the rows were dropped"])
def test_an_erased_row_that_is_put_back_for_another_one_is_found(audit: Audit, dropped: bool) -> None:
    care, offset = audit.care(), 41 if dropped else 2
    if dropped:
        audit.write(80, 20, at_ms=NOW_MS + 10 * DAY_MS)
    was = row_at(audit, offset)
    assert was["session_id"] == "s1"
    care.erase(session_id="s1")
    if dropped:
        care.retain(5, today=was["event_date"])
    honest = audit.verify()
    assert (honest.problems, honest.rows) == ([], 20 if dropped else 80)
    put_back(audit, was, "42" if dropped else "6")
    expected = "others are in their place" if dropped else "the rows that say that it erased them are not those"
    assert expected in audit.verify().problems[0].what


class Interrupted(Caretaker):
    """Something else happens once it has stated what it means to erase."""

    meanwhile: Callable[[], object]

    def _state(self, what: Mapping[str, Any], summary: str) -> None:
        super()._state(what, summary)
        if what["what"] == INTENDED:
            self.meanwhile()


def test_what_a_sink_writes_of_a_subject_during_its_erasure_is_for_the_next_one(audit: Audit) -> None:
    care = audit.care(of=Interrupted)
    care.meanwhile = lambda: audit.write(80, 20)  # type: ignore[attr-defined]  # of Interrupted
    assert care.erase(session_id="s1") == 27
    assert audit.verify().problems == []
    assert audit.care().erase(session_id="s1") == 6
    care.meanwhile = lambda: audit.care().erase(session_id="s2")  # type: ignore[attr-defined]  # of Interrupted
    with pytest.raises(ValueError, match="some of the rows were erased or dropped meanwhile: do it again"):
        care.erase(agent_id=event().agent_id)
    found = audit.verify()
    assert (found.problems, found.erased) == ([], 66)
