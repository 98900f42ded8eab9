"""The worker's main path, without a broker: records in, records out."""

import orjson
import pytest

from haltline.schemas.control import CommandKind, ControlState, Feedback, Stage
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
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
    killed_bench,
    operator,
)


def test_a_turn_of_the_model_counts_once_by_whether_its_usage_is_known() -> None:
    bench = Bench()
    for offset, usage in enumerate(({"input_tokens": 3}, {"cost_usd": 0.1}, {}, None, None)):
        turn = delete(offset, kind="model.turn", action="", call_id=None, args=None, usage=usage)
        bench.put(TOPICS.actions, turn, second=offset)
    bench.put(TOPICS.actions, turn, second=9, offset=4)
    assert bench.counted.told == ["usage known"] * 2 + ["usage unknown"] * 3


def test_every_output_is_keyed_by_its_session_and_control_by_its_scope() -> None:
    keys = {(topic, key) for topic, key, _, _ in killed_bench().sent.records}
    assert keys == {
        (TOPICS.interventions, b"s1"),
        (TOPICS.detections, b"s1"),
        (TOPICS.incidents, b"s1"),
        (TOPICS.control, b"session:s1"),
        (TOPICS.signals, b"cleaner"),
        (TOPICS.signals, b"asset_id=fact_sales"),
        (TOPICS.signals, b"s1"),
    }


def test_an_acknowledged_stop_is_written_to_control_and_measured_from_the_first_time_its_kill_was_sent() -> None:
    bench = killed_bench()
    bench.put(TOPICS.feedback, stopped(bench.decisions[-1], T0_MS + 100_050, decided_at=T0_MS + 99_000))
    assert (bench.control.stopped_at, bench.control.time_to_stop_ms) == (T0_MS + 100_050, 1050)
    assert "stopped after 1.0 s" in bench.counted.told
    bench = killed_bench()
    bench.ticked(0, 5)
    decision = bench.decisions[-1]
    bench.now_ms = T0_MS + 106_000
    bench.put(TOPICS.feedback, stopped(decision, T0_MS + 106_000, decision.decided_at), second=106)
    assert (bench.control.time_to_stop_ms, bench.control.issued) == (6000, 2)
    assert "stopped after 6.0 s" in bench.counted.told
    bench.ticked(20)
    assert bench.decisions[-1] == decision


def stopped(kill: Decision, time_ms: int, decided_at: int | None) -> Feedback:
    """The agent's side has carried out a kill."""
    of = {"feedback_id": "f", "decision_id": kill.decision_id, "session_id": SESSION, "stage": Stage.STOPPED}
    return Feedback.model_validate(of | {"time": time_ms, "decided_at": decided_at})


def test_a_reset_removes_the_control_entry_and_the_counts() -> None:
    bench = killed_bench()
    bench.put(TOPICS.commands, operator(CommandKind.RESET))
    assert (bench.control.state, bench.control.actions_left) == (ControlState.PROBATION, 20)
    bench.put(TOPICS.actions, delete(20, await_verdict=True))
    assert bench.decisions[-1].level is Level.ALLOW


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


def test_a_revoked_partition_is_taken_up_again_from_the_table_and_what_its_state_includes_changes_nothing() -> None:
    bench = Bench()
    behind = -3 * 86_400_000  # an agent whose clock is days behind is stopped as well
    for second in (0, 6):
        bench.put(TOPICS.actions, delete(second, time=T0_MS + behind + second * 1000), second=second)
    bench.checkpoint()
    bench.pipeline.revoke({HOME})
    before, sent = dict(bench.table), len(bench.sent.records)
    for offset, second in enumerate((0, 6)):
        bench.put(TOPICS.actions, delete(second), offset=offset)
    bench.checkpoint()
    assert (bench.table, len(bench.sent.records)) == (before, sent)
    bench.put(TOPICS.actions, delete(12, time=T0_MS + behind + 12_000), second=12)
    assert bench.decisions[-1].level is Level.KILL


def test_sessions_beyond_the_bound_stay_as_bytes_and_lose_nothing() -> None:
    bench = Bench(max_live_sessions=1)
    for second in (0, 6, 12):
        for session in OTHERS[:5]:
            bench.deletes(second, session=session)
        bench.checkpoint()
        bench.checkpoint()
    assert bench.pipeline.live == 1
    kills = [value for value in bench.sent.of(TOPICS.interventions) if value and b'"KILL"' in value]
    assert len(kills) == 5


@pytest.mark.parametrize("how", ["live", "recovered", "let go"])
def test_an_idle_session_is_dropped_in_the_time_of_its_partition_and_a_killed_one_is_kept(how: str) -> None:
    first, last, *_ = OTHERS
    bench = Bench(max_live_sessions=100 if how == "live" else 1)
    bench.put(
        TOPICS.actions, delete(0, ELSEWHERE), partition=partition_of(ELSEWHERE, PARTITIONS)
    )  # which is quiet then
    bench.deletes(0, 6, 12)
    for session in (first, last):
        bench.deletes(13, session=session)
        bench.checkpoint()
    if how == "recovered":
        offsets, bench = bench.offsets, Bench(slices=bench.slices)
        bench.offsets = offsets
    bench.deletes(2 * DAY_S, session=last)
    assert bench.checkpoint().keys() == {first.encode(), last.encode()}
    assert bench.table.keys() == {SESSION.encode(), last.encode(), ELSEWHERE.encode()}
    bench.deletes(2 * DAY_S + 1)
    assert bench.decisions[-1].code == "session_killed_loop_guard", "the kill is known from the bytes"


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


def test_a_new_policy_holds_from_the_next_batch_on_and_sessions_keep_their_history() -> None:
    bench = Bench()
    bench.deletes(0, 6)
    bench.news.append(Core(Policy(name="strict", version=7, rules={"destructive_volume": Rule(enabled=False)})))
    bench.deletes(12)
    assert [(d.code, d.policy, d.policy_version) for d in bench.decisions] == [
        ("loop_suspected", "default", 1),
        ("session_killed_loop_guard", "strict", 7),
    ]
    assert bench.counted.policies == [("default", 1), ("strict", 7)]


def test_a_policy_that_is_refused_is_counted_and_kept_and_the_old_one_holds() -> None:
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


def test_a_kill_is_due_in_the_worker_that_takes_its_partition_over() -> None:
    first = killed_bench()
    first.ticked(0)
    first.checkpoint()
    second = Bench(slices=first.slices)
    for part in second.slices:
        second.pipeline.recovered(part.partition, part.values)
    second.ticked(4, 5)
    (decision,) = second.decisions
    assert (decision.level, decision.values) == (Level.KILL, {"issued": 2})
    second.pipeline.revoke({HOME})
    second.ticked(10)
    assert len(second.decisions) == 1
