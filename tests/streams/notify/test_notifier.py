"""The notifier from the topic of incidents to a receiver and back to its own topic."""

import os
import signal
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import orjson
import pytest

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.incidents import IncidentChange, IncidentRecord
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.notify.config import BadConfig, load_config
from tests.streams.commands import haltline
from tests.streams.notify.receivers import SECRET, receiver
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


DOCUMENT = """\
console: https://console.example
channels:
  hook: {kind: webhook, url_file: url, secret_file: secret}
  pager:
    kind: pagerduty
    routing_key_file: key
routes:
  - name: night
    match: {level: PAUSE, agent: "clean*"}
    channels: [hook]
    quiet: [{from: "22:00", to: "07:00", time_zone: Europe/Berlin}]
  - name: rest
    channels: [pager]
    digest: {every: 15m, by: [agent]}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    for name, text in (("url", "http://127.0.0.1:1/5ecret"), ("secret", SECRET), ("key", "k" * 32)):
        (tmp_path / name).write_text(text)
    (tmp_path / "notify.yaml").write_text(DOCUMENT)
    return tmp_path / "notify.yaml"


run = partial(haltline, "notify")


def test_a_document_that_is_wrong_is_refused_with_its_line(document: Path) -> None:
    for there, instead, problem in (
        ("PAUSE", "PUASE", ":9: routes.0.match.level: Input should be"),
        ("15m", "15", ":14: routes.1.digest.every: expected a length of time"),
        ("[hook]", "[hok]", "routes: route night: expected channels of hook, pager, got hok"),
        ("routing_key_file", "routing_key", ":4: channels.pager.pagerduty"),
        ("Europe/Berlin", "Europe/Bern", ":11: routes.0.quiet.0.time_zone: expected a time zone"),
        ('"22:00"', '"07:00"', ":8: routes.0: expected hours that end"),
        ("name: rest", "name: night", "expected each name once, got 'night' again"),
        ("kind: pagerduty", "kind: pager", ":4: channels.pager: Input tag 'pager'"),
        ("https://console", "console", "console: expected an address with https://"),
        ("routes:", "routes: [", ":8: expected YAML"),
    ):
        document.write_text(DOCUMENT.replace(there, instead))
        with pytest.raises(BadConfig) as refused:
            load_config(document)
        assert problem in str(refused.value)
    assert run("check", document).exit_code == 2


def test_check_reads_the_files_of_secrets_and_reports_no_secret(document: Path) -> None:
    assert run("check", document).exit_code == 0
    (document.parent / "secret").write_text("whsec_5hort")
    refused = run("check", document)
    assert (refused.exit_code, "channels.hook: " in refused.output, "5hort" in refused.output) == (2, True, False)
    for field in ("password", "key", "routing_key_file"):
        document.write_text(DOCUMENT.replace("routing_key_file: key", f"{field}: [pa55word]"))
        refused = run("check", document)
        assert (refused.exit_code, "pa55word" in refused.output) == (2, False)


def test_a_test_message_says_that_it_is_one_and_is_ended_at_once_where_incidents_are_kept(document: Path) -> None:
    with receiver("webhook") as there:
        (document.parent / "url").write_text(there.url)
        done = run("test", "--config", document, "--route", "night")
    assert (done.exit_code, done.output) == (0, "channel hook: accepted\n")
    assert "This is a test of the route night" in there.heard[0].body["data"]["incident"]["summary"]
    with receiver("pagerduty") as there:
        document.write_text(DOCUMENT.replace("routing_key_file: key", f"routing_key_file: key\n    url: {there.url}"))
        assert run("test", "--config", document, "--route", "rest").exit_code == 0
    assert [one.body["event_action"] for one in there.heard] == ["trigger", "resolve"]


def test_check_and_test_print_one_json_document_without_the_address_and_a_document_may_be_toml(document: Path) -> None:
    checked = orjson.loads(run("check", document, "--json").stdout)
    assert checked == {"channels": ["hook", "pager"], "routes": ["night", "rest"], "unused": []}
    refused = run("test", "--config", document, "--route", "night", "--json")
    (sent,) = orjson.loads(refused.stdout)
    assert (refused.exit_code, sent["channel"], sent["accepted"]) == (1, "hook", False)
    assert (sent["error"] in refused.stderr, "5ecret" in refused.output) == (True, False)
    assert run("test", "--config", document, "--route", "none").exit_code == 2
    toml = document.with_suffix(".toml")
    toml.write_text(
        '[channels.hook]\nkind = "slack"\nurl_file = "url"\n[[routes]]\nname = "all"\nchannels = ["hook"]\n'
    )
    assert load_config(toml).channels["hook"].kind == "slack"
