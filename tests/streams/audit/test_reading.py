import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.control import CommandKind, ControlState, Stage
from haltline.schemas.decisions import Level, Mode, ScopeKind
from haltline.schemas.events import Kind
from haltline.streams.audit.columns import COLUMNS, to_arrow
from haltline.streams.audit.reading import KafkaRecord
from tests.streams.audit import records
from tests.streams.audit.records import (
    NOW_MS,
    REASON,
    TODAY,
    TOPICS,
    command,
    completed,
    control,
    decision,
    event,
    record,
)
from tests.streams.audit.records import feedback as answer
from tests.streams.audit.tables import READER

MS_PER_DAY = 86_400_000


def summary(topic: str, value: bytes | None) -> object:
    return READER.row(record(topic, value), NOW_MS)["summary"]


ON_MANY = event(targets=[f"path=/{n}" for n in range(9)])
STARTED = event(kind=Kind.SESSION_STARTED, task={"goal": "tidy up"})
SHADOW = decision(level=Level.ALLOW, mode=Mode.SHADOW, would=Level.KILL)
BY_HAND = command(kind=CommandKind.KILL, scope=ScopeKind.AGENT, id="cleaner", reason="it does not stop")
FROZEN = control(scope=ScopeKind.FLEET, id="*", state=ControlState.FROZEN, by="bob", reason="drill")
RESOLVED = records.incident(
    change="resolved", state="resolved", count=30, by="ada", comment="restored", resolution="resolved_by_operator"
)
NOTIFIED = "failed to pager: incident inc_1 opened: expected an answer of success, got 503: busy"
LINES = [
    (TOPICS.actions, event(), "proposed delete_asset asset_id=fact_sales"),
    (TOPICS.actions, ON_MANY, "proposed delete_asset path=/0 path=/1 path=/2 and 6 more"),
    (TOPICS.actions, completed(), "completed delete_asset asset_id=fact_sales: error, asset still exists"),
    (TOPICS.actions, STARTED, "session.started: tidy up"),
    (TOPICS.actions, event(kind=Kind.HEARTBEAT), "session.heartbeat"),
    (TOPICS.detections, records.detection(),
     "loop_suspected (medium, destructive_repeat): second delete of asset_id=fact_sales"),
    (TOPICS.interventions, decision(), "session_killed: loop_detected, 3 deletes on asset_id=fact_sales in 12s"),
    (TOPICS.interventions, decision(level=Level.NUDGE), f"nudged: {REASON}"),
    (TOPICS.interventions, decision(scope=ScopeKind.AGENT), f"agent_killed: {REASON}"),
    (TOPICS.interventions, SHADOW, f"shadow, would be session_killed: {REASON}"),
    (TOPICS.feedback, answer(), "refused delete_asset"),
    (TOPICS.feedback, answer(stage=Stage.CHILDREN, children=["a", "b"]), "children 2: a b"),
    (TOPICS.commands, command(), "session_reset by alice: the table was restored"),
    (TOPICS.commands, BY_HAND, "agent_kill cleaner by alice: it does not stop"),
    (TOPICS.control, control(time_to_stop_ms=40), f"session_killed by haltline: {REASON}; stopped after 40 ms"),
    (TOPICS.control, FROZEN, "fleet_frozen * by bob: drill"),
    (TOPICS.signals, records.signal(), "destructive of agent cleaner: delete_asset asset_id=fact_sales"),
    (TOPICS.opinions, records.opinion(), "opinion on stagnation: runaway: one file is read again"),
    (TOPICS.notifications, records.notification(), NOTIFIED),
    (TOPICS.incidents, records.incident(),
     f"incident 4f1c09ab opened: destructive_repeat, BLOCK, 1 time: {REASON}"),
    (TOPICS.incidents, RESOLVED,
     "incident 4f1c09ab resolved (resolved_by_operator) by ada: destructive_repeat, BLOCK, 30 times: restored"),
    (TOPICS.policies, records.policy(), "policy default version 3"),
]  # fmt: skip


def test_each_kind_has_a_line_for_people() -> None:
    assert [summary(topic, sent.to_json()) for topic, sent, _ in LINES] == [expected for *_, expected in LINES]


def test_a_dead_letter_says_where_it_came_from_and_a_tombstone_is_no_error() -> None:
    row = READER.row(records.dead_letter(), NOW_MS)
    assert (row["kind"], row["code"], row["reason"], row["summary"]) == (
        "dead_letter",
        "not_json",
        "expected value at line 1 column 1",
        "unreadable (not_json) at haltline.actions[2]@17: expected value at line 1 column 1",
    )
    assert "decode_error" not in row
    for topic, key, expected in (
        (TOPICS.control, b"session:42", ("cleared", "session_cleared", "42")),
        (TOPICS.control, b"agent:cleaner", ("cleared", "agent_cleared cleaner", None)),
        (TOPICS.policies, b"default", ("removed", "policy default removed", None)),
    ):
        row = READER.row(record(topic, None, key=key), NOW_MS)
        assert (row["kind"], row["summary"], row.get("session_id"), "decode_error" in row) == (*expected, False)


