"""The audit table in a store with the interface of S3: sinks race, and each record is there once."""

import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from haltline.streams.audit.query import open_query
from haltline.streams.audit.table import DeltaAuditTable
from haltline.streams.audit.verify import Verifier
from haltline.streams.audit.writer import AuditWriter, Place
from tests.streams.audit.records import NOW_MS, TOPICS
from tests.streams.audit.tables import FIRST, OTHER, add, writer
from tests.streams.counting import get, unused_port
from tests.waiting import wait_until

URI = "s3://audit/table"
FLUSHES = 3
Options = dict[str, str]


@pytest.fixture
def store() -> Iterator[Options]:
    # As a process of its own: the table's library does not let other threads run while it waits for an answer.
    port, nowhere = unused_port(), subprocess.DEVNULL
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
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
    failures: list[BaseException] = []

    def write(place: Place) -> None:
        try:
            for offset in range(FLUSHES):
                add(sinks[place], place, offset)
                sinks[place].flush(NOW_MS)
        except BaseException as failure:  # told in the test's own thread
            failures.append(failure)

    racing = [threading.Thread(target=write, args=(place,)) for place in sinks]
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join()
    assert failures == []
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
