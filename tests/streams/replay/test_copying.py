"""A range of a log on a broker, and copies of records onto another topic: unchanged, and resumed where they ended."""

from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_reader import Gone, LogReader
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.replay.copying import Pace, Progress
from haltline.streams.replay.kafka_range import KafkaRange
from haltline.streams.replay.records import Span
from haltline.streams.replay.time_range import OPEN, BadMoment, Moment, parse_moment, parse_range
from tests.builders import at
from tests.streams.commands import said
from tests.streams.replay.recorded import TOPICS, LiveLog, named, put

run = partial(said, "replay", "kafka", "--bootstrap")
BY = ("--by", "ada", "--reason", "try it")


def on(bootstrap: str, topic: str) -> list[Message]:
    with LogReader(bootstrap, [topic]) as reader:
        return list(reader.to_end())


def test_records_are_as_they_were_and_say_where_from_and_it_is_noted_who_replayed_them(
    broker: EmbeddedBroker, night: LiveLog
) -> None:
    code, output = run(broker.bootstrap, "--onto", "lab", *BY, "--json")
    document = orjson.loads(output)
    actual = on(broker.bootstrap, "lab")
    expected = [record for record in night.inputs() if record.topic == TOPICS.actions]
    assert (code, document["written"]) == (0, len(expected))
    there = [(m.partition(), m.key(), m.value(), m.timestamp()[1]) for m in actual]
    assert sorted(there, key=repr) == sorted(((r.partition, r.key, r.value, r.timestamp) for r in expected), key=repr)
    headers: list[dict[str, Any]] = [dict(m.headers() or ()) for m in actual]
    origins = {(h["haltline-replay-source"], h["haltline-replay-offset"]) for h in headers}
    assert origins == {(f"{r.topic}[{r.partition}]".encode(), str(r.offset).encode()) for r in expected}
    assert {h["haltline-replay-id"] for h in headers} == {document["id"].encode()}
    note = orjson.loads(on(broker.bootstrap, TOPICS.commands)[-1].value() or b"")
    assert (note["kind"], note["scope"], note["label"], note["by"]) == ("label", "fleet", "replayed", "ada")
    assert f"{len(expected)} records of haltline.actions" in note["reason"]
    assert note["reason"].endswith("onto lab: try it")


def test_a_dry_run_counts_what_is_asked_for_and_what_must_not_be_is_refused(broker: EmbeddedBroker) -> None:
    asked: dict[tuple[str, ...], int] = {
        ("--session", "night-1"): 10,
        ("--agent", "of night-2"): 8,
        ("--tool", "delete_asset"): 18,  # with the results of its calls
        ("--where", 'targets == ["asset_id=night-1"]'): 5,
        ("--of", "interventions", "--detector", "destructive_repeat"): 4,
        ("--of", "detections", "--detector", "nothing"): 0,
    }
    for options, count in asked.items():
        code, output = run(broker.bootstrap, "--onto", "lab", "--dry-run", "--json", *options)
        document = orjson.loads(output)
        assert (code, document["records"], sum(document["by_partition"].values())) == (0, count, count), options
        if "night-1" in options:
            assert (document["first_ms"], document["last_ms"] >= at(24)) == (at(0) + 1, True)
    assert on(broker.bootstrap, "lab") == []
    refused: dict[tuple[str, ...], str] = {
        ("--onto", TOPICS.actions, *BY): "expected another topic",  # its own source
        ("--onto", TOPICS.commands, *BY): "expected another topic",  # what workers read
        ("--onto", "lab"): "--by and --reason",
        ("--onto", "lab", "--of", "nothing", *BY): "--of: expected one of actions",
        ("--onto", "lab", "--where", "1 +", *BY): "--where",
        ("--speed", "2"): "expected --onto",
    }
    before = len(on(broker.bootstrap, TOPICS.actions))
    for options, text in refused.items():
        code, output = run(broker.bootstrap, *options)
        assert (code, text in output) == (2, True), output
    assert len(on(broker.bootstrap, TOPICS.actions)) == before