def test_an_event_fills_the_columns_that_analysts_ask_for() -> None:
    sent = completed(call_id="k1", seq=3, duration_ms=12.5, usage={"input_tokens": 7, "cost_usd": 0.25})
    row = READER.row(record(TOPICS.actions, sent.to_json(), offset=9, partition=2), NOW_MS)
    expected = {
        "sink": "audit", "topic": TOPICS.actions, "partition": 2, "offset": 9, "timestamp": NOW_MS,
        "timestamp_ms": NOW_MS, "event_date": TODAY, "ingested_at": NOW_MS, "key": "42", "kind": "action.completed",
        "event_time": NOW_MS, "event_id": "e1", "call_id": "k1", "session_id": "42", "agent_id": "cleaner", "seq": 3,
        "action": "delete_asset", "targets": ["asset_id=fact_sales"], "outcome": "error", "error": "asset still exists",
        "duration_ms": 12.5, "input_tokens": 7, "output_tokens": 0, "cost_usd": 0.25, "raw": sent.to_json(),
        "summary": "completed delete_asset asset_id=fact_sales: error, asset still exists",
    }  # fmt: skip
    assert {name: value for name, value in row.items() if value is not None} == expected


def test_a_cloudevent_is_read_as_the_event_it_is() -> None:
    envelope = {
        "specversion": "1.0", "id": "e7", "source": "/agents/cleaner", "type": "haltline.action.proposed",
        "time": "2026-05-28T20:26:40Z", "data": orjson.loads(event().to_json()),
    }  # fmt: skip
    headers = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
    read = READER.row(record(TOPICS.actions, orjson.dumps(envelope), headers=headers), NOW_MS)
    assert (read.get("decode_error"), read["session_id"], read["action"]) == (None, "42", "delete_asset")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"{", "not_json"), (b"", "empty"), (None, "empty"), (b"\xff\xfe", "not_json"), (b'{"v": 9}', "unknown_version"),
     (b'{"v": 1}', "invalid"), (b"[" * 100_000, "not_json"), (b" " * (2 * 1024 * 1024), "too_large")],
    ids=["broken JSON", "no value", "a tombstone where nothing is compacted", "no text", "a version of the future",
         "fields missing", "deep nesting", "more than is parsed"],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_kept_with_the_reason(value: bytes | None, expected: str) -> None:
    row = READER.row(record(TOPICS.actions, value), NOW_MS)
    assert row["decode_error"].startswith(f"{expected}: ")
    assert (row["kind"], row["raw"], row["key"]) == ("unreadable", value, "42")
    for topic, error in (
        (TOPICS.dead_letter, "invalid: expected header 'haltline-reason', got none"),
        ("elsewhere", "unknown_format: no kind of record is known for topic elsewhere"),
    ):
        row = READER.row(record(topic, b"raw"), NOW_MS)
        assert (row["decode_error"], row["raw"]) == (error, b"raw")


def test_key_and_headers_that_are_not_text_are_kept_whole() -> None:
    headers = (("a", b"text"), ("a", b"\xff"), ("n", None))
    read = READER.row(record(TOPICS.actions, b"x", key=b"a\xff", headers=headers), NOW_MS)
    assert (read["key"], read["key_bytes"]) == ("a\\xff", b"a\xff")
    assert orjson.loads(read["headers"]) == [["a", "text"], ["a", None, "/w=="], ["n", None]]


@pytest.mark.parametrize(
    ("timestamp_ms", "shown_ms", "day"),
    [(NOW_MS - 40 * MS_PER_DAY, NOW_MS - 40 * MS_PER_DAY, TODAY - 40), (None, None, TODAY), (-1, None, TODAY),
     (0, 0, TODAY), (NOW_MS + 2 * MS_PER_DAY, NOW_MS + 2 * MS_PER_DAY, TODAY), (2**62, None, TODAY)],
    ids=["weeks ago", "none", "before 1970", "a clock that was never set", "the day after tomorrow", "no year"],
)  # fmt: skip
def test_a_wild_timestamp_is_kept_and_makes_no_folder(timestamp_ms: int | None, shown_ms: int | None, day: int) -> None:
    row = READER.row(record(TOPICS.actions, event().to_json(), timestamp_ms=timestamp_ms), NOW_MS)
    assert (row["timestamp_ms"], row["timestamp"], row["event_date"]) == (timestamp_ms, shown_ms, day)


@given(
    topic=st.sampled_from([*TOPICS.all, "elsewhere"]),
    value=st.none()
    | st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([c.name for c in COLUMNS]), inner),
        max_leaves=20,
    ).map(lambda fields: orjson.dumps(fields, option=orjson.OPT_PASSTHROUGH_SUBCLASS) if _fits(fields) else b"{}"),
    key=st.none() | st.binary(max_size=20),
    timestamp_ms=st.none() | st.integers(-(2**63), 2**63 - 1),
    headers=st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), st.none() | st.binary(max_size=8))),
)
def test_whatever_comes_makes_a_row_with_its_bytes_whole(
    topic: str,
    value: bytes | None,
    key: bytes | None,
    timestamp_ms: int | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    actual = KafkaRecord(topic, 0, 5, timestamp_ms, key, value, tuple(headers))
    table = to_arrow([READER.row(actual, NOW_MS)])
    assert [table[name][0].as_py() for name in ("raw", "offset", "timestamp_ms")] == [value, 5, timestamp_ms]


def _fits(fields: object) -> bool:
    try:
        orjson.dumps(fields)
    except TypeError:  # an integer beyond 64 bits
        return False
    return True
