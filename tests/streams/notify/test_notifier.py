"""The notifier from the topic of incidents to a receiver and back to its own topic."""

import os
import signal
import threading
import time
from collections import Counter
from datetime import datetime
from functools import partial
from pathlib import Path

import orjson
import pytest

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.incidents import IncidentChange
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.local.subprocesses import Children
from haltline.streams.notify.config import BadConfig, load_config
from tests.builders import T0_MS
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


ASKED = change("approval_wanted")
"""What notifies people first."""


def test_a_person_is_notified_when_it_asks_when_it_is_killed_and_when_it_is_over_once_each(system: System) -> None:
    with receiver("webhook") as there:
        system.configure(there.url, oldest="1h")
        system.produce(change("approval_wanted", 1, "old"), ago_s=7200)
        system.produce(change(level="NUDGE"), change("approval_wanted", 2), change("approval_wanted", 2))
        system.produce(change("counted", 3, request_id="apr_5d0c"), change("escalated", 4, level="KILL"))
        system.produce(change("resolved", 5, level="KILL"), change("resolved", 2, "old"), change("resolved", 2, "hint"))
        with system.running():
            outcomes = {(record.incident_id, record.change.value): record.outcome for record in system.wait_for(4)}
        assert outcomes.pop(("old", "approval")) == "too_old"
        assert set(outcomes.values()) == {"sent"}
        kinds = [one.body["type"].rpartition(".")[2] for one in there.heard]
        assert kinds == ["approval_wanted", "killed", "resolved"]


def test_a_kill_is_one_notification_though_it_ends_its_incident_and_its_alert_fires_for_an_hour(system: System) -> None:
    with receiver("webhook") as hook, receiver("alertmanager") as there:
        system.configure(hook.url, channels={"alerts": {"kind": "alertmanager", "url": there.url}})
        system.produce(change("opened", 1, level="KILL"))
        system.produce(
            change("resolved", 2, level="KILL", resolution="session_killed"), change("approval_wanted", 3, "next")
        )
        with system.running():
            system.wait_for(5)
        assert [one.body["type"].rpartition(".")[2] for one in hook.heard] == ["killed", "approval_wanted"]
        now_s, (killed, ended, _) = time.time(), there.heard
        for sent, least_s, most_s in ((killed, 6 * 86_400, 7 * 86_400), (ended, 1800, 3600)):
            ends_s = datetime.fromisoformat(sent.body[-1]["endsAt"]).timestamp()
            assert least_s < ends_s - now_s <= most_s


def test_of_the_addresses_of_one_file_each_has_a_queue_and_one_that_fails_is_tried_alone(system: System) -> None:
    with receiver("webhook") as hook, receiver("json") as good, receiver("json") as busy:
        busy.answers += [(503, {}, "busy"), (503, {}, "busy")]
        urls = [one.url.replace("http://", "json://") for one in (good, busy)]
        (system.file.parent / "urls").write_text("\n".join(urls))
        system.configure(hook.url, channels={"phone": {"kind": "apprise", "urls_file": "urls"}})
        system.produce(ASKED)
        with system.running():
            attempts = {record.channel: record.attempts for record in system.wait_for(3)}
        assert attempts == {"hook": 1, "phone": 1, "phone:2": 3}
        assert (len(good.heard), len(busy.heard)) == (1, 3)


def test_what_is_refused_is_a_dead_letter_and_the_next_one_is_sent(system: System) -> None:
    with receiver("webhook") as there:
        there.answers.append((410, {}, f"gone: {there.url}"))
        system.configure(there.url)
        system.produce(b"{}", ASKED, change("resolved", 2))
        with system.running() as (_, metrics):
            found = {record.change: record for record in system.wait_for(2)}
        assert {what: record.outcome for what, record in found.items()} == {"approval": "failed", "resolved": "sent"}
        assert there.url not in found[IncidentChange.APPROVAL].detail
        letters = {letter.reason: letter for letter in system.letters()}
        assert letters.keys() == {BadRecord.UNDELIVERED, BadRecord.INVALID}
        assert letters[BadRecord.UNDELIVERED].raw == ASKED.to_json()
        assert sample(metrics, "notifications_total", channel="hook", outcome="failed") == 1
        assert sample(metrics, "dead_letters_total", reason="undelivered") == 1


def test_an_alert_that_is_open_is_reported_again_also_after_a_restart(system: System, tmp_path: Path) -> None:
    with receiver("webhook") as hook, receiver("alertmanager") as there:
        alerts = {"alerts": {"kind": "alertmanager", "url": there.url, "repeat": "1s"}}
        system.configure(hook.url, channels=alerts)
        system.produce(ASKED)
        with system.running():
            wait_until(lambda: len(there.heard) > 2, "the alert is said again")
        before = len(there.heard)
        with system.running():
            wait_until(lambda: len(there.heard) > before, "it is said again after a restart")
            system.produce(change("resolved", 2))
            system.wait_for(4)
        result = {one.body[-1]["labels"]["incident_id"] for one in there.heard}
        assert result == {"inc-1"}


