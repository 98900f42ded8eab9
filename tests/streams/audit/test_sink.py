"""The sink on a broker and a table, also one in S3: what it writes, where it begins, how it ends, what it reports."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families

from haltline.cli.operator.audit.maintenance import record_verification
from haltline.cli.operator.repeating import repeat
from haltline.schemas.topics import Topics
from haltline.streams.audit.compaction import Compacted, compact_if_many
from haltline.streams.audit.query import open_query, session_story
from haltline.streams.audit.run import EXIT_FAILED, run_audit
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.telemetry import SinkTelemetry, telemetry
from haltline.streams.audit.verify import Problem, Verification, Verifier
from haltline.streams.audit.writer import AuditWriter, Place
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import free_port
from haltline.streams.runtime.metrics import Metrics
from tests.mock_cluster import ApiKey, MockCluster
from tests.streams.audit.log import Log, assert_each_once, wait_for_rows
from tests.streams.audit.records import NOW_MS, REASON, TOPICS, one_of_each
from tests.streams.audit.tables import FIRST, OTHER, Audit, add, writer
from tests.streams.broker_log import get
from tests.streams.running import in_thread
from tests.waiting import wait_until


@pytest.fixture
def log(cluster: MockCluster) -> Iterator[Log]:
    with Log(cluster.bootstrap, Topics()) as log:
        yield log


def test_every_topic_is_audited_each_record_once_and_the_group_shows_how_far(log: Log, tmp_path: Path) -> None:
    log.send_one_of_each()
    bad = [b"\xff" * 50, b"{", None, b"[" * 50_000, b'{"v":1}', b"x" * (2 * 1024 * 1024)]
    for value in bad:
        log.send(log.topics.actions, value, partition=1, key=b"\xff\x00", headers=[("h", b"\xff"), ("h", None)])
    log.flush()
    sink = AuditSink(log.settings(tmp_path))
    with in_thread(sink.run, sink.stop):
        wait_for_rows(tmp_path, len(one_of_each()) + len(bad))
        log.send_events(300)
        wait_for_rows(tmp_path, len(one_of_each()) + len(bad) + 306)
    assert_each_once(tmp_path, log.positions())
    of_partition = f"topic = '{log.topics.actions}' AND \"partition\" = 1"
    query = f'SELECT raw, decode_error FROM audit WHERE {of_partition} ORDER BY "offset" LIMIT 7'
    rows = open_query(tmp_path).rows(query)
    assert [row["raw"] for row in rows[:6]] == bad
    assert [row["decode_error"] is None for row in rows] == [False] * 6 + [True]
    with log.consumer() as consumer:
        assert log.committed("haltline-audit") == {
            place: end
            for place in {(topic, partition) for topic, partition, _ in log.positions()}
            for _, end in [consumer.get_watermark_offsets(TopicPartition(*place), timeout=10)]
        }
    story = session_story(tmp_path, "42")
    assert f"session_killed: {REASON}" in [row["summary"] for row in story]
    (kill,) = [row for row in story if row["kind"] == "decision"]
    assert (kill["level"], kill["code"]) == ("KILL", "session_killed_loop_guard")
    assert kill["detector"] == "destructive_repeat"


def test_a_broker_or_a_table_that_is_not_there_or_forbids_to_read_ends_it_with_a_message(
    cluster: MockCluster, log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run_audit(log.settings(tmp_path / "file" / "audit")) == EXIT_FAILED
    assert "Not a directory" in caplog.text
    caplog.clear()
    assert run_audit(log.settings(tmp_path, bootstrap="127.0.0.1:1", answer_within_s=0.5)) == EXIT_FAILED
    assert "audit sink: KafkaException" in caplog.text
    cluster.fail_next(ApiKey.LIST_OFFSETS, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 200)
    assert run_audit(log.settings(tmp_path)) == EXIT_FAILED
    assert "TOPIC_AUTHORIZATION_FAILED" in caplog.text


ACTIONS = Place("haltline.actions", 0)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The value of each sample by its name and its labels' values, topic before partition."""
    every = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    labels = [[one.labels[label] for label in sorted(one.labels, reverse=True)] for one in every]
    return {(one.name.removeprefix("haltline_"), *of): one.value for one, of in zip(every, labels, strict=True)}


