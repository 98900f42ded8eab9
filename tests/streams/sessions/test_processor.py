"""The worker's main path, without a broker: records in, records out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from haltline.schemas.control import Batch, Command, CommandKind, ControlRecord, ControlState, Feedback, Stage
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision, Level, ScopeKind
from haltline.schemas.findings import Detection, Finding
from haltline.schemas.partitioner import partition_of
from haltline.schemas.policy import Policy, Rule
from haltline.schemas.record import Record
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core
from haltline.streams.engine.session_state import SessionState
from haltline.streams.policy.source import News, PolicyRecord, Refusal
from haltline.streams.runtime.changelog import PartitionState
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.processor import SessionProcessor
from haltline.streams.sessions.state_cache import SCOPE_KEY
from haltline.streams.sessions.state_codec import CorruptState
from tests.cases import cases

TOPICS = Topics()
T0_MS = 1_750_000_000_000
PARTITIONS = 4
SESSION = "s1"
HOME = partition_of(SESSION, PARTITIONS)
ELSEWHERE = next(name for name in (f"x{n}" for n in range(100)) if partition_of(name, PARTITIONS) != HOME)


@dataclass(frozen=True)
class Raw:
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass
class Sent:
    """A sender that is a list."""

    records: list[tuple[str, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = field(default_factory=list)

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        self.records.append((topic, key, value, list(headers)))

    def of(self, topic: str) -> list[bytes | None]:
        return [value for name, _, value, _ in self.records if name == topic]


@dataclass
class Counted:
    """A meter that is a list of what it was told."""

    told: list[str] = field(default_factory=list)
    policies: list[tuple[str, int]] = field(default_factory=list)

    def finding(self, finding: Finding) -> None:
        self.told.append(f"finding {finding.code}")

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        self.told.append(f"decision {decision.level.value} after {latency_s} s")

    def judged(self, detector: str, level: str, helped: float) -> None:
        self.told.append(f"{level} of {detector} helped {helped:g}")

    def stopped(self, time_to_stop_s: float) -> None:
        self.told.append(f"stopped after {time_to_stop_s} s")

    def followup(self, what: str) -> None:
        self.told.append(what)

    def detector_error(self, detector: str) -> None:
        self.told.append(f"{detector} raised")

    def dead_letter(self, reason: BadRecord) -> None:
        self.told.append(f"dead letter {reason}")

    def policy(self, name: str, version: int) -> None:
        self.policies.append((name, version))

    def policy_refused(self) -> None:
        self.told.append("policy refused")


class Bench:
    """A pipeline with a table of its own, in which it is never later than the latest record that was put."""

    def __init__(
        self,
        *,
        max_live_sessions: int = 100,
        policy: Policy | None = None,
        slices: Sequence[PartitionState] | None = None,
    ) -> None:
        self.slices = slices or [PartitionState(number) for number in range(PARTITIONS)]
        self.now_ms = T0_MS + 100_000
        self.sent = Sent()
        self.counted = Counted()
        self.offsets: dict[tuple[str, int], int] = {}
        self.news: list[News] = []
        self.pipeline = SessionProcessor(
            Core(policy),
            topics=TOPICS,
            partitions=PARTITIONS,
            load=self._load,
            outbox=self.sent,
            metrics=self.counted,
            policies=self._take_news,
            max_live_sessions=max_live_sessions,
            now_ms=lambda: self.now_ms,
        )

    def _load(self, key: bytes) -> bytes | None:
        return self.table.get(key)

    @property
    def table(self) -> dict[bytes, bytes]:
        return {key: value for part in self.slices for key, value in part.values.items()}

    def _take_news(self) -> list[News]:
        taken, self.news = self.news, []
        return taken

    def put(
        self,
        topic: str,
        value: bytes | Record | None,
        *,
        partition: int = HOME,
        second: float = 0,
        headers: Sequence[tuple[str, bytes]] = (),
        offset: int | None = None,
        ahead: bool = False,
    ) -> None:
        at = self.offsets.get((topic, partition), 0) if offset is None else offset
        self.offsets[topic, partition] = at + 1
        raw = value.to_json() if isinstance(value, Record) else value
        time_ms = T0_MS + round(second * 1000)
        if not ahead:
            self.now_ms = max(self.now_ms, time_ms)
        self.pipeline.process([Raw(topic, partition, at, time_ms, b"k", raw, headers)])

    def checkpoint(self) -> dict[bytes, bytes | None]:
        changes = list(self.pipeline.changed())
        handed_out = {key for _, key, _ in changes}
        for part in self.slices:
            for key in part.take_idle(self.pipeline.idle_before_ms(part.partition), 1000):
                if key not in handed_out and not self.pipeline.retain_when_idle(key, part.values[key]):
                    changes.append((part.partition, key, None))
        for partition, key, value in changes:
            self.slices[partition].put(key, value, self.now_ms)
        return {key: value for _, key, value in changes}


def delete(second: float, session: str = SESSION, **fields: object) -> bytes:
    result = {
        "event_id": f"{session}@{second}",
        "kind": "action.proposed",
        "session_id": session,
        "agent_id": "cleaner",
        "time": T0_MS + round(second * 1000),
        "call_id": f"c@{second}",
        "action": "delete_asset",
        "args": {"asset_id": "fact_sales"},
    }
    return orjson.dumps(result | fields)


def killed_bench() -> Bench:
    bench = Bench()
    for second in (0, 6, 12):
        bench.put(TOPICS.actions, delete(second), second=second)
    return bench


def test_the_third_delete_becomes_a_decision_a_detection_and_a_control_record() -> None:
    bench = killed_bench()
    decisions = [Decision.model_validate_json(value or b"") for value in bench.sent.of(TOPICS.interventions)]
    assert [(d.level, d.code) for d in decisions] == [
        (Level.NUDGE, "loop_suspected"),
        (Level.KILL, "session_killed_loop_guard"),
    ]
    assert decisions[-1].decided_at == T0_MS + 100_000
    codes = [Detection.model_validate_json(value or b"").finding.code for value in bench.sent.of(TOPICS.detections)]
    assert codes.count("loop_detected") >= 1
    (control,) = bench.sent.of(TOPICS.control)
    record = ControlRecord.model_validate_json(control or b"")
    assert (record.key, record.decision_id, record.stopped_at) == ("session:s1", decisions[-1].decision_id, None)


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


def test_an_acknowledged_stop_is_written_to_control_and_measured() -> None:
    bench = killed_bench()
    decision = Decision.model_validate_json(bench.sent.of(TOPICS.interventions)[-1] or b"")
    answer = Feedback(
        feedback_id="f",
        decision_id=decision.decision_id,
        session_id=SESSION,
        stage=Stage.STOPPED,
        time=T0_MS + 100_050,
        decided_at=T0_MS + 99_000,
    )
    bench.put(TOPICS.feedback, answer)
    record = ControlRecord.model_validate_json(bench.sent.of(TOPICS.control)[-1] or b"")
    assert (record.stopped_at, record.time_to_stop_ms) == (T0_MS + 100_050, 1050)
    assert "stopped after 1.0 s" in bench.counted.told


def operator(kind: CommandKind, scope: ScopeKind = ScopeKind.SESSION, scope_id: str = SESSION) -> Command:
    return Command(command_id="k", kind=kind, scope=scope, id=scope_id, by="alice", reason="agreed", time=T0_MS)


def test_a_reset_removes_the_control_entry_and_the_counts() -> None:
    bench = killed_bench()
    bench.put(TOPICS.commands, operator(CommandKind.RESET))
    record = ControlRecord.model_validate_json(bench.sent.of(TOPICS.control)[-1] or b"")
    assert (record.state, record.actions_left) == (ControlState.PROBATION, 20)
    bench.put(TOPICS.actions, delete(20, await_verdict=True))
    assert Decision.model_validate_json(bench.sent.of(TOPICS.interventions)[-1] or b"").level is Level.ALLOW


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
    ((topic, key, raw, headers),) = bench.sent.records
    letter = DeadLetter.from_record(key, raw, headers)
    assert topic == TOPICS.dead_letter
    assert (letter.reason, letter.topic, letter.partition, letter.offset, letter.timestamp_ms, letter.raw) == (
        reason,
        TOPICS.actions,
        HOME,
        41,
        T0_MS + 1000,
        value,
    )
    assert f"dead letter {reason}" in bench.counted.told
    bench.put(TOPICS.actions, delete(2, await_verdict=True))
    assert len(bench.sent.of(TOPICS.interventions)) == 1


def test_a_binary_cloudevent_on_the_wrong_partition_can_be_sent_again_from_its_dead_letter() -> None:
    fields = orjson.loads(delete(0, session=ELSEWHERE, await_verdict=True))
    attributes = {"specversion": "1.0", "id": fields.pop("event_id"), "source": "here", "type": fields.pop("kind")}
    event = [
        ("content-type", b"application/json"),
        *((f"ce_{name}", value.encode()) for name, value in attributes.items()),
    ]
    bench = Bench()
    bench.put(TOPICS.actions, orjson.dumps(fields), headers=event)
    ((_, key, value, headers),) = bench.sent.records
    letter = DeadLetter.from_record(key, value, headers)
    assert letter.reason is BadRecord.WRONG_KEY
    home = partition_of(ELSEWHERE, PARTITIONS)
    again = [(name, text) for name, text in letter.record_headers if text is not None]
    bench.put(TOPICS.actions, letter.raw, partition=home, headers=again)
    assert Decision.model_validate_json(bench.sent.of(TOPICS.interventions)[0] or b"").session_id == ELSEWHERE


@pytest.mark.parametrize("topic", [TOPICS.commands, TOPICS.feedback])
def test_a_bad_command_or_answer_is_kept_as_well(topic: str) -> None:
    bench = Bench()
    bench.put(topic, b"{}")
    assert [name for name, _, _, _ in bench.sent.records] == [TOPICS.dead_letter]


def test_a_command_without_a_reason_is_not_carried_out() -> None:
    bench = killed_bench()
    document = orjson.loads(operator(CommandKind.RESET).to_json())
    bench.put(TOPICS.commands, orjson.dumps({**document, "reason": ""}))
    assert bench.sent.records[-1][0] == TOPICS.dead_letter


def test_states_are_given_out_once_when_they_changed() -> None:
    bench = Bench()
    bench.put(TOPICS.actions, delete(0))
    assert list(bench.checkpoint()) == [b"s1"]
    assert bench.checkpoint() == {}


def test_a_revoked_partition_is_taken_up_again_from_the_table() -> None:
    bench = Bench()
    for second in (0, 6):
        bench.put(TOPICS.actions, delete(second))
    bench.checkpoint()
    bench.pipeline.revoke({HOME})
    bench.put(TOPICS.actions, delete(12))
    assert Decision.model_validate_json(bench.sent.of(TOPICS.interventions)[-1] or b"").level is Level.KILL


def test_records_that_the_state_includes_change_nothing() -> None:
    bench = Bench()
    for second in (0, 6):
        bench.put(TOPICS.actions, delete(second))
    bench.checkpoint()
    bench.pipeline.revoke({HOME})
    before, sent = dict(bench.table), len(bench.sent.records)
    for offset, second in enumerate((0, 6)):
        bench.put(TOPICS.actions, delete(second), offset=offset)
    bench.checkpoint()
    assert (bench.table, len(bench.sent.records)) == (before, sent)


def test_sessions_beyond_the_bound_stay_as_bytes_and_lose_nothing() -> None:
    bench = Bench(max_live_sessions=1)
    homes = [name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME][:5]
    for second in (0, 6, 12):
        for session in homes:
            bench.put(TOPICS.actions, delete(second, session))
        bench.checkpoint()
        bench.checkpoint()
    assert bench.pipeline.live == 1
    kills = [value for value in bench.sent.of(TOPICS.interventions) if value and b'"KILL"' in value]
    assert len(kills) == len(homes)


def test_an_idle_session_is_dropped_in_the_logs_own_time_and_a_killed_one_is_kept() -> None:
    bench = killed_bench()
    homes = [name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME]
    bench.put(TOPICS.actions, delete(13, homes[0]), second=13)
    bench.checkpoint()
    two_days = 2 * 86_400
    bench.put(TOPICS.actions, delete(two_days, homes[1]), second=two_days)
    changes = bench.checkpoint()
    assert changes[homes[0].encode()] is None
    assert set(bench.table) == {b"s1", homes[1].encode()}


@pytest.mark.parametrize("how", ["recovered", "let go"])
def test_an_idle_session_that_is_not_live_is_dropped_as_well(how: str) -> None:
    first, last, *_ = [name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME]
    bench = Bench(max_live_sessions=1)
    for second in (0, 6, 12):
        bench.put(TOPICS.actions, delete(second), second=second)
    for session in (first, last):
        bench.put(TOPICS.actions, delete(13, session), second=13)
        bench.checkpoint()
    if how == "recovered":
        bench = Bench(slices=bench.slices)
    two_days = 2 * 86_400
    bench.put(TOPICS.actions, delete(two_days, last), second=two_days)
    assert bench.checkpoint().keys() == {first.encode(), last.encode()}
    assert bench.table.keys() == {SESSION.encode(), last.encode()}, "the killed one and the one that is at work"


@pytest.mark.parametrize("days", [0.01, 2, 400], ids=["a quarter of an hour", "two days", "a year"])
def test_one_record_from_the_future_makes_no_session_idle(days: float) -> None:
    bench = Bench()
    other = next(name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME)
    bench.put(TOPICS.actions, delete(0))
    bench.checkpoint()
    bench.put(TOPICS.actions, delete(1, other), second=days * 86_400, ahead=True)
    bench.checkpoint()
    bench.checkpoint()
    assert bench.table.keys() == {SESSION.encode(), other.encode()}


def test_commands_that_are_ahead_of_a_backlog_of_events_make_no_session_idle() -> None:
    bench = Bench()
    bench.put(TOPICS.actions, delete(0))
    bench.checkpoint()
    bench.put(TOPICS.commands, operator(CommandKind.RESET, scope_id=SESSION), second=2 * 86_400)
    bench.checkpoint()
    bench.put(TOPICS.actions, delete(6), second=6)
    bench.checkpoint()
    assert bench.table.keys() == {SESSION.encode()}


def test_a_killed_session_that_is_idle_is_known_from_its_bytes() -> None:
    bench = killed_bench()
    bench.checkpoint()
    two_days = 2 * 86_400
    other = next(name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME)
    bench.put(TOPICS.actions, delete(two_days, other), second=two_days)
    bench.checkpoint()
    bench.checkpoint()
    assert bench.pipeline.live == 1
    bench.put(TOPICS.actions, delete(two_days + 1), second=two_days + 1)
    assert b"session_killed_loop_guard" in (bench.sent.of(TOPICS.interventions)[-1] or b"")


def test_a_batch_that_is_declared_before_the_session_begins_holds() -> None:
    bench = Bench()
    bench.put(
        TOPICS.commands,
        Command(
            command_id="c1",
            kind=CommandKind.BATCH,
            scope=ScopeKind.SESSION,
            id=SESSION,
            by="ada",
            reason="quarterly clean-up",
            time=T0_MS,
            batch=Batch(actions="delete_*", targets=[], max_deletes=10, expires=T0_MS + 3_600_000),
        ),
    )
    bench.checkpoint()
    bench.checkpoint()
    for second in range(5, 9):
        bench.put(TOPICS.actions, delete(second, args={"asset_id": f"stg_{second}"}), second=second)
    assert bench.sent.of(TOPICS.control) == []


def test_an_agent_whose_clock_is_days_behind_is_stopped_as_well() -> None:
    bench = Bench()
    for second in (0, 6, 12):
        bench.put(TOPICS.actions, delete(second, time=T0_MS - 3 * 86_400_000 + second * 1000), second=second)
        bench.checkpoint()
        bench.checkpoint()
    assert b"session_killed_loop_guard" in (bench.sent.of(TOPICS.control)[0] or b"")


def test_a_partition_without_traffic_does_not_hide_idle_sessions_of_others() -> None:
    bench = Bench()
    quiet = partition_of(ELSEWHERE, PARTITIONS)
    bench.put(TOPICS.actions, delete(0, ELSEWHERE), partition=quiet)
    bench.put(TOPICS.actions, delete(1), second=1)
    bench.checkpoint()
    two_days = 2 * 86_400
    other = next(name for name in (f"t{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME)
    bench.put(TOPICS.actions, delete(two_days, other), second=two_days)
    assert bench.checkpoint()[SESSION.encode()] is None
    assert set(bench.table) == {ELSEWHERE.encode(), other.encode()}


def test_a_new_policy_holds_from_the_next_batch_on_and_sessions_keep_their_history() -> None:
    bench = Bench()
    bench.put(TOPICS.actions, delete(0))
    bench.put(TOPICS.actions, delete(6))
    bench.news.append(Core(Policy(name="strict", version=7, rules={"destructive_volume": Rule(enabled=False)})))
    bench.put(TOPICS.actions, delete(12))
    decisions = [Decision.model_validate_json(raw) for raw in bench.sent.of(TOPICS.interventions) if raw]
    assert [(d.policy, d.policy_version) for d in decisions] == [("default", 1), ("strict", 7)]
    assert [d.code for d in decisions] == ["loop_suspected", "session_killed_loop_guard"]
    assert bench.counted.policies == [("default", 1), ("strict", 7)]


def test_a_policy_that_is_refused_is_counted_and_kept_and_the_old_one_holds() -> None:
    bench = Bench()
    record = PolicyRecord(TOPICS.policies, 2, 17, T0_MS, b"default", b"{nonsense", ())
    bench.news += [Refusal("haltline.policies 2:17:1: not YAML", record), Refusal("policy.yaml:3: no")]
    bench.checkpoint()
    assert bench.counted.told.count("policy refused") == 2
    ((_, key, value, headers),) = [sent for sent in bench.sent.records if sent[0] == TOPICS.dead_letter]
    letter = DeadLetter.from_record(key, value, headers)
    assert (letter.reason, letter.topic, letter.partition, letter.offset) == (BadRecord.INVALID, TOPICS.policies, 2, 17)
    assert (letter.key, letter.raw, letter.detail) == (b"default", b"{nonsense", "haltline.policies 2:17:1: not YAML")
    bench.put(TOPICS.actions, delete(0))
    assert bench.counted.policies == [("default", 1)]


def ticked(bench: Bench, *seconds: float) -> None:
    for second in seconds:
        bench.now_ms = T0_MS + 100_000 + round(second * 1000)
        bench.pipeline.tick()


def test_a_kill_that_nobody_acknowledges_is_sent_again_and_then_an_incident() -> None:
    bench = killed_bench()
    ticked(bench, 0, 5, 10, 15, 20, 1000)
    decisions = [Decision.model_validate_json(value or b"") for value in bench.sent.of(TOPICS.interventions)][1:]
    assert [(d.decision_id == decisions[0].decision_id, d.flag) for d in decisions[1:]] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    incident = Detection.model_validate_json(bench.sent.of(TOPICS.detections)[-1] or b"")
    assert (incident.finding.code, incident.decision_id) == ("kill_unacknowledged", decisions[-1].decision_id)
    assert [reported for reported in bench.counted.told if reported.startswith("kill_")] == [
        "kill_reissued",
        "kill_reissued",
        "kill_unacknowledged",
    ]
    record = ControlRecord.model_validate_json(bench.sent.of(TOPICS.control)[-1] or b"")
    assert (record.stopped_at, record.issued, record.escalated_at) == (None, 3, T0_MS + 115_000)


def test_a_kill_is_due_in_the_worker_that_takes_its_partition_over() -> None:
    first = killed_bench()
    ticked(first, 0)
    first.checkpoint()
    second = Bench(slices=first.slices)
    for part in second.slices:
        second.pipeline.recovered(part.partition, part.values)
    ticked(second, 4, 5)
    (decision,) = (Decision.model_validate_json(value or b"") for value in second.sent.of(TOPICS.interventions))
    assert (decision.level, decision.values) == (Level.KILL, {"issued": 2})
    second.pipeline.revoke({HOME})
    ticked(second, 10)
    assert len(second.sent.of(TOPICS.interventions)) == 1


def test_the_time_to_stop_counts_from_the_first_time_a_kill_was_sent() -> None:
    bench = killed_bench()
    ticked(bench, 0, 5)
    decision = Decision.model_validate_json(bench.sent.of(TOPICS.interventions)[-1] or b"")
    answer = Feedback(
        feedback_id="f",
        decision_id=decision.decision_id,
        session_id=SESSION,
        stage=Stage.STOPPED,
        time=T0_MS + 106_000,
        decided_at=decision.decided_at,
    )
    bench.now_ms = T0_MS + 106_000
    bench.put(TOPICS.feedback, answer, second=106)
    record = ControlRecord.model_validate_json(bench.sent.of(TOPICS.control)[-1] or b"")
    assert (record.time_to_stop_ms, record.issued) == (6000, 2)
    assert "stopped after 6.0 s" in bench.counted.told
    ticked(bench, 20)
    assert bench.sent.of(TOPICS.interventions)[-1] == decision.to_json()


def read_from(key: bytes, data: bytes, partition: int = HOME, **options: object) -> Bench:
    """A pipeline whose changelog has these bytes under this key."""
    slices = [PartitionState(number) for number in range(PARTITIONS)]
    slices[partition].put(key, data, T0_MS)
    bench = Bench(slices=slices, **options)  # type: ignore[arg-type]  # as Bench takes them
    bench.pipeline.recovered(partition, slices[partition].values)
    return bench


GOOD = killed_bench().checkpoint()[SESSION.encode()] or b""
UNREADABLE = [
    pytest.param(b"", id="nothing"),
    pytest.param(GOOD[:-7], id="cut"),
    pytest.param(b"\x00\xff" + GOOD, id="not text"),
    pytest.param(state_codec.encode(SessionState("s2")), id="of another session"),
    pytest.param(b'{"due_ms":soon,' + GOOD[1:], id="due at no time"),
    pytest.param(b'{"due_ms":1,' + GOOD[1:20], id="due, and cut"),
    pytest.param(b"[" * 5000, id="deeper than anything"),
]


@pytest.mark.parametrize("data", UNREADABLE)
def test_a_state_that_cannot_be_read_begins_anew_and_its_bytes_are_kept(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench = read_from(SESSION.encode(), data)
    bench.pipeline.tick()
    bench.put(TOPICS.actions, delete(0))
    (letter,) = [
        DeadLetter.from_record(key, value, headers)
        for topic, key, value, headers in bench.sent.records
        if topic == TOPICS.dead_letter
    ]
    assert (letter.reason, letter.key, letter.raw) == (BadRecord.UNREADABLE_STATE, SESSION.encode(), data)
    assert letter.detail.startswith(f"session s1, partition {HOME} of haltline-sessions-changelog: its state cannot be")
    assert "haltline kill" in letter.detail
    assert letter.detail in caplog.text
    assert bench.counted.told.count("dead letter unreadable_state") == 1
    assert bench.sent.of(TOPICS.control) == [], "what stands there stays"
    kept = state_codec.decode(bench.checkpoint()[SESSION.encode()] or b"")
    assert (kept.events, kept.offsets) == (1, {TOPICS.actions: 0})


def test_a_session_whose_state_cannot_be_read_is_counted_from_then_on() -> None:
    bench = read_from(SESSION.encode(), b"damage")
    for second in (0, 6, 12):
        bench.put(TOPICS.actions, delete(second), second=second)
    assert len(bench.sent.of(TOPICS.control)) == 1
    assert len(bench.sent.of(TOPICS.dead_letter)) == 1


def test_an_operator_releases_a_session_whose_state_could_not_be_read() -> None:
    bench = read_from(SESSION.encode(), b"damage")
    bench.put(TOPICS.commands, operator(CommandKind.RESET))
    assert bench.sent.of(TOPICS.control) == [None]


@pytest.mark.parametrize("data", UNREADABLE[:3])
def test_what_cannot_be_read_of_an_agent_begins_anew_too(data: bytes) -> None:
    key = SCOPE_KEY + b"agent:cleaner"
    home = partition_of("cleaner", PARTITIONS)
    bench = read_from(key, data, home)
    bench.put(TOPICS.commands, operator(CommandKind.KILL, ScopeKind.AGENT, "cleaner"), partition=home)
    assert len(bench.sent.of(TOPICS.control)) == 1
    assert bench.sent.of(TOPICS.dead_letter) == [data]
    assert state_codec.decode_scope(bench.checkpoint()[key] or b"").id == "cleaner"


@pytest.mark.parametrize("key", [b"s1", b"\xfe\xfd", SCOPE_KEY + b"agent:cleaner", SCOPE_KEY + b"\xfe"])
def test_what_cannot_be_read_and_is_without_further_records_is_dropped_when_it_is_idle(key: bytes) -> None:
    bench = read_from(key, b'{"due_ms":1,')
    bench.pipeline.tick()
    day_s = 2 * 24 * 3600.0
    other = next(name for name in (f"o{n}" for n in range(100)) if partition_of(name, PARTITIONS) == HOME)
    bench.put(TOPICS.actions, delete(day_s, other), second=day_s)
    bench.checkpoint()
    bench.put(TOPICS.actions, delete(2 * day_s, other), second=2 * day_s)
    bench.checkpoint()
    assert key not in bench.table
    assert b'{"due_ms":1,' in bench.sent.of(TOPICS.dead_letter)


def test_a_state_of_the_release_before_goes_on_and_is_written_in_this_version() -> None:
    golden = orjson.loads((Path(__file__).parent / "golden" / "state_v1.json").read_bytes())
    bench = read_from(SESSION.encode(), orjson.dumps(golden | {"session_id": SESSION, "offsets": {}}))
    bench.put(TOPICS.actions, delete(0))
    written = bench.checkpoint()[SESSION.encode()] or b""
    assert written.startswith(b'{"due_ms":')
    assert b'"v":2,' in written
    assert state_codec.decode(written).events == golden["events"] + 1
    assert TOPICS.dead_letter not in {topic for topic, *_ in bench.sent.records}


def test_a_state_of_a_later_release_still_ends_the_process() -> None:
    bench = read_from(SESSION.encode(), GOOD.replace(b'"v":2', b'"v":3'))
    with pytest.raises(CorruptState, match="expected 2 or less, got 3"):
        bench.put(TOPICS.actions, delete(0))


def test_a_state_forgets_offsets_that_are_not_below_an_end_and_nothing_else() -> None:
    bench = Bench()
    key, before = SESSION.encode(), state_codec.shown(state_codec.decode(GOOD))
    assert before["offsets"] == {TOPICS.actions: 2}
    assert bench.pipeline.forget(key, GOOD, {TOPICS.actions: 3, TOPICS.commands: 0}) == GOOD
    assert bench.pipeline.forget(key, b"damage", {TOPICS.actions: 0}) == b"damage", "is told when it is needed"
    for end in (0, 2):
        after = state_codec.shown(state_codec.decode(bench.pipeline.forget(key, GOOD, {TOPICS.actions: end})))
        assert after == before | {"offsets": {}}, "a kill and what was counted stay"