def test_a_replay_that_was_interrupted_goes_on_where_it_was_and_no_other_does(
    broker: EmbeddedBroker, night: LiveLog, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    spans = [span for span in night.spans if span.topic == TOPICS.actions]
    done = {f"{span.topic}[{span.partition}]": span.end // 2 for span in spans}
    Progress("abc", f"kafka {broker.bootstrap}", "lab", spans, dict(done), sum(done.values()), "all").save(state)
    code, output = run(broker.bootstrap, "--onto", "lab", "--resume", state, *BY, "--json")
    total = night.count(TOPICS.actions)
    assert (code, orjson.loads(output)["id"], orjson.loads(output)["written"]) == (0, "abc", total)
    assert Progress.load(state).left() == [Span(s.topic, s.partition, s.end, s.end) for s in spans]
    elsewhere = Progress.load(state)
    elsewhere.source = "kafka elsewhere:9092"
    elsewhere.save(tmp_path / "elsewhere.json")
    notes = len(on(broker.bootstrap, TOPICS.commands))
    for onto, kept, more, expected in (
        ("lab", state, (), (0, "replay abc is done")),
        ("other", state, (), (2, "onto lab")),
        ("lab", tmp_path / "elsewhere.json", (), (2, "got that of one of kafka elsewhere:9092")),
        ("lab", state, ("--tool", "delete_asset"), (2, "expected the choice of this replay (tool delete_asset), got")),
    ):
        code, output = run(broker.bootstrap, "--onto", onto, "--resume", kept, *more, *BY)
        assert (code, expected[1] in output) == (expected[0], True), output
    assert len(on(broker.bootstrap, "lab")) == total - sum(done.values())
    assert len(on(broker.bootstrap, TOPICS.commands)) == notes


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
        f"{how}" for how in ("starts or continues after 0", "interrupted after 5", "starts or continues after 5", every)
    ]


@pytest.mark.parametrize(
    ("speed", "rate", "expected"),
    [
        pytest.param(None, None, [0, 0, 0], id="as fast as it goes"),
        pytest.param(10, None, [0, 1, 2], id="ten times as fast"),
        pytest.param(None, 0.5, [0, 2, 4], id="one in two seconds"),
        pytest.param(10, 0.5, [0, 2, 4], id="the slower of both"),
    ],
)
def test_a_pace_keeps_the_distances_or_the_rate(speed: float | None, rate: float | None, expected: list[float]) -> None:
    slept: list[float] = []
    pace, actual = Pace(speed, rate, clock=lambda: sum(slept), sleep=slept.append), []
    for seconds in (0, 10, 20):
        pace.wait(at(seconds))
        actual.append(sum(slept))
    assert actual == expected


def test_offsets_of_actions_cut_the_other_topics_at_their_times(broker: EmbeddedBroker, night: LiveLog) -> None:
    number, kept = next((p, k) for (t, p), k in night.records.items() if t == TOPICS.actions and len(k) > 5)
    with KafkaRange(broker.bootstrap, TOPICS, Moment(offsets={number: 2}), Moment(offsets={number: 5})) as found:
        assert Span(TOPICS.actions, number, 2, 5) in found.spans
        actual = list(found.inputs())
    assert {record.partition for record in actual} == {number}
    assert [record.offset for record in actual if record.topic == TOPICS.actions] == [2, 3, 4]
    assert all(kept[2].timestamp <= record.timestamp < kept[5].timestamp for record in actual)


@pytest.mark.parametrize("offsets", [{0: 100_000}, {9: 0}], ids=["beyond the end", "no such partition"])
def test_an_offset_that_is_not_there_is_refused(broker: EmbeddedBroker, offsets: dict[int, int]) -> None:
    with pytest.raises(BadMoment, match="expected"):
        KafkaRange(broker.bootstrap, TOPICS, Moment(offsets=offsets))


@pytest.mark.kafka
def test_what_the_broker_has_deleted_since_the_range_was_frozen_is_missed_aloud(
    kafka: LocalKafka, kafka_topics: Topics
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n in range(100):
        producer.produce(kafka_topics.actions, f"{n}".encode(), b"k", partition=0)
    assert producer.flush(10) == 0
    with KafkaRange(kafka.bootstrap, kafka_topics) as found:
        (span,) = [one for one in found.spans_of(kafka_topics.actions) if one.count]
        assert len(list(found.read([span]))) == 100
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for deleted in admin.delete_records([TopicPartition(kafka_topics.actions, 0, 38)]).values():
            deleted.result()
        with pytest.raises(Gone, match="expected offsets 0 to 99, got a broker that has deleted those before 38"):
            list(found.read([span]))
        assert len(list(found.read([Span(span.topic, 0, 38, 100)]))) == 62


@pytest.mark.kafka
def test_a_range_in_time_of_the_real_kafka_is_what_the_broker_says_it_is_and_no_group_is_joined(
    kafka: LocalKafka, kafka_topics: Topics, night: LiveLog
) -> None:
    put(kafka.bootstrap, night, kafka_topics)
    start, end = at(6), at(112)
    with KafkaRange(kafka.bootstrap, kafka_topics, Moment(start), Moment(end)) as found:
        actual = [(record.topic, record.partition, record.offset) for record in found.inputs()]
    expected = [record for record in night.inputs() if start <= record.timestamp < end]
    assert actual == [(named(r.topic, kafka_topics), r.partition, r.offset) for r in expected]
    groups = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_consumer_groups
    before = {group.group_id for group in groups().result().valid}
    code, output = said("replay", "kafka", "--bootstrap", kafka.bootstrap, "--prefix", kafka_topics.prefix, "--json")
    document = orjson.loads(output)
    decided = night.count(TOPICS.interventions)
    assert (code, document["first_divergence"], document["same"]) == (0, None, decided), output
    assert {group.group_id for group in groups().result().valid} == before


NOW_MS = 1_750_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", OPEN, id="nothing is open"),
        pytest.param("-90m", Moment(NOW_MS - 5_400_000), id="how long ago"),
        pytest.param("-1d2h", Moment(NOW_MS - 93_600_000), id="in several units"),
        pytest.param("2025-06-15T15:06:40Z", Moment(NOW_MS), id="in UTC"),
        pytest.param("2025-06-15T17:06:40+02:00", Moment(NOW_MS), id="in another zone"),
        pytest.param("2025-06-15T15:06:40", Moment(NOW_MS), id="no zone is UTC"),
        pytest.param("0:12,3:7", Moment(offsets={0: 12, 3: 7}), id="offsets of two partitions"),
    ],
)
def test_a_moment_is_a_time_or_offsets(text: str, expected: Moment) -> None:
    assert parse_moment(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["soon", "-", "12", "0:1,", "-90", "0:-1"])
def test_what_is_neither_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(BadMoment, match="expected a time"):
        parse_moment(text, NOW_MS)


def test_a_range_may_be_open_at_either_end_and_one_that_ends_before_it_begins_is_refused() -> None:
    assert parse_range("", "-1s", 5_000) == (Moment(), Moment(4_000))
    assert parse_range("0:9", "1:5", 0) == (Moment(offsets={0: 9}), Moment(offsets={1: 5}))
    for since, until in (("-10m", "-10m"), ("-1m", "-10m"), ("0:9,1:5", "1:5")):
        with pytest.raises(BadMoment, match=f"--from {since}: expected a moment before --to, got --to {until}"):
            parse_range(since, until, 0)
