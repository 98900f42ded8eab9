"""The audit table as a source: original records, and a report of missing ones."""

from pathlib import Path

import orjson
import pytest

from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.reading import Reader
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.writer import AuditWriter, Place
from haltline.streams.replay.records import Missing, Span
from haltline.streams.replay.table_range import TableRange
from tests.streams.audit.records import NOW_MS, event, record
from tests.streams.commands import haltline
from tests.streams.replay.recorded import TOPICS, LiveLog, works

FIRST = Place(TOPICS.actions, 0)
HEADERS = (("traceparent", b"00-1"), ("odd", b"\xff\x00"), ("none", None), ("empty", b""), ("odd", b"again"))


def written(folder: Path) -> Path:
    """Ten records of which two are lost before them, and three in between."""
    writer = AuditWriter(DeltaAuditTable(folder), Reader(TOPICS, "audit"), "audit")
    writer.assign([FIRST])
    writer.lost(FIRST, 0, 1)
    writer.flush(NOW_MS)
    for start, count in ((2, 5), (10, 5)):
        if start == 10:
            writer.lost(FIRST, 7, 9)
            writer.flush(NOW_MS)
        for offset in range(start, start + count):
            of = {"event_id": f"e{offset}", "session_id": f"s{offset % 2}", "targets": [f"t={offset}"]}
            value, key = event(action="look_up", **of).to_json(), f"s{offset % 2}".encode()
            writer.add(record(TOPICS.actions, value, offset, key=key, headers=HEADERS))
        writer.flush(NOW_MS)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return written(tmp_path / "audit")


def run(*arguments: object) -> tuple[int, str, str]:
    done = haltline("replay", *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_what_was_erased_or_lost_is_counted_and_said(table: Path) -> None:
    Caretaker(table, by="ada", reason="request 12").erase(session_id="s1")
    code, output, errors = run(table, "--json")
    document = orjson.loads(output)
    assert (code, document["not_there"], sum(document["records"].values())) == (0, {"erased": 4, "lost": 5}, 6)
    assert "not there: 4 whose content was erased, 5 that were lost before the audit read them" in run(table)[2]
    assert orjson.loads(run(table, "--dry-run", "--json")[1])["not_there"] == {"erased": 4, "lost": 5}
    assert "not there: 4 whose content" in run(table, "--dry-run")[2]
    done = haltline("backtest", table)
    assert (done.exit_code, "not there: 4 whose content was erased" in done.stderr) == (0, True)
    assert errors == ""


def test_a_record_that_ended_workers_would_end_the_replay_and_is_left_out_and_no_other(tmp_path: Path) -> None:
    log = LiveLog().events(works("day", 3))
    bad, other, of_another_log = list(log.inputs())[1:4]
    for one, reason, later_ms in (
        (bad, BadRecord.ENDED_WORKER, 0),
        (other, BadRecord.DETECTOR_FAILED, 0),
        (of_another_log, BadRecord.ENDED_WORKER, 1),  # with this offset, of a topic that was deleted
    ):
        letter = DeadLetter(
            reason=reason, detail="killed by SIGSEGV", topic=one.topic, partition=one.partition,
            offset=one.offset, timestamp_ms=one.timestamp + later_ms,
        )  # fmt: skip
        log.send(TOPICS.dead_letter, key=one.key, value=one.value, headers=letter.headers())
    log.send(TOPICS.dead_letter, key=b"k", value=b"of another program")
    found = TableRange(log.audited(tmp_path / "audit"), TOPICS)
    assert [r.value for r in found.inputs()] == [r.value for r in log.inputs() if r != bad]


def test_only_what_is_missing_of_the_range_counts(table: Path) -> None:
    found = TableRange(table, TOPICS)
    expected = {(0, 15): 5, (1, 8): 4, (8, 15): 2, (10, 15): 0, (2, 7): 0, (9, 9): 0}
    assert {
        (start, end): found.missing([Span(TOPICS.actions, 0, start, end)]).lost for start, end in expected
    } == expected
    assert str(Missing(0, 2)) == "2 that were lost before the audit read them"
