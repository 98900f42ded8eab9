"""Recorded records onto another topic: as they were, where they were, from where they were left."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # documented there
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.replay.copying import Pace, Progress
from haltline.streams.replay.record_filter import chosen
from haltline.streams.replay.records import LogRecord, Span
from tests.builders import at
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night
from tests.streams.replay.test_kafka_range import put

BY = ("--by", "ada", "--reason", "try it")


@pytest.fixture(scope="module")
def night() -> LiveLog:
    return a_night()


@pytest.fixture
def broker(night: LiveLog) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.ensure_topics(TOPICS)
        broker.ensure_topic("lab")
        put(broker.bootstrap, night)
        yield broker


def run(bootstrap: str, *arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", "kafka", "--bootstrap", bootstrap, *map(str, arguments)])
    return done.exit_code, done.output


def on(bootstrap: str, topic: str) -> list[Message]:
    with LogReader(bootstrap, [topic]) as reader:
        return list(reader.to_end())


def header(message: Message) -> dict[str, bytes]:
    return dict(message.headers() or ())  # type: ignore[arg-type]  # stubs say what a producer takes


def place(message: Message) -> tuple[object, ...]:
    return message.partition(), message.key(), message.value(), message.timestamp()[1]


def test_records_are_as_they_were_and_say_where_from(broker: EmbeddedBroker, night: LiveLog) -> None:
    code, output = run(broker.bootstrap, "--onto", "lab", *BY, "--json")
    document = orjson.loads(output)
    actual = on(broker.bootstrap, "lab")
    expected = [record for record in night.inputs() if record.topic == TOPICS.actions]
    assert (code, document["written"]) == (0, len(expected))
    assert sorted(map(place, actual), key=repr) == sorted(
        ((r.partition, r.key, r.value, r.timestamp) for r in expected), key=repr
    )
    headers = [header(message) for message in actual]
    origins = {(h["haltline-replay-source"], h["haltline-replay-offset"]) for h in headers}
    assert origins == {(f"{r.topic}[{r.partition}]".encode(), str(r.offset).encode()) for r in expected}
    assert {h["haltline-replay-id"] for h in headers} == {document["id"].encode()}


def test_it_is_noted_for_the_audit_who_replayed_what_onto_which_topic_and_why(
    broker: EmbeddedBroker, night: LiveLog
) -> None:
    run(broker.bootstrap, "--onto", "lab", *BY)
    note = orjson.loads(on(broker.bootstrap, TOPICS.commands)[-1].value() or b"")
    assert (note["kind"], note["scope"], note["label"], note["by"]) == ("label", "fleet", "replayed", "ada")
    assert f"{night.count(TOPICS.actions)} records of haltline.actions" in note["reason"]
    assert note["reason"].endswith("onto lab: try it")


def test_a_dry_run_counts_and_writes_nothing(broker: EmbeddedBroker) -> None:
    code, output = run(broker.bootstrap, "--onto", "lab", "--dry-run", "--session", "night-1", "--json")
    document = orjson.loads(output)
    assert (code, document["records"], sum(document["by_partition"].values())) == (0, 10, 10)
    assert (document["first_ms"], document["last_ms"] >= at(24)) == (at(0) + 1, True)
    assert on(broker.bootstrap, "lab") == []


@pytest.mark.parametrize(
    ("options", "count"),
    [
        pytest.param(("--agent", "of night-2"), 8, id="an agent"),
        pytest.param(("--tool", "delete_asset"), 18, id="a tool, with the results of its calls"),
        pytest.param(("--where", 'targets == ["asset_id=night-1"]'), 5, id="a condition"),
        pytest.param(("--of", "interventions", "--detector", "destructive_repeat"), 4, id="a rule's decisions"),
        pytest.param(("--of", "detections", "--detector", "nothing"), 0, id="no such rule"),
    ],
)
def test_only_what_is_asked_for(broker: EmbeddedBroker, options: tuple[str, ...], count: int) -> None:
    code, output = run(broker.bootstrap, "--onto", "lab", "--dry-run", "--json", *options)
    assert (code, orjson.loads(output)["records"]) == (0, count), output


def test_a_replay_that_was_interrupted_goes_on_where_it_was(
    broker: EmbeddedBroker, night: LiveLog, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    spans = [span for span in night.spans if span.topic == TOPICS.actions]
    done = {f"{span.topic}[{span.partition}]": span.end // 2 for span in spans}
    Progress("abc", f"kafka {broker.bootstrap}", "lab", spans, dict(done), sum(done.values()), "all").save(state)
    code, output = run(broker.bootstrap, "--onto", "lab", "--resume", state, *BY, "--json")
    total = night.count(TOPICS.actions)
    assert (code, orjson.loads(output)["id"], orjson.loads(output)["written"]) == (0, "abc", total)
    assert len(on(broker.bootstrap, "lab")) == total - sum(done.values())
    assert Progress.load(state).left() == [Span(s.topic, s.partition, s.end, s.end) for s in spans]
    notes = len(on(broker.bootstrap, TOPICS.commands))
    code, output = run(broker.bootstrap, "--onto", "lab", "--resume", state, *BY)
    assert (code, "replay abc is done" in output) == (0, True)
    assert len(on(broker.bootstrap, "lab")) == total - sum(done.values())
    assert len(on(broker.bootstrap, TOPICS.commands)) == notes
    code, output = run(broker.bootstrap, "--onto", "other", "--resume", state, *BY)
    assert (code, "onto lab" in output) == (2, True)
    elsewhere = Progress.load(state)
    elsewhere.source = "kafka elsewhere:9092"
    elsewhere.save(tmp_path / "elsewhere.json")
    code, output = run(broker.bootstrap, "--onto", "lab", "--resume", tmp_path / "elsewhere.json", *BY)
    assert (code, "got that of one of kafka elsewhere:9092" in output) == (2, True)
    code, output = run(broker.bootstrap, "--onto", "lab", "--resume", state, "--tool", "delete_asset", *BY)
    assert (code, "expected the choice of this replay (tool delete_asset), got (all)" in output) == (2, True)


def test_an_interrupted_replay_is_noted_and_can_go_on(
    broker: EmbeddedBroker, night: LiveLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.ensure_topic("cut")
    options = ("--onto", "cut", "--resume", tmp_path / "state.json", *BY)
    with monkeypatch.context() as patched:
        turns = iter(range(5))

        def wait(_pace: Pace, _timestamp: int) -> None:
            if next(turns, None) is None:
                raise KeyboardInterrupt

        patched.setattr(Pace, "wait", wait)
        code, output = run(broker.bootstrap, *options)
    assert (code, "interrupted: 5 records are on cut; continue with --resume" in output) == (1, True), output
    code, output = run(broker.bootstrap, *options, "--json")
    assert (code, orjson.loads(output)["written"]) == (0, night.count(TOPICS.actions))
    assert len(on(broker.bootstrap, "cut")) == night.count(TOPICS.actions)
    notes = [orjson.loads(message.value() or b"")["reason"] for message in on(broker.bootstrap, TOPICS.commands)]
    result = [note.split(": ", 1)[1].split(" records")[0] for note in notes if " onto cut: " in note]
    every = night.count(TOPICS.actions)
    assert result == [
        f"{how}" for how in ("begins or goes on after 0", "interrupted after 5", "begins or goes on after 5", every)
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(("--onto", TOPICS.actions, *BY), "expected another topic", id="its own source"),
        pytest.param(("--onto", TOPICS.commands, *BY), "expected another topic", id="what workers read"),
        pytest.param(("--onto", "lab"), "--by and --reason", id="nobody"),
        pytest.param(("--onto", "lab", "--of", "nothing", *BY), "--of: expected one of actions", id="no such topic"),
        pytest.param(("--onto", "lab", "--where", "1 +", *BY), "--where", id="no condition"),
        pytest.param(("--speed", "2"), "expected --onto", id="a pace of nothing"),
    ],
)
def test_what_must_not_be_is_refused(broker: EmbeddedBroker, options: tuple[str, ...], text: str) -> None:
    before = len(on(broker.bootstrap, TOPICS.actions))
    code, output = run(broker.bootstrap, *options)
    assert (code, text in output) == (2, True), output
    assert len(on(broker.bootstrap, TOPICS.actions)) == before


class Time:
    """A clock that goes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(
    ("speed", "rate", "expected"),
    [
        pytest.param(None, None, [0, 0, 0], id="as fast as it goes"),
        pytest.param(1, None, [0, 10, 20], id="as it was"),
        pytest.param(10, None, [0, 1, 2], id="ten times as fast"),
        pytest.param(None, 0.5, [0, 2, 4], id="one in two seconds"),
        pytest.param(10, 0.5, [0, 2, 4], id="the slower of both"),
    ],
)
def test_a_pace_keeps_the_distances_or_the_rate(speed: float | None, rate: float | None, expected: list[float]) -> None:
    moment, actual = Time(), []
    pace = Pace(speed, rate, clock=lambda: moment.now_s, sleep=moment.sleep)
    for seconds in (0, 10, 20):
        pace.wait(at(seconds))
        actual.append(moment.now_s)
    assert actual == expected


