import threading
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from haltline.schemas.topics import Topics
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.audit.telemetry import SinkTelemetry, telemetry
from haltline.streams.audit.writer import Place
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.runtime.metrics import Metrics
from tests.streams.audit.log import Log, wait_for_rows
from tests.streams.counting import get
from tests.waiting import wait_until

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
        observer.follow(sink)
        assert get(observer.port, "/readyz")[0] == 503
        thread = threading.Thread(target=sink.run)
        thread.start()
        wait_for_rows(tmp_path, 10)
        wait_until(lambda: get(observer.port, "/readyz")[0] == 200, "it is ready")
        wait_until(lambda: "consumer_high_watermark{" in get(observer.port, "/metrics")[1], "its ends are followed")
        sink.stop()
        thread.join()
        reported = samples(get(observer.port, "/metrics")[1])
    assert reported["sink_rows_total", "haltline.actions"] == 2
    assert reported["sink_rows_total", "haltline.dead-letter"] == 1
    assert reported["sink_unreadable_rows_total", "haltline.actions"] == 1
    assert reported["sink_commits_total",] == reported["sink_commit_seconds_count",] >= 1


def test_lag_losses_and_repeats_are_reported_by_topic_and_a_sink_that_stands_still_is_not_alive(tmp_path: Path) -> None:
    metrics = Metrics()
    observer = SinkTelemetry(metrics, stuck_after_s=60)
    observer.on_assigned(frozenset({ACTIONS}))
    observer.on_position(ACTIONS, 7, 10)
    observer.on_lost(ACTIONS, 12)
    observer.on_skipped("haltline.actions", 3)
    reported = samples(metrics.exposition().decode())
    assert reported["consumer_lag_records", "haltline.actions", "0"] == observer.verdict().lag_records == 3
    assert reported["consumer_committed_offset", "haltline.actions", "0"] == 7
    assert reported["sink_lost_records_total", "haltline.actions"] == 12
    assert reported["sink_skipped_rows_total", "haltline.actions"] == 3
    observer.on_assigned(frozenset({Place("haltline.feedback", 0)}))  # and another sink has the other one
    reported = samples(metrics.exposition().decode())
    assert reported["sink_lost_records_total", "haltline.feedback"] == 0, "its first loss would not be an increase"
    observer.on_assigned(frozenset())
    reported = samples(metrics.exposition().decode())
    assert ("consumer_lag_records", "haltline.actions", "0") not in reported
    assert reported["assigned_partitions",] == reported["ready",] == 0
    sink = AuditSink(AuditSettings(bootstrap="x:1", table=str(tmp_path)))
    observer, blind = SinkTelemetry(Metrics(), stuck_after_s=60), SinkTelemetry(Metrics(), stuck_after_s=60)
    observer.follow(sink)
    blind.follow(sink)
    assert observer.verdict().alive
    blind.on_blind(ValueError("a mistake of ours"))
    assert (blind.verdict().alive, "a mistake of ours" in blind.verdict().reasons[0]) == (False, True)
    sink.last_turn_s = time.monotonic() - 61
    verdict = observer.verdict()
    assert (verdict.alive, verdict.ready) == (False, False)
    assert "the sink has not come round for 61 s" in verdict.reasons[0]
