"""Each channel against a receiver of its kind on this machine, and a real Alertmanager."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.local.kafka import free_port
from haltline.streams.notify.channels import receivers_of
from haltline.streams.notify.channels.base import ChannelSender, Failed
from haltline.streams.notify.config import Config
from haltline.streams.notify.kinds import Kind, kind_of
from haltline.streams.notify.links import LinkKey, Links
from haltline.streams.notify.notification_text import Message
from tests.builders import cases
from tests.streams.notify.receivers import SECRET, Receiver, receiver
from tests.streams.notify.records import change
from tests.waiting import wait_until

LINKS = Links("https://console.example/", LinkKey("k" * 32), 86_400_000)
ODD: dict[str, Any] = {
    "summary": "<!channel> **hi** [x](http://evil)\n" * 40, "agent_id": "a" * 256, "cause": "c" * 512,
    "target": "<script>" * 60, "scope_id": "line\nbreak & <b>", "mission_id": "\u202e", "assignee": "",
}  # fmt: skip


def message(one: IncidentRecord) -> Message:
    links = {"session_link": LINKS.session(one), "approval_link": LINKS.approval(one, one.changed_at)}
    kind, number = kind_of(one) or Kind.APPROVAL_WANTED, f"ntf_{one.incident_id}_{one.revision}"
    return Message(message_id=number, kind=kind, record=one, at_ms=one.changed_at, **links)


def sender(folder: Path, kind: str, url: str, **fields: Any) -> ChannelSender:
    (folder / "url").write_text(f"{url}\n")
    (folder / "secret").write_text(f"{SECRET}\n")
    result: dict[str, dict[str, Any]] = {
        "webhook": {"url_file": folder / "url", "secret_file": folder / "secret"},
        "alertmanager": {"url": url},
        "apprise": {"urls_file": folder / "url"},
    }
    document = {"channels": {"c": {"kind": kind, **result[kind], **fields}}}
    return receivers_of(Config.model_validate(document))["c"].sender


def send(folder: Path, kind: str, url: str, record: IncidentRecord, **fields: Any) -> None:
    """Sends a message of one change by a sender of its own."""
    with closing(sender(folder, kind, url, **fields)) as made:
        made.send(message(record))


HTTP = ("webhook", "alertmanager")


Channel = tuple[str, Receiver, ChannelSender]


@pytest.fixture(params=HTTP)
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Channel]:
    with receiver(request.param) as there:
        made = sender(tmp_path, request.param, there.url)
        yield request.param, there, made
        made.close()


@cases(
    "answer, again, after_s",
    {
        "too many: again, when it says": ((429, {"Retry-After": "7"}, "slow down"), True, 7.0),
        "its own failure: again": ((503, {}, "busy"), True, None),
        "a date: again then": ((500, {"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"}, ""), True, 0.0),
        "a refusal: not again": ((400, {}, "no"), False, None),
        "a hook that is gone: not again": ((404, {}, "no_service"), False, None),
    },
)
def test_what_an_answer_means_and_the_next_message_is_sent(
    channel: Channel, answer: Any, again: bool, after_s: float | None
) -> None:
    kind, there, made = channel
    there.answers.append((answer[0], answer[1], f"{answer[2]} {there.url} {SECRET}"))
    with pytest.raises(Failed) as failed:
        made.send(message(change()))
    assert (failed.value.again, failed.value.after_s) == (again, after_s)
    assert kind != "webhook" or there.url not in failed.value.detail
    made.send(message(change("resolved").model_copy(update=ODD)))
    assert len(there.heard) == 2


def test_nobody_at_the_address_is_asked_again_and_the_address_is_not_reported(tmp_path: Path) -> None:
    for kind in (*HTTP, "apprise"):
        with pytest.raises(Failed) as failed:
            send(tmp_path, kind, f"{'json' if kind == 'apprise' else 'http'}://127.0.0.1:1/5ecret-path", change())
        assert failed.value.again, kind
        assert "5ecret" not in failed.value.detail, kind
    with receiver("json") as there:
        send(tmp_path, "apprise", there.url.replace("http://", "json://"), change("approval_wanted"))
    assert there.heard[0].body["title"] == "Approval requested: repetition in session s1 (PAUSE, high)"
    assert "Approve or reject: https://console.example/open/approvals?token=" in there.heard[0].body["message"]


def test_a_webhook_is_a_signed_cloud_event_and_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with receiver("webhook") as there:
        send(tmp_path, "webhook", there.url, change("approval_wanted", session_id="a/b"))
    (received,) = there.heard
    event = from_structured_event(HTTPMessage(received.headers, json.dumps(received.body).encode()), JSONFormat())
    assert event.get_id() == received.headers["webhook-id"] == "ntf_inc-1_1"
    assert event.get_type() == "com.haltline.incident.approval_wanted"
    assert event.get_subject() == "inc-1"
    data: Any = event.get_data()
    assert IncidentRecord.model_validate(data["incident"]) == change("approval_wanted", session_id="a/b")
    assert data["links"]["session"] == "https://console.example/sessions/a%2Fb"
    assert data["links"]["approval"].startswith("https://console.example/open/approvals?token=")
    with receiver("webhook") as there, receiver("webhook") as elsewhere:
        there.answers.append((307, {"Location": elsewhere.url}, ""))
        secrets = tmp_path / "secrets"
        secrets.write_text(f"whsec_{'A' * 32}\n{SECRET}\n")
        with pytest.raises(Failed, match="got 307"):
            send(tmp_path, "webhook", there.url, change(), secret_file=secrets)
    assert elsewhere.heard == []
    assert len(there.heard[0].headers["webhook-signature"].split()) == 2


@cases(
    "kind, file, text, problem",
    {
        "a secret that is none": ("webhook", "secret", "whsec_%%%", "expected whsec_ and Base64"),
        "an empty file": ("webhook", "url", "", "expected a secret, got an empty file"),
        "another protocol": ("webhook", "url", "ftp://x/5ecret", "expected an address with https://"),
        "unknown to apprise": ("apprise", "url", "nosuch://5ecret", "line 1: expected an address"),
    },
)
def test_a_file_that_cannot_be_used_is_named_and_not_reported(
    tmp_path: Path, kind: str, file: str, text: str, problem: str
) -> None:
    sender(tmp_path, kind, "json://localhost" if kind == "apprise" else "http://localhost").close()
    (tmp_path / file).write_text(text)
    fields = {"apprise": {"urls_file": tmp_path / "url"}}.get(
        kind, {"url_file": tmp_path / "url", "secret_file": tmp_path / "secret"}
    )
    config = Config.model_validate({"channels": {"c": {"kind": kind, **fields}}})
    with pytest.raises(ValueError, match=problem) as refused:
        receivers_of(config)
    assert "5ecret" not in str(refused.value)


_NAMES = ("prometheus-alertmanager", "alertmanager")
_TEMPLATES = Path("/usr/share/prometheus/alertmanager/default.tmpl")
"""Debian's has none of its own in it."""


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    """Debian's, which tells nobody."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None or (found.endswith(_NAMES[0]) and not _TEMPLATES.exists()):
        reason = f"needs Alertmanager: Debian's prometheus-alertmanager, unpacked, and {_TEMPLATES} of it"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true: {reason}", pytrace=False)
        pytest.skip(reason)
    (tmp_path / "alertmanager.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    address = f"127.0.0.1:{free_port()}"
    command = [found, f"--config.file={tmp_path / 'alertmanager.yml'}", f"--storage.path={tmp_path / 'data'}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address={address}", "--cluster.listen-address="], stdout=log, stderr=log
        )
    try:

        def ready() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=10).close()
            except OSError:
                return False
            return True

        wait_until(ready, "Alertmanager answers")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def active(address: str) -> dict[str, Any]:
    """The alerts that fire, by severity."""
    with urllib.request.urlopen(f"{address}/api/v2/alerts", timeout=10) as answer:
        return {alert["labels"]["severity"]: alert for alert in json.load(answer)}


def test_an_incident_is_one_alert_that_gets_worse_and_ends(alertmanager: str, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    times: dict[str, Any] = {"first_at": now_ms - 60_000, "last_at": now_ms, "changed_at": now_ms}
    made = sender(tmp_path, "alertmanager", alertmanager, labels={"team": "ops"})
    made.send(message(change(severity="high", **times)))
    wait_until(lambda: active(alertmanager), "the alert fires")
    made.send(message(change("escalated", 2, severity="critical", level="KILL", **times)))
    wait_until(lambda: active(alertmanager).keys() == {"critical"}, "it fires as critical, and no longer as high")
    labels = active(alertmanager)["critical"]["labels"]
    assert labels.items() >= {"alertname": "HaltlineIncident", "incident_id": "inc-1", "team": "ops"}.items()
    made.send(message(change("resolved", 3, severity="critical", **times)))
    wait_until(lambda: not active(alertmanager), "none fires")
    made.close()