def test_a_condition_is_on_the_fields_of_the_topics_own_records() -> None:
    result = LogRecord(TOPICS.interventions, 0, 0, 0, None, b'{"level": "KILL", "values": {"deletes": 3}}')
    kills = chosen(TOPICS, TOPICS.interventions, where='level == "KILL" and values.deletes >= 3')
    assert [kills(result), kills(result._replace(value=b'{"level": "NUDGE", "values": {"deletes": 3}}'))] == [
        True,
        False,
    ]
    with pytest.raises(ValueError, match="expected a path that begins with"):
        chosen(TOPICS, TOPICS.actions, where='level == "KILL"')


def test_what_cannot_be_read_is_chosen_only_where_nothing_is_asked() -> None:
    record = LogRecord(TOPICS.actions, 0, 0, 0, None, b"{")
    assert chosen(TOPICS)(record)
    assert not chosen(TOPICS, tools=["x"])(record)
    assert not chosen(TOPICS, where="args.n > 1")(record._replace(value=b'{"args": {"n": "text"}}'))


@pytest.mark.kafka
def test_a_range_in_time_of_the_real_kafka_goes_onto_another_topic(
    kafka: LocalKafka, kafka_topics: Topics, night: LiveLog
) -> None:
    target = f"{kafka_topics.prefix}lab"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(target, 4, 1)])[target].result()
    # Of now: a real broker deletes what is older than a week.
    begin_ms = time.time_ns() // 1_000_000 - 600_000
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    sent = [record for record in night.inputs() if record.topic == TOPICS.actions]
    for record in sent:
        moved = begin_ms + record.timestamp - at(0)
        producer.produce(kafka_topics.actions, record.value, record.key, partition=record.partition, timestamp=moved)
    assert producer.flush(10) == 0
    moments = [datetime.fromtimestamp((begin_ms + ms) / 1000, UTC).isoformat() for ms in (6_000, 112_000)]
    options = ("--prefix", kafka_topics.prefix, "--from", moments[0], "--to", moments[1], "--onto", target, *BY)
    code, output = run(kafka.bootstrap, *options, "--json")
    expected = [record for record in sent if at(6) <= record.timestamp < at(112)]
    assert (code, orjson.loads(output)["written"]) == (0, len(expected)), output
    actual = on(kafka.bootstrap, target)
    assert sorted((m.partition(), m.timestamp()[1], m.value()) for m in actual) == sorted(
        (r.partition, begin_ms + r.timestamp - at(0), r.value) for r in expected
    )
    admin.delete_topics([target])[target].result()
