"""Forgeries by one who knows how the table is made and proved, and has no key."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from haltline.schemas.keys import make_keys
from haltline.streams.audit.chain import CHECKPOINT, ERASED, KEPT_OF_ERASED, Head, chained
from haltline.streams.audit.columns import to_arrow
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.signing import load_signer
from haltline.streams.audit.statements import INTENDED
from haltline.streams.audit.table import DeltaAuditTable
from tests.streams.audit.records import NOW_MS, TOPICS, event
from tests.streams.audit.tables import DAY_MS, FIRST, OF_FIRST, Audit, add

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


class EarlierCaretaker(Caretaker):
    """States no digests, as earlier releases did."""

    def _state(self, what: Mapping[str, Any], summary: str) -> None:
        super()._state({name: result for name, result in what.items() if name not in {"digest", "left"}}, summary)


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
    assert (honest.problems, honest.rows, honest.counted) == ([], 20 if dropped else 80, 0)
    put_back(audit, was, "42" if dropped else "6")
    expected = "others are in their place" if dropped else "the rows that say that it erased them are not those"
    assert expected in audit.verify().problems[0].what


def test_erasures_of_an_earlier_release_are_proved_by_their_number_and_that_is_reported(audit: Audit) -> None:
    was = row_at(audit, 2)
    audit.care(of=EarlierCaretaker).erase(session_id="s1")
    put_back(audit, was, "6")
    found = audit.verify()
    assert (found.problems, found.erased, found.counted) == ([], 27, 1)


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
