"""The worker's main path without a broker: records in, records out, and the states in between."""

from base64 import b64encode
from pathlib import Path

import orjson
import pytest

from haltline.interventions.decide.cross_session import ScopeControl
from haltline.schemas import wire
from haltline.schemas.control import CommandKind, ControlRecord
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.events import Kind
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core, SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.memories import looked_at, opened
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.policy.loader import parse_policy
from haltline.streams.policy.source import Refusal
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import SCOPE_KEY
from haltline.streams.sessions.state_codec import CorruptState, UnreadableState, due_of
from haltline.streams.sessions.timers import TimerQueue
from tests.builders import T0_MS, bash, cases, event, some
from tests.detectors.cross_session.test_spawn_storm import spawned
from tests.streams.sessions.bench import (
    DAY_S,
    ELSEWHERE,
    HOME,
    OTHERS,
    PARTITIONS,
    SESSION,
    TOPICS,
    Bench,
    delete,
    killed_bench,
    operator,
)


def test_a_tool_is_killed_without_a_session_and_a_dead_letter_can_be_sent_again() -> None:
    bench = Bench()
    home = partition_of("drop_table", PARTITIONS)
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.TOOL, "drop_table"), partition=home)
    assert [(topic, key) for topic, key, _, _ in bench.sent.records] == [(TOPICS.control, b"tool:drop_table")]
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.TOOL, "drop_table"), partition=home)
    assert len(bench.sent.records) == 1, "it is killed already"
    assert list(bench.checkpoint()) == [SCOPE_KEY + b"tool:drop_table"]
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


