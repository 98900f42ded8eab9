"""The notifier from the topic of incidents to a receiver and back to its own topic."""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.incidents import IncidentChange, IncidentRecord
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from tests.streams.notify.receivers import receiver
from tests.streams.notify.records import change
from tests.streams.notify.running import System, ids
from tests.waiting import wait_until


@pytest.fixture
def system(embedded: EmbeddedBroker, tmp_path: Path) -> System:
    return System(embedded.bootstrap, Topics(), tmp_path)


def sample(metrics: object, name: str, **labels: str) -> float | None:
    registry = metrics.registry  # type: ignore[attr-defined]  # Metrics
    value: float | None = registry.get_sample_value(f"haltline_{name}", labels)
    return value


def test_each_change_is_reported_once_though_its_record_comes_twice(system: System) -> None:
    with receiver("webhook") as there:
        system.configure(there.url, oldest="1h")
        system.produce(change("opened", 1, "old"), ago_s=7200)
        system.produce(change(), change(), change("counted", 2), change("escalated", 3))
        with system.running():
            outcomes = {record.incident_id: record.outcome for record in system.wait_for(3)}
        assert outcomes == {"old": "too_old", "inc-1": "sent"}
        assert [one.body["type"].rpartition(".")[2] for one in there.heard] == ["opened", "escalated"]


def test_of_two_notifiers_one_gathers_every_digest_and_the_other_takes_over_what_is_held_back(system: System) -> None:
    """The sessions are on several partitions, which the group would share otherwise."""

    def opened(what: str) -> list[IncidentRecord]:
        return [change("opened", 1, f"{what}-{n}", scope_id=f"{what}{n}", session_id=f"{what}{n}") for n in range(8)]

    with receiver("webhook") as there:
        system.configure(there.url, {"digest": {"every": "1h"}})
        with system.running() as (first, _), system.running() as (second, _):
            both = (first, second)
            wait_until(
                lambda: all(one.verdict().ready for one in both) and not all(one.verdict().partitions for one in both),
                "one sends and the other stands by",
                deadline_s=60,
            )
            system.produce(*opened("due"), ago_s=7200)
            system.wait_for(8)
            system.produce(*opened("held"))
            leads, follows = sorted(both, key=lambda one: one.verdict().partitions, reverse=True)
            wait_until(lambda: leads.waiting == 8, "all are held back")
            leads.stop()
            wait_until(lambda: follows.waiting == 8, "the other has them all", deadline_s=60)
        assert [len(one.body["data"]["changes"]) for one in there.heard] == [8]


def test_it_waits_as_long_as_the_receiver_says_and_tries_again(system: System) -> None:
    with receiver("webhook") as there:
        there.answers += [(503, {}, "busy"), (429, {"Retry-After": "2"}, "slow down")]
        system.configure(there.url)
        system.produce(change())
        with system.running() as (_, metrics):
            (record,) = system.wait_for(1)
        assert (record.outcome, record.attempts, len(set(ids(there.heard)))) == ("sent", 3, 1)
        assert record.at - record.due >= 2000
        assert sample(metrics, "notifications_total", channel="hook", outcome="retried") == 2


def test_what_is_refused_is_a_dead_letter_and_the_next_one_is_sent(system: System) -> None:
    with receiver("webhook") as there:
        there.answers.append((410, {}, f"gone: {there.url}"))
        system.configure(there.url)
        system.produce(b"{}", change(), change("resolved", 2))
        with system.running() as (_, metrics):
            found = {record.change: record for record in system.wait_for(2)}
        assert {what: record.outcome for what, record in found.items()} == {"opened": "failed", "resolved": "sent"}
        assert there.url not in found[IncidentChange.OPENED].detail
        letters = {letter.reason: letter for letter in system.letters()}
        assert letters.keys() == {BadRecord.UNDELIVERED, BadRecord.INVALID}
        assert letters[BadRecord.UNDELIVERED].raw == change().to_json()
        assert sample(metrics, "notifications_total", channel="hook", outcome="failed") == 1
        assert sample(metrics, "dead_letters_total", reason="undelivered") == 1


def test_an_alert_that_is_open_is_reported_again_also_after_a_restart(system: System, tmp_path: Path) -> None:
    with receiver("webhook") as hook, receiver("alertmanager") as there:
        alerts = {"alerts": {"kind": "alertmanager", "url": there.url, "repeat": "1s"}}
        system.configure(hook.url, {"channels": ["alerts"]}, channels=alerts)
        system.produce(change())
        with system.running():
            wait_until(lambda: len(there.heard) > 2, "the alert is said again")
        before = len(there.heard)
        with system.running():
            wait_until(lambda: len(there.heard) > before, "it is said again after a restart")
            system.produce(change("resolved", 2))
            system.wait_for(2)
        result = {one.body[-1]["labels"]["incident_id"] for one in there.heard}
        assert result == {"inc-1"}


def test_a_kill_between_a_message_and_its_record_loses_nothing_and_repeats_only_what_was_under_way(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    system = System(kafka.bootstrap, kafka_topics, tmp_path)
    changes = [change("opened", 1, f"inc-{n}", scope_id=f"s{n}") for n in range(8)]
    changes += [change("resolved", 2, f"inc-{n}", scope_id=f"s{n}") for n in range(8)]
    with receiver("webhook") as there, Children(tmp_path / "logs") as children:
        system.configure(there.url)
        arguments = ["notify", "--config", str(system.file), "--bootstrap", system.bootstrap, "--metrics-port", "0"]
        arguments += ["--prefix", kafka_topics.prefix, "--session-timeout", "6"]
        system.produce(*changes[:4])
        first = children.start_module("first", "haltline.cli", arguments, must_run=False)
        system.wait_for(4)
        there.holds = threading.Event()
        system.produce(*changes[4:])
        wait_until(lambda: len(there.heard) > 4, "a message is under way", deadline_s=60)
        os.kill(first.pid, signal.SIGKILL)
        first.stop(within_s=10)
        there.holds.set()
        second = children.start_module("second", "haltline.cli", arguments)
        found = system.wait_for(len(changes))
        assert second.stop(within_s=30) == 0, second.last_lines()
        third = children.start_module("third", "haltline.cli", arguments)
        system.produce(change("escalated", 3, "inc-0", scope_id="s0"))
        system.wait_for(len(changes) + 1)
        assert third.stop(within_s=30) == 0, third.last_lines()
        received = Counter(ids(there.heard))
        assert {record.notification_id for record in found} < received.keys()
        assert len(received) == len(changes) + 1
        assert sorted(received.values(), reverse=True)[:2] == [2, 1], "the one under way, under the same id"
        text = "".join(file.read_text() for file in (tmp_path / "logs").iterdir())
        assert "5ecret" not in text