def test_a_kill_between_a_message_and_its_record_loses_nothing_and_repeats_only_what_was_under_way(
    kafka: LocalKafka, kafka_topics: Topics, tmp_path: Path
) -> None:
    system = System(kafka.bootstrap, kafka_topics, tmp_path)
    changes = [change("approval_wanted", 1, f"inc-{n}", scope_id=f"s{n}") for n in range(8)]
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
        system.produce(change("approval_wanted", 1, "inc-9", scope_id="s0"))
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
  alerts:
    kind: alertmanager
    url: http://127.0.0.1:1
    give_up_after: 15m
    token_file: key
"""
OLD = """\
console: https://console.example
channels: {hook: {kind: webhook, url_file: url, secret_file: secret}, pager: {kind: pagerduty, routing_key_file: key},
  chat: {kind: slack, url_file: url}, office: {kind: teams, url_file: url}, mail: {kind: email, host: localhost}}
routes: [{name: night, match: {level: PAUSE}, channels: [hook, pager], digest: {every: 15m, by: [agent]}}]
"""
"""A document of a release with routes."""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    for name, text in (("url", "http://127.0.0.1:1/5ecret"), ("secret", SECRET), ("key", "k" * 32)):
        (tmp_path / name).write_text(text)
    (tmp_path / "notify.yaml").write_text(DOCUMENT)
    return tmp_path / "notify.yaml"


run = partial(haltline, "notify")


def test_a_document_that_is_wrong_is_refused_with_its_line(document: Path) -> None:
    for there, instead, problem in (
        ("15m", "15", ":7: channels.alerts.alertmanager.give_up_after: expected a length of time"),
        ("kind: alertmanager", "kind: alert", ":4: channels.alerts: Input tag 'alert'"),
        ("https://console", "console", "console: expected an address with https://"),
        ("channels:", "channels: [", ":4: expected YAML"),
        ("channels:", "routing:", "channels: expected at least one, got none"),
    ):
        document.write_text(DOCUMENT.replace(there, instead))
        with pytest.raises(BadConfig) as refused:
            load_config(document)
        assert problem in str(refused.value)
    assert run("check", document).exit_code == 2


def test_a_document_of_a_release_with_routes_is_used_with_one_warning_and_check_fails(document: Path) -> None:
    document.write_text(OLD)
    config = load_config(document)
    assert list(config.channels) == ["hook"]
    assert config.gone.startswith(f"{document}: gone and without effect: channels.pager (instead: kind apprise with ")
    assert config.gone.count("(instead: kind apprise with ") == 4
    assert "routes (instead: every channel is notified; Alertmanager has routes, groups, " in config.gone
    checked = run("check", document)
    assert (checked.exit_code, checked.stderr.splitlines()) == (1, [config.gone])
    document.write_text("channels: {mail: {kind: email}}\nroutes: []\n")
    assert load_config(document).gone.endswith("no channel is left, so nobody is notified")


def test_an_incident_that_an_older_notifier_reported_is_ended(system: System) -> None:
    """Its records have the route and the message's id, and its notification ids are those of revisions."""
    record = {
        "v": 1, "notification_id": "ntf_1", "message_id": "ntf_1", "incident_id": "inc-1", "revision": 1,
        "change": "opened", "state": "open", "level": "PAUSE", "session_id": "s1", "channel": "hook", "route": "night",
        "outcome": "sent", "at": T0_MS, "due": T0_MS,
    }  # fmt: skip
    produce_confirmed(system.bootstrap, system.topics.notifications, key=b"s1", value=orjson.dumps(record))
    with receiver("webhook") as there:
        system.configure(there.url)
        system.produce(change("resolved", 2))
        with system.running():
            system.wait_for(2)
        assert [one.body["type"].rpartition(".")[2] for one in there.heard] == ["resolved"]


def test_check_and_test_print_one_json_document_without_secrets_and_a_document_may_be_toml(document: Path) -> None:
    checked = orjson.loads(run("check", document, "--json").stdout)
    assert checked == {"channels": ["hook", "alerts"], "actuators": [], "gone": None}
    refused = run("test", "--config", document, "--channel", "hook", "--json")
    (sent,) = orjson.loads(refused.stdout)
    assert (refused.exit_code, sent["channel"], sent["accepted"], "5ecret" in refused.output) == (
        1,
        "hook",
        False,
        False,
    )
    assert run("test", "--config", document, "--channel", "none").exit_code == 2
    with receiver("webhook") as there:
        (document.parent / "url").write_text(there.url)
        done = run("test", "--config", document, "--channel", "hook")
    assert (done.exit_code, done.output) == (0, "channel hook: accepted\n")
    assert "This is a test of the channel hook" in there.heard[0].body["data"]["incident"]["summary"]
    assert [one.body["data"]["kind"] for one in there.heard] == ["approval_wanted", "resolved"]
    (document.parent / "secret").write_text("whsec_5hort")
    refused = run("check", document)
    assert (refused.exit_code, "channels.hook: " in refused.output, "5hort" in refused.output) == (2, True, False)
    document.write_text(DOCUMENT.replace("token_file: key", "key: [pa55word]"))
    assert "pa55word" not in run("check", document).output
    toml = document.with_suffix(".toml")
    toml.write_text('[channels.phone]\nkind = "apprise"\nurls_file = "url"\n')
    assert load_config(toml).channels["phone"].kind == "apprise"
