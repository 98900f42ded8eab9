from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, insert, select, update

from haltline.console import run as console_run
from haltline.console.access.keys import Keys, Role, Who, new_key
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import reader_of
from haltline.console.read_model.store import empty, open_store
from haltline.console.run import of_audit, run, take_from
from haltline.console.settings import ConsoleSettings
from haltline.streams.audit.reading import KafkaRecord
from tests.builders import T0_MS
from tests.console.databases import database
from tests.console.read_model.contents import contents, of_batches
from tests.console.serving import console_in, tell
from tests.streams.notify.records import change
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night


def test_a_database_of_another_version_is_recreated_and_one_in_memory_refused(tmp_path: Path) -> None:
    url = database(tmp_path)
    with open_store(url).begin() as connection:
        connection.execute(insert(tables.offsets).values(topic="actions", partition=0, next=7))
    with open_store(url).begin() as connection:
        assert connection.execute(select(tables.offsets.c.next)).scalars().all() == [7]
        connection.execute(update(tables.versions).values(version=tables.SCHEMA_VERSION + 1))
    with open_store(url).connect() as connection:
        assert connection.execute(select(tables.offsets)).all() == []
    with pytest.raises(ValueError, match="expected a file, as several threads use it, got sqlite://"):
        open_store("sqlite://")


@pytest.fixture(scope="module")
def log() -> LiveLog:
    return a_night()


def settings(folder: Path, table: Path) -> ConsoleSettings:
    keys = Keys.of([(new_key(), Who("ada", Role.ADMIN))])
    return ConsoleSettings(bootstrap="127.0.0.1:1", keys=keys, database=database(folder), audit_table=str(table))


def of_topics(engine: Engine, log: LiveLog) -> dict[str, list[dict[str, Any]]]:
    """The content of a read model that is built like the feeder builds it."""
    reader = reader_of(TOPICS)
    batches = (
        [reader.row(KafkaRecord(*record[:6], tuple(record.headers)), record.timestamp) for record in kept]
        for kept in log.records.values()
    )
    return of_batches(engine, batches)


def test_it_is_what_the_topics_would_have_made_also_after_an_interruption_and_the_feeder_goes_on_behind_it(
    log: LiveLog, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_run, "_BATCH", 7)
    table = log.audited(tmp_path / "audit")
    expected = of_topics(engine, log)
    assert expected["interventions"]
    empty(engine)
    reported: list[tuple[int, int]] = []

    def say(taken: int, total: int) -> None:
        reported.append((taken, total))
        if len(reported) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_from(of_audit(settings(tmp_path, table)), engine, on_progress=say)
    take_from(of_audit(settings(tmp_path, table)), engine, on_progress=say)
    total = sum(map(len, log.records.values()))
    assert [taken for taken, _ in reported] == sorted({taken for taken, _ in reported}), "nothing is read twice"
    assert reported[-1] == (total, total)
    assert contents(engine) == expected
    with engine.connect() as connection:
        after = {(topic, partition): n for topic, partition, n in connection.execute(select(tables.offsets))}
    ends = {(topic.removeprefix(TOPICS.prefix), number): len(kept) for (topic, number), kept in log.records.items()}
    assert after == {place: end for place, end in ends.items() if end}


def test_without_a_table_nothing_is_emptied(
    log: LiveLog, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = of_topics(engine, log)
    assert run(settings(tmp_path, tmp_path / "none"), "127.0.0.1", 0, rebuild=True) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert contents(engine) == before


RECORDS = [
    change(incident="a-hint", level="NUDGE", severity="medium", session_id="s1", scope_id="s1"),
    change(incident="b-pause", level="PAUSE", severity="high", session_id="s2", scope_id="s2", agent_id="builder"),
    change("assigned", 2, "b-pause", session_id="s2", scope_id="s2", agent_id="builder", assignee="bo"),
    change(
        incident="c-kill", level="KILL", severity="critical", session_id="s3", scope_id="s3", cause="destruction",
        last_at=T0_MS + 60_000,
    ),
    change("resolved", 2, "d-done", session_id="s1", scope_id="s1", resolution="session_ended"),
    change(incident="d-done", session_id="s1", scope_id="s1"),
]  # fmt: skip
"""The revisions of one incident, some in the wrong order."""


@pytest.fixture(scope="module")
def of_incidents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with console_in(tmp_path_factory.mktemp("incidents")) as client:
        tell(client, [("incidents", record.key, record) for record in RECORDS])
        yield client


def test_incidents_are_listed_worst_first_found_by_every_filter_and_shown_with_their_history(
    of_incidents: TestClient,
) -> None:
    client = of_incidents

    def ids(**filters: str) -> list[str]:
        return [one["incident_id"] for one in client.get("/api/v1/incidents", params=filters).json()["incidents"]]

    assert ids() == ["c-kill", "b-pause", "a-hint", "d-done"], "open ones by level, then those that are resolved"
    assert ids(open_only="true") == ["c-kill", "b-pause", "a-hint"]
    assert ids(state="resolved") == ["d-done"]
    assert ids(session_id="s1") == ["a-hint", "d-done"]
    assert ids(agent_id="builder") == ids(assignee="bo") == ["b-pause"]
    assert ids(level="PAUSE", open_only="true") == ids(severity="high", open_only="true") == ["c-kill", "b-pause"]
    assert ids(cause="destruction") == ["c-kill"]
    assert ids(start_date="2025-06-15T15:07:00Z", open_only="true") == ["c-kill"]
    assert ids(skip="1", limit="1") == ["b-pause"]
    assert client.get("/api/v1/incidents/b").json()["assignee"] == "bo"
    history = client.get("/api/v1/incidents/b/history").json()
    assert [(one["revision"], one["change"]) for one in history] == [(1, "opened"), (2, "assigned")]
    assert client.get("/api/v1/incidents/e").status_code == 404