def test_what_a_sink_does_is_measured_and_served(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with Log(embedded.bootstrap, Topics()) as log:
        log.send_one_of_each()
        log.send(log.topics.actions, b"not an event")
        log.flush()
        settings = log.settings(tmp_path, metrics_port=0)
    with telemetry(settings) as observer:
        sink = AuditSink(settings, observer=observer)
        assert get(observer.port, "/readyz")[0] == 503
        with in_thread(sink.run, sink.stop):
            wait_for_rows(tmp_path, 10)
            wait_until(lambda: get(observer.port, "/readyz")[0] == 200, "it is ready")
            wait_until(lambda: "consumer_high_watermark{" in get(observer.port, "/metrics")[1], "its ends are followed")
        reported = samples(get(observer.port, "/metrics")[1])
    assert reported["sink_rows_total", "haltline.actions"] == 2
    assert reported["sink_rows_total", "haltline.dead-letter"] == 1
    assert reported["sink_unreadable_rows_total", "haltline.actions"] == 1
    assert reported["sink_commits_total",] == reported["sink_commit_seconds_count",] >= 1


def test_lag_losses_and_repeats_are_reported_by_topic_and_a_sink_that_stands_still_is_not_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = Metrics()
    observer = SinkTelemetry(metrics)
    observer.on_assigned(frozenset({ACTIONS}))
    observer.on_position(ACTIONS, 7, 10_000)
    observer.on_lost(ACTIONS, 12)
    observer.on_skipped("haltline.actions", 3)
    reported = samples(metrics.exposition().decode())
    at = (ACTIONS.topic, ACTIONS.partition)
    assert (observer.positions(), observer.committed(at)) == ({at: (7, 10_000)}, 7)
    assert reported["sink_lost_records_total", "haltline.actions"] == 12
    assert reported["sink_skipped_rows_total", "haltline.actions"] == 3
    observer.on_assigned(frozenset({Place("haltline.feedback", 0)}))  # and another sink has the other one
    reported = samples(metrics.exposition().decode())
    assert reported["sink_lost_records_total", "haltline.feedback"] == 0, "its first loss would not be an increase"
    observer.on_assigned(frozenset())
    reported = samples(metrics.exposition().decode())
    assert observer.positions() == {}
    assert reported["assigned_partitions",] == reported["ready",] == 0
    observer, blind = SinkTelemetry(Metrics()), SinkTelemetry(Metrics())
    assert observer.verdict().alive
    blind.on_blind(ValueError("a mistake of ours"))
    assert (blind.verdict().alive, "a mistake of ours" in blind.verdict().reasons[0]) == (False, True)
    monkeypatch.setattr(observer, "_last_turn_s", time.monotonic() - 61)
    verdict = observer.verdict()
    assert (verdict.alive, verdict.ready) == (False, False)
    assert re.search("the sink has not come round for [0-9]+ s", verdict.reasons[0])


def test_the_last_verification_is_reported_and_a_table_that_is_away_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    well = Verification(rows=7, unsigned=2)
    broken = Verification(rows=9, problems=[Problem("haltline.actions[0]", 3, "changed")])
    results = iter((well, OSError("no table"), broken))
    reported: list[str] = []
    text = ""

    def once() -> Verification:
        nonlocal text
        text += capsys.readouterr().err
        port = re.search(r"serves /metrics on port (\d+)", text)
        assert port is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=10) as answer:
            reported.append(answer.read().decode())
        result = next(results, None)
        if result is None:
            raise KeyboardInterrupt
        if isinstance(result, OSError):
            raise result
        return result

    metrics = Metrics("verifier")
    every, to_note = timedelta(milliseconds=1), partial(record_verification, metrics, once)
    with pytest.raises(KeyboardInterrupt):
        repeat("audit verify", every, to_note, metrics, ("127.0.0.1", 0))
    assert "haltline_audit_chain_intact" not in reported[0], "nothing was verified yet"
    for sample in ("chain_intact 1.0", "verified_rows 7.0", "unsigned_rows 2.0"):
        assert [f"haltline_audit_{sample}" in one for one in reported[1:3]] == [True, True]
    moments = [re.search(r"verification_timestamp_seconds (\S+)", one) for one in reported[1:]]
    assert moments[0] is not None
    assert moments[1] is not None
    assert moments[0][1] == moments[1][1], "what could not be verified is no verification"
    assert "haltline_audit_chain_intact 0.0" in reported[3]
    assert "no table" in text


