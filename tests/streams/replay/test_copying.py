"""A range of a log on a broker, and copies of records onto another topic: unchanged, and resumed where they ended."""

from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Message

from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.replay.copying import Pace, Progress
from haltline.streams.replay.records import Span
from tests.builders import at, cases
from tests.streams.commands import said
from tests.streams.replay.recorded import TOPICS, LiveLog

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


@cases(
    "speed, rate, expected",
    {
        "as fast as it goes": (None, None, [0, 0, 0]),
        "ten times as fast": (10, None, [0, 1, 2]),
        "one in two seconds": (None, 0.5, [0, 2, 4]),
        "the slower of both": (10, 0.5, [0, 2, 4]),
    },
)
def test_a_pace_keeps_the_distances_or_the_rate(speed: float | None, rate: float | None, expected: list[float]) -> None:
    slept: list[float] = []
    pace, actual = Pace(speed, rate, clock=lambda: sum(slept), sleep=slept.append), []
    for seconds in (0, 10, 20):
        pace.wait(at(seconds))
        actual.append(sum(slept))
    assert actual == expected
