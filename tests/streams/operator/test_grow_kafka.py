"""Topics that are grown on a real Kafka under agents that go on, with guards on the old topics and on the new ones."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient
from sqlalchemy import func, select

from haltline.cli.common import Exit
from haltline.console.read_model import tables
from haltline.console.read_model.feeder import Feeder
from haltline.console.read_model.store import open_store
from haltline.interventions.agent import Guard
from haltline.schemas.topics import SETS_KEY, Topics
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.kafka.topic_sets import current_topics
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_audit, start_worker, wait_until_ready
from haltline.streams.operator.grow import Group, Growing, older_sets
from haltline.streams.sessions import state_codec
from haltline.streams.sessions.state_cache import SCOPE_KEY
from tests.conftest import changelog_of
from tests.interventions.agent.attempts import KILLED, attempt, attempts, guard_of
from tests.interventions.agent.stand_in import standing
from tests.streams.commands import haltline
from tests.streams.running import in_thread
from tests.waiting import wait_until

TO = 7


class Site:
    """An installation on the real Kafka."""

    def __init__(self, bootstrap: str, topics: Topics, folder: Path) -> None:
        self.bootstrap, self.topics, self.grown = bootstrap, topics, topics.next
        self.options = ["--bootstrap", bootstrap, "--prefix", topics.prefix]
        self.folder, self.table = folder, folder / "audit"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._connections = 0

    def guard(self, session: str, *, mode: str = "blocking") -> Guard:
        """A guard with a connection of its own, as in a process of its own."""
        self._connections += 1
        options: dict[str, Any] = {"mode": mode, "fetch_wait_ms": 100 + self._connections, "agent_id": session}
        return guard_of(self.bootstrap, session, topic_prefix=self.topics.prefix, **options)

    def worker(self, stack: ExitStack, name: str, *options: str) -> Child:
        children = stack.enter_context(Children(self.folder / name))
        worker = start_worker(
            children, self.bootstrap, "--prefix", self.topics.prefix, "--checkpoint-interval", "0.2",
            "--session-timeout", "6", *options, embedded=False,
        )  # fmt: skip
        wait_until_ready(children, worker)
        return worker

    def sink(self, stack: ExitStack, name: str) -> Child:
        children = stack.enter_context(Children(self.folder / name))
        options = ["--table", str(self.table), "--flush", "0.5", "--metrics-port", "0"]
        return start_audit(children, self.bootstrap, [*self.options[2:], *options])

    def has_members(self, group: str) -> bool:
        (answer,) = self.admin.describe_consumer_groups([group], request_timeout=10).values()
        return bool(answer.result().members)

    def waiting(self) -> int:
        """The number of records that the bridge has not copied yet."""
        return older_sets(self.bootstrap, self.grown, client={})[0].waiting

    def grow(self) -> Any:
        return haltline("topics", "grow", "--to", TO, *self.options, "--json")

    def states(self) -> dict[str, int]:
        """The number of events in the last state of each session."""
        return {session: state_codec.decode(value).events for session, value in self.written().items()}

    def written(self) -> dict[str, bytes]:
        """The last state of each session."""
        last: dict[str, bytes] = {}
        for record in self.records(changelog_of(self.grown)):
            key = record.key() or b""
            if record.value() is not None and not key.startswith((SCOPE_KEY, b"\xfe")):
                last[key.decode()] = record.value() or b""
        return last

    def records(self, *topics: str) -> list[Any]:
        with LogReader(self.bootstrap, topics) as reader:
            return list(reader.to_end())

    def entries(self, topics: Topics) -> dict[bytes, bytes]:
        """What is in force, by key."""
        last = {record.key(): record.value() for record in self.records(topics.control)}
        return {key: value for key, value in last.items() if value is not None}

    def published(self) -> Counter[str]:
        """How many events of each session agents have published, to either set."""
        found = {
            event["event_id"]: event["session_id"]
            for record in self.records(self.topics.actions, self.grown.actions)
            for event in [orjson.loads(record.value())]
        }
        return Counter(found.values())


@pytest.fixture
def site(kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path) -> Iterator[Site]:
    site = Site(kafka.bootstrap, kafka_topics, tmp_path)
    yield site
    group = site.grown.prefix.removesuffix(".")
    names = [*site.grown.all, *(f"{group}{shadow}-sessions-changelog" for shadow in ("", "-shadow"))]
    for deleted in site.admin.delete_topics(names).values():
        deleted.exception()


def test_topics_grow_under_agents_and_nothing_is_lost_or_counted_twice(site: Site) -> None:
    with ExitStack() as stack:
        sink = site.sink(stack, "sink-before")
        worker = site.worker(stack, "before")
        old, moving, dead = (stack.enter_context(site.guard(name)) for name in ("old", "moving", "dead"))
        assert deletes(dead, 3) == ["executed", "executed", KILLED]
        assert deletes(old, 2) == ["executed", "executed"]
        assert deletes(moving, 1) == ["executed"]
        load = stack.enter_context(site.guard("load", mode="async"))
        with _acting(load):
            _grow(site, worker)
            with site.guard("dead") as returned:
                assert attempts(returned, 1, "get_asset") == [KILLED], "the kill holds on the new topics"
            assert sink.stop(within_s=60) == 0
            site.sink(stack, "sink-after")
            worker = site.worker(stack, "after")
            wait_until(lambda: site.waiting() < 500, "the bridge has caught up with the load", deadline_s=120)
            assert deletes(moving, 1) == ["executed"], "the bridge serves a guard on the old topics"
            assert deletes(old, 1) == [KILLED], "its third"
            assert attempts(dead, 1, "get_asset") == [KILLED]
            os.kill(worker.pid, signal.SIGKILL)
            site.worker(stack, "again")
            with site.guard("moving") as moved:
                assert deletes(moved, 1) == [KILLED], "deleted once before, once through the bridge, once here"
            with site.guard("new") as new:
                assert deletes(new, 3) == ["executed", "executed", KILLED]
            wait_until(lambda: moving.killed, "the guard on the old topics hears of the kill")
        reset = haltline("reset", "old", "--by", "ada", "--reason", "checked", *site.options)
        assert reset.exit_code == Exit.OK, reset.output
        assert site.entries(site.topics) == site.entries(site.grown), "the same is in force on both"
        assert b"probation" in site.entries(site.topics)[b"session:old"]
        for guard in (load, old, moving, dead):
            guard.close()
        published = site.published()
        assert published["load"] > 100
        keys = [{record.key() for record in site.records(one.actions)} for one in (site.topics, site.grown)]
        assert (b"new" in keys[0], b"new" in keys[1]) == (False, True), "a new guard uses the new topics"
        wait_until(lambda: site.states() == dict(published), "every event counts once", deadline_s=60)
        _audit_has_each_once(site, published)
        _read_model_has_each_once(site, published)


@contextmanager
def _acting(guard: Guard) -> Iterator[None]:
    """Acts all the time, in a thread."""
    ended = threading.Event()

    def act() -> None:
        number = 0
        while not ended.wait(0.03):
            attempt(guard, f"read_{number}", args={"path": f"f{number}"})
            number += 1

    with in_thread(act, ended.set):
        yield


def _grow(site: Site, worker: Child) -> None:
    """Refused while the worker runs, ended before the switch, then done, then only reported."""
    refused = site.grow()
    assert (refused.exit_code, "expected no members" in refused.stderr) == (Exit.NO, True)
    assert worker.stop(within_s=60) == 0
    group = site.topics.prefix.removesuffix(".")
    wait_until(lambda: not site.has_members(group), "the group has no members")

    def end_before_switch(step: str) -> None:
        if step.startswith("naming"):
            raise InterruptedError

    names = (group, site.grown.group(group, site.topics.prefix))
    groups = [Group(group, *(f"{name}-sessions-changelog" for name in names))]
    with pytest.raises(InterruptedError):
        Growing(site.bootstrap, site.topics, groups, TO, client={}, step=end_before_switch).run()
    produce_confirmed(
        site.bootstrap, site.grown.control, key=b"session:stale", value=standing(scope_id="stale").to_json()
    )
    assert current_topics(site.bootstrap, site.topics.prefix) == site.topics

    done = site.grow()
    assert done.exit_code == Exit.OK, done.output
    grown = orjson.loads(done.stdout)
    assert (grown["prefix"], grown["partitions"]) == (site.grown.prefix, TO)
    assert grown["states"] >= 4
    assert site.entries(site.grown).keys() >= {b"session:dead", SETS_KEY}
    assert b"session:stale" not in site.entries(site.grown)
    assert orjson.loads(site.grow().stdout) == grown | {"states": 0, "entries": 0}, "it is there already"
    assert current_topics(site.bootstrap, site.topics.prefix) == site.grown


def _read_model_has_each_once(site: Site, published: Counter[str]) -> None:
    engine = open_store(f"sqlite:///{site.folder / 'console.db'}")
    counted = select(tables.records.c.session_id, func.count()).where(tables.of_topic("actions")).group_by("session_id")
    with Feeder(engine, site.bootstrap, topics=site.grown, group="read-model") as feeder:
        feeder.start()
        wait_until(feeder.caught_up.is_set, "the read model has read all", deadline_s=60)
    with engine.connect() as connection:
        assert dict(map(tuple, connection.execute(counted))) == dict(published)
        in_force = set(connection.execute(select(tables.control.c.key)).scalars())
    assert in_force >= {"session:dead", "session:moving", "session:new"}
    engine.dispose()


def deletes(guard: Guard, times: int) -> list[str]:
    """Of a table of the session's own: rules across sessions have no part in it."""
    return attempts(guard, times, asset_id=f"of_{guard.session_id}")


def _audit_has_each_once(site: Site, published: Counter[str]) -> None:
    def kept() -> list[Any]:
        asked = haltline("audit", "query", "SELECT * FROM audit", "--table", str(site.table), "--json")
        return list(orjson.loads(asked.stdout)) if asked.exit_code == Exit.OK else []

    def events() -> Counter[str]:
        return Counter(row["session_id"] for row in kept() if row["topic"].endswith(".actions"))

    wait_until(lambda: events() == published, "the audit has each event once", deadline_s=60)
    decisions = Counter(row["decision_id"] for row in kept() if row["kind"] == "decision")
    sent = {
        orjson.loads(r.value())["decision_id"]
        for r in site.records(site.topics.interventions, site.grown.interventions)
    }
    assert set(decisions) == sent
    done = haltline("audit", "verify", "--table", str(site.table), "--prefix", site.topics.prefix)
    assert done.exit_code == Exit.OK, done.output