@cases(
    "value, reason",
    {
        "no value": (None, BadRecord.EMPTY),
        "not JSON": (b"{", BadRecord.NOT_JSON),
        "an unknown version": (delete(0, v=2), BadRecord.UNKNOWN_VERSION),
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


def test_a_record_is_rehearsed_as_it_is_processed_without_any_output() -> None:
    bench = Bench()
    bench.deletes(0, 6)
    before = len(bench.sent.records), list(bench.counted.told)
    for second in (12, 18):
        bench.pipeline.rehearse(LogRecord(TOPICS.actions, HOME, second, T0_MS, b"k", delete(second)))
    bench.pipeline.rehearse(LogRecord(TOPICS.actions, HOME, 20, T0_MS, b"k", b"no JSON"))
    assert (len(bench.sent.records), bench.counted.told) == before


def test_a_tree_with_as_many_agents_as_it_may_run_starts_no_more_until_one_is_over() -> None:
    bench = Bench(core=Core(Policy(rules={"tree_budget": Rule(settings={"agents_at_once": 1})})))
    for second, kind in ((0, Kind.PROPOSED), (20, Kind.COMPLETED)):
        call = event(second, "Task", kind=kind, session=SESSION, call_id="c1", args={"prompt": "count the tables"})
        bench.put(TOPICS.actions, call, second=second)
        for signal in bench.sent.of(TOPICS.signals):
            bench.put(TOPICS.signals, signal, partition=partition_of(f"tree={SESSION}", PARTITIONS), second=second)
    entries = [(key, value) for topic, key, value, _ in bench.sent.records if topic == TOPICS.control]
    assert [key for key, _ in entries] == [b"target:tree=s1"] * 2
    assert ControlRecord.model_validate_json(entries[0][1] or b"").code == "no_agents_tree_budget"
    assert entries[1][1] is None
    assert [(one.level, one.code) for one in bench.decisions] == [(Level.BLOCK, "no_agents_tree_budget")]


def test_a_tree_that_an_operator_lifts_begins_anew() -> None:
    core, state = (
        Core(Policy(rules={"spawn_storm": Rule(settings={"max_started": 2})})),
        ScopeState("target", "tree=s1"),
    )
    found = [core.on_signal(state, spawned(second, SESSION, f"part {second}")) for second in range(4)]
    assert [control.code for one in found for control in one.controls] == ["no_agents_spawn_storm"]
    core.on_scope_command(state, operator(CommandKind.LIFT, ScopeKind.TARGET, "tree=s1"))
    assert not core.on_signal(state, spawned(5, SESSION, "another part")).controls


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
    record = LogRecord(TOPICS.policies, 2, 17, T0_MS, b"default", b"{nonsense", ())
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


def read_from(key: bytes, data: bytes, partition: int = HOME) -> Bench:
    """A pipeline whose changelog has these bytes under this key."""
    slices = [PartitionState(number) for number in range(PARTITIONS)]
    slices[partition].put(key, data, T0_MS)
    bench = Bench(slices=slices)
    bench.pipeline.recovered(partition, slices[partition].values)
    return bench


AGENT_HOME = partition_of("cleaner", PARTITIONS)
GOOD = killed_bench().checkpoint()[SESSION.encode()] or b""
HEAD_BYTES = 12


def before(state: bytes) -> bytes:
    """A state as the release before wrote it: version 2."""
    return b'{"due_ms":%d,"v":2,"state":"%s"}' % (due_of(state), b64encode(state[HEAD_BYTES:]))


GOOD_2 = before(GOOD)
UNREADABLE = {
    "nothing": b"",
    "cut": GOOD[:-7],
    "cut in its head": GOOD[:9],
    "with another byte": GOOD[:40] + b"\xff" + GOOD[41:],
    "version 2, cut": GOOD_2[:-7],
    "version 2, not text": b"\x00\xff" + GOOD_2,
}


@cases(
    "data",
    UNREADABLE
    | {
        "of another session": state_codec.encode(SessionState("s2")),
        "due, and cut": b'{"due_ms":1,' + GOOD_2[1:20],
        "nothing compressed": b'{"due_ms":0,"v":2,"state":""}',
        "deeper than anything": b"[" * 5000,
    },
)
def test_a_state_that_cannot_be_read_begins_anew_and_its_bytes_are_kept(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench = read_from(SESSION.encode(), data)
    bench.pipeline.tick()
    bench.put(TOPICS.actions, delete(0))
    (letter,) = bench.letters
    assert (letter.reason, letter.key, letter.raw) == (BadRecord.UNREADABLE_STATE, SESSION.encode(), data)
    assert letter.detail.startswith(f"session s1, partition {HOME} of haltline-sessions-changelog: its state cannot be")
    assert "haltline kill" in letter.detail
    assert letter.detail in caplog.text
    assert bench.counted.told.count("dead letter unreadable_state") == 1
    assert bench.sent.of(TOPICS.control) == [], "what stands there stays"
    kept = state_codec.decode(bench.checkpoint()[SESSION.encode()] or b"")
    assert (kept.events, kept.offsets) == (1, {TOPICS.actions: 0})


@cases("data", UNREADABLE)
def test_what_cannot_be_read_of_an_agent_begins_anew_too(data: bytes) -> None:
    key = SCOPE_KEY + b"agent:cleaner"
    bench = read_from(key, data, AGENT_HOME)
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.AGENT, "cleaner"), partition=AGENT_HOME)
    assert len(bench.sent.of(TOPICS.control)) == 1
    assert bench.sent.of(TOPICS.dead_letter) == [data]
    assert state_codec.decode_scope(bench.checkpoint()[key] or b"").id == "cleaner"


@pytest.mark.parametrize("key", [b"\xfe\xfd", SCOPE_KEY + b"agent:cleaner"])
def test_what_cannot_be_read_and_is_without_further_records_is_dropped_when_it_is_idle(key: bytes) -> None:
    bench = read_from(key, b'{"due_ms":1,')
    bench.pipeline.tick()
    for days in (2, 4):
        bench.deletes(days * DAY_S, session=OTHERS[0])
        bench.checkpoint()
    assert key not in bench.table
    assert b'{"due_ms":1,' in bench.sent.of(TOPICS.dead_letter)


def test_of_a_state_that_begins_anew_stays_what_is_in_force_and_one_of_a_later_release_ends_the_process() -> None:
    for later in (GOOD_2.replace(b'"v":2', b'"v":4'), GOOD.replace(b"hs\x03", b"hs\x04")):
        bench = read_from(SESSION.encode(), later)
        with pytest.raises(CorruptState, match="expected 2 or 3, got 4"):
            bench.put(TOPICS.actions, delete(0))
    bench, key = Bench(), SESSION.encode()
    killed = state_codec.decode(GOOD)
    assert (killed.offsets, killed.events) == ({TOPICS.actions: 2}, 3)
    assert bench.pipeline.begin_anew(key, b"damage") == b"damage", "is told when it is needed"
    for state in (GOOD, GOOD_2):
        after = state_codec.decode(bench.pipeline.begin_anew(key, state) or b"")
        assert (after.offsets, after.events, after.control.killed) == ({}, 0, killed.control.killed)
    assert bench.pipeline.begin_anew(key, state_codec.encode(SessionState(SESSION, events=7))) is None
    agent = ScopeState("agent", "cleaner", signals=7)
    of_agent = SCOPE_KEY + b"agent:cleaner"
    assert bench.pipeline.begin_anew(of_agent, state_codec.encode(agent)) is None
    agent.standing.stands = ScopeControl("killed", T0_MS, "agent_killed_by_operator")
    left = state_codec.decode_scope(bench.pipeline.begin_anew(of_agent, state_codec.encode(agent)) or b"")
    assert (left.signals, left.standing.stands) == (0, agent.standing.stands)


def test_a_state_of_the_version_before_says_the_same_and_is_written_anew_with_the_next_event() -> None:
    for due_ms in (0, 7, T0_MS):
        for state in (SessionState("s1", events=9, due_ms=due_ms), ScopeState("agent", "a1")):
            decode = state_codec.decode if isinstance(state, SessionState) else state_codec.decode_scope
            data = state_codec.encode(state)
            assert (
                state_codec.shown(decode(before(data))) == state_codec.shown(decode(data)) == state_codec.shown(state)
            )
            assert due_of(before(data)) == due_of(data)
        assert due_of(state_codec.encode(SessionState("s1", due_ms=due_ms))) == due_ms
    bench = read_from(SESSION.encode(), GOOD_2)
    for number in range(4):
        bench.put(TOPICS.actions, delete(number))  # the state has the first three
    (written,) = bench.checkpoint().values()
    assert (written or b"").startswith(GOOD[:4])
    assert state_codec.decode(written or b"").events == state_codec.decode(GOOD).events + 1


GOLDEN = Path(__file__).parent / "golden"
FULL = GOLDEN / "state_v2.json"


def test_releases_see_each_other_s_versions_and_keep_what_they_do_not_know() -> None:
    files = FULL, GOLDEN / "state_v2_without_defaults.json", GOLDEN / "state_v3.bin"
    read = [state_codec.decode(file.read_bytes()) for file in files]
    for written in read:
        for gone in ("context_thrash", "exploration_wandering"):  # kept as it was written, and passed over
            assert written.detectors.pop(gone)
        assert all(opened(written.detectors, name) is not None for name in written.detectors)
    assert all(state == read[0] for state in read)
    later = SessionState("s1", detectors={"of_tomorrow": {"count": 3}})
    assert state_codec.shown(state_codec.decode(state_codec.encode(later))) == state_codec.shown(later)
    assert {"standing", "unsaid"} <= state_codec.shown(later).keys(), "by the names under which they are stored"
    for other in (1, 4):
        with pytest.raises(CorruptState, match=f"state version: expected 2 or 3, got {other}") as raised:
            state_codec.decode(b'{"v": %d, "session_id": "s1"}' % other)
        assert not isinstance(raised.value, UnreadableState), "it is not taken for damage"


def test_a_second_opinion_that_an_older_release_requested_ends_without_an_answer() -> None:
    """It asked a model about three reads of one file, and without an answer in time it would have paused the next."""
    state = state_codec.decode((GOLDEN / "state_v2_open_question.json").read_bytes())
    policy = parse_policy("opinion: {rules: [repetition], lower: medium, without_answer: pause, timeout_s: 60}")
    late = bash(100, "ls").model_copy(update={"session_id": state.session_id})
    effects = Core(policy).on_event(state, late)
    assert (effects.applied, effects.decision, effects.detections) == (True, None, ())
    assert [hint.said for hint in some(state.control.history).entries] == [True], "the hint stands"


def test_a_detector_whose_memory_has_another_shape_is_told_and_starts_again_and_others_go_on() -> None:
    state = state_codec.decode(state_codec.encode(SessionState("s1", detectors={"budget": {"used": 1}})))
    assert looked_at(state.detectors, "budget") is None  # it is still there for the report
    core = Core()
    first, second = (core.on_event(state, wire.decode_event(delete(n, session="s1"))) for n in (0, 1))
    assert [failure.detector for failure in first.failures] == ["budget"]
    assert not second.failures
    assert state_codec.decode(state_codec.encode(state)).events == 2


def test_the_last_word_on_a_session_counts_and_partitions_come_with_what_is_due_in_them_and_go_with_it() -> None:
    agenda = TimerQueue()
    for key, due_ms in ((b"a", 5), (b"b", 3), (b"a", 9), (b"c", 4), (b"b", 0), (b"c", 2)):
        agenda.put(key, 0, due_ms)
    assert [list(agenda.take(now_ms)) for now_ms in (1, 8, 9)] == [[], [b"c"], [b"a"]]
    assert len(agenda) == 0
    states = {name: state_codec.encode(SessionState(name.decode(), due_ms=due)) for name, due in ((b"a", 1), (b"b", 0))}
    agenda.recovered(0, states)
    agenda.recovered(1, {b"x": states[b"a"]})
    assert len(agenda) == 2
    agenda.revoke({1})
    assert list(agenda.take(10)) == [b"a"]
    assert due_of(b'{"session_id":"s1","v":1}') == 0, "a state of an older release is not due"