def files_of(table: Path) -> int:
    return len(DeltaTable(str(table)).file_uris())


class Heard(SinkTelemetry):
    """What became of the runs of a sink."""

    def __init__(self) -> None:
        super().__init__(Metrics())
        self.removed = 0

    def on_compacted(self, done: Compacted) -> None:
        assert done.failure == ""
        self.removed += done.removed


def test_a_sink_that_writes_has_its_files_put_together_and_each_record_once(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    table, received, sent = tmp_path / "audit", Heard(), 0
    with Log(embedded.bootstrap, Topics()) as log:
        settings = log.settings(table, flush_s=0.02, compact_commits=4, compact_every_s=0.0)
        sink = AuditSink(settings, observer=received)
        with in_thread(sink.run, sink.stop):
            while not received.removed and sent < 3000:
                log.send_events(5, first=sent)
                sent += 5
                wait_for_rows(table, sent + -(-sent // 50))
        assert received.removed >= 4
        assert_each_once(table, log.positions())


def test_few_files_are_left_alone_and_many_become_few_and_nothing_of_the_proof_is_lost(audit: Audit) -> None:
    before, rows = files_of(audit.uri), audit.verify().rows
    assert before >= 4
    left = compact_if_many(str(audit.uri), {}, least_files=before + 1, kept_hours=0)
    assert left == Compacted(files=before)
    done = compact_if_many(str(audit.uri), {}, least_files=before, kept_hours=0)
    assert (done.removed, done.files) == (before, files_of(audit.uri))
    assert done.files < before <= done.deleted
    found = audit.verify()
    assert (found.ok, found.rows) == (True, rows)
    audit.write(80, 20)
    assert audit.verify().ok, "the chains go on behind it"


URI = "s3://audit/table"
FLUSHES = 3
Options = dict[str, str]
SERVER = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


@pytest.fixture
def store() -> Iterator[Options]:
    # As a process of its own: the table's library does not let other threads run while it waits for an answer.
    # One request after another: moto looks for the object and then puts it, so in two threads both of two conditional
    # requests can succeed, which no store allows.
    port, nowhere = free_port(), subprocess.DEVNULL
    command = [sys.executable, "-c", SERVER, str(port)]
    server = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    endpoint = f"http://127.0.0.1:{port}"
    wait_until(lambda: server.poll() is None and get(port, "/")[0] > 0, "the store answers", deadline_s=60)
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/audit", method="PUT")).close()
    options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    yield options | {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    server.kill()
    server.wait()


def sink(store: Options, *places: Place) -> AuditWriter:
    return writer(DeltaAuditTable(URI, store), *places)


def test_two_sinks_that_race_write_each_record_once_and_both_chains_hold(store: Options) -> None:
    sinks = {place: sink(store, place) for place in (FIRST, OTHER)}

    def write(place: Place) -> None:
        for offset in range(FLUSHES):
            add(sinks[place], place, offset)
            sinks[place].flush(NOW_MS)

    with ThreadPoolExecutor() as racing:
        list(racing.map(write, sinks))
    rows = open_query(URI, store).rows('SELECT "partition", "offset" FROM audit')
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        (place.partition, offset) for place in sinks for offset in range(FLUSHES)
    ]
    verifier = Verifier(URI, store, topics=TOPICS)
    assert [rows for _, rows in verifier.run()] == [FLUSHES, FLUSHES]
    assert verifier.found.ok
    zombie = sink(store, FIRST)
    for one in (sinks[FIRST], zombie):
        add(one, FIRST, FLUSHES)
    assert sinks[FIRST].flush(NOW_MS).committed == {FIRST: FLUSHES}
    late = zombie.flush(NOW_MS)
    assert (late.committed, late.moved, late.dropped) == ({}, {FIRST: FLUSHES}, {TOPICS.actions: 1})
