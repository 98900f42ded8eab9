"""The sink's table keeps few files by itself, while it is written, and stays provable."""

import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from haltline.schemas.topics import Topics
from haltline.streams.audit.compaction import Compacted, Compactor, Ended, compact_if_many
from haltline.streams.audit.observer import SinkObserver
from haltline.streams.audit.settings import AuditSettings
from haltline.streams.audit.sink import AuditSink
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.streams.audit.log import Log, assert_each_once, wait_for_rows
from tests.streams.audit.tables import Audit
from tests.waiting import wait_until


def files_of(table: Path) -> int:
    return len(DeltaTable(str(table)).file_uris())


class Heard(SinkObserver):
    """What became of the runs of a sink."""

    def __init__(self) -> None:
        self.removed = 0

    def on_compacted(self, done: Compacted | Exception, seconds: float) -> None:
        assert isinstance(done, Compacted), done
        assert seconds > 0
        self.removed += done.removed


def test_a_sink_that_writes_has_its_files_put_together_and_each_record_once(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    table, received, sent = tmp_path / "audit", Heard(), 0
    with Log(embedded.bootstrap, Topics()) as log:
        settings = log.settings(table, flush_s=0.02, compact_commits=4, compact_every_s=0.0)
        sink = AuditSink(settings, observer=received)
        thread = threading.Thread(target=sink.run)
        thread.start()
        try:
            while not received.removed and sent < 3000:
                log.send_events(5, first=sent)
                sent += 5
                wait_for_rows(table, sent + -(-sent // 50))
        finally:
            sink.stop()
            thread.join()
        assert received.removed >= 4
        assert_each_once(table, log.positions())


def test_few_files_are_left_alone_and_many_become_few_and_nothing_of_the_proof_is_lost(audit: Audit) -> None:
    before, rows = files_of(audit.uri), audit.verify().rows
    assert before >= 4
    left = compact_if_many(str(audit.uri), {}, least_files=before + 1, kept_hours=0)
    assert left == Compacted(files=before, removed=0, added=0, deleted=0)
    done = compact_if_many(str(audit.uri), {}, least_files=before, kept_hours=0)
    assert (done.removed, done.files) == (before, files_of(audit.uri))
    assert done.files < before <= done.deleted
    found = audit.verify()
    assert (found.ok, found.rows) == (True, rows)
    audit.write(80, 20)
    assert audit.verify().ok, "the chains go on behind it"


def test_what_fails_is_reported_and_tried_again_and_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    often: dict[str, Any] = {"compact_commits": 2, "compact_every_s": 0.0, "vacuum_hours": None}
    compactor = Compactor(AuditSettings(bootstrap="x:1", table=str(tmp_path / "none"), **often))
    ended: list[Ended] = []

    def looks() -> bool:
        ended.extend(one for one in [compactor.look()] if one is not None)
        return bool(ended)

    compactor.wrote()
    assert compactor.look() is None
    assert compactor._running is None, "one commit is not many"
    for _ in range(2):
        ended.clear()
        compactor.wrote()
        compactor.wrote()
        wait_until(looks, "a run has ended", deadline_s=60)
        assert "No such file or directory" in str(ended[0].what)
    compactor.close()
    for wrong in ({"compact_commits": 1}, {"compact_every_s": -1.0}, {"vacuum_hours": -1}):
        with pytest.raises(ValueError, match="expected"):
            AuditSettings(bootstrap="x:1", **wrong)
