"""The worker's main path, without a broker: records in, records out."""

import orjson
import pytest

from haltline.schemas.control import CommandKind
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.streams.policy.source import PolicyRecord, Refusal
from haltline.streams.sessions.state_cache import SCOPE_KEY
from tests.cases import cases
from tests.streams.sessions.bench import (
    DAY_S,
    ELSEWHERE,
    HOME,
    OTHERS,
    PARTITIONS,
    SESSION,
    T0_MS,
    TOPICS,
    Bench,
    delete,
    operator,
)


def test_a_kill_of_a_tool_is_written_to_control_without_a_session() -> None:
    bench = Bench()
    home = partition_of("drop_table", PARTITIONS)
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.TOOL, "drop_table"), partition=home)
    assert [(topic, key) for topic, key, _, _ in bench.sent.records] == [(TOPICS.control, b"tool:drop_table")]
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.TOOL, "drop_table"), partition=home)
    assert len(bench.sent.records) == 1, "it is killed already"
    assert list(bench.checkpoint()) == [SCOPE_KEY + b"tool:drop_table"]


@cases(
    "value, reason",
    {
        "no value": (None, BadRecord.EMPTY),
        "not JSON": (b"{", BadRecord.NOT_JSON),
        "invalid UTF-8": (delete(0).replace(b"cleaner", b"\xff\xfe"), BadRecord.NOT_JSON),
        "a wrong type": (delete(0, event_id=7), BadRecord.INVALID),
        "an unknown version": (delete(0, v=2), BadRecord.UNKNOWN_VERSION),
        "a time in the year 9999": (delete(0, time="9999-12-31T23:59:59Z"), BadRecord.INVALID),
        "10 MB of arguments": (delete(0, args={"x": "y" * 10_000_000}), BadRecord.TOO_LARGE),
        "deep nesting": (b"[" * 100_000, BadRecord.NOT_JSON),
        "a session of another partition": (delete(0, session=ELSEWHERE), BadRecord.WRONG_KEY),
    },
)
def test_a_bad_record_is_kept_whole_and_the_next_one_is_processed(value: bytes | None, reason: BadRecord) -> None:
    bench = Bench()
    bench.put(TOPICS.actions, value, second=1, offset=41)
    (letter,) = bench.letters
    assert len(bench.sent.records) == 1
    assert (letter.reason, letter.raw) == (reason, value)
    place = (letter.topic, letter.partition, letter.offset, letter.timestamp_ms)
    assert place == (TOPICS.actions, HOME, 41, T0_MS + 1000)
    assert f"dead letter {reason}" in bench.counted.told
    bench.put(TOPICS.actions, delete(2, await_verdict=True))
    assert len(bench.sent.of(TOPICS.interventions)) == 1


def test_a_binary_cloudevent_on_the_wrong_partition_can_be_sent_again_from_its_dead_letter() -> None:
    fields = orjson.loads(delete(0, session=ELSEWHERE, await_verdict=True))
    attributes = {"specversion": "1.0", "id": fields.pop("event_id"), "source": "here", "type": fields.pop("kind")}
    headers = [("content-type", b"application/json"), *((f"ce_{name}", a.encode()) for name, a in attributes.items())]
    bench = Bench()
    bench.put(TOPICS.actions, orjson.dumps(fields), headers=headers)
    (letter,) = bench.letters
    assert letter.reason is BadRecord.WRONG_KEY
    again = [(name, text) for name, text in letter.record_headers if text is not None]
    bench.put(TOPICS.actions, letter.raw, partition=partition_of(ELSEWHERE, PARTITIONS), headers=again)
    assert bench.decisions[0].session_id == ELSEWHERE


def test_sessions_beyond_the_bound_stay_as_bytes_and_a_policy_that_is_refused_is_kept() -> None:
    bench = Bench(max_live_sessions=1)
    for second in (0, 6, 12):
        for session in OTHERS[:5]:
            bench.deletes(second, session=session)
        bench.checkpoint()
        bench.checkpoint()
    assert bench.pipeline.live == 1
    kills = [value for value in bench.sent.of(TOPICS.interventions) if value and b'"KILL"' in value]
    assert len(kills) == 5
    bench = Bench()
    record = PolicyRecord(TOPICS.policies, 2, 17, T0_MS, b"default", b"{nonsense", ())
    bench.news += [Refusal("haltline.policies 2:17:1: not YAML", record), Refusal("policy.yaml:3: no")]
    bench.checkpoint()
    assert bench.counted.told.count("policy refused") == 2
    (letter,) = bench.letters
    assert (letter.reason, letter.topic, letter.partition, letter.offset) == (BadRecord.INVALID, TOPICS.policies, 2, 17)
    assert (letter.key, letter.raw, letter.detail) == (b"default", b"{nonsense", "haltline.policies 2:17:1: not YAML")
    bench.put(TOPICS.actions, delete(0))
    assert bench.counted.policies == [("default", 1)]


@pytest.mark.parametrize("days", [0.01, 400], ids=["a quarter of an hour", "a year"])
def test_one_record_from_the_future_makes_no_session_idle_nor_a_command_ahead_of_a_backlog(days: float) -> None:
    bench = Bench()
    bench.deletes(0)
    assert list(bench.checkpoint()) == [SESSION.encode()]
    bench.put(TOPICS.actions, delete(1, OTHERS[0]), second=days * DAY_S, ahead=True)
    bench.put(TOPICS.commands, operator(CommandKind.RESET), second=2 * DAY_S)
    bench.checkpoint()
    assert bench.checkpoint() == {}, "states are given out once when they changed"
    assert bench.table.keys() == {SESSION.encode(), OTHERS[0].encode()}
