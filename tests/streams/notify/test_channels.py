"""Each channel against a receiver of its kind on this machine, and a real Alertmanager."""

import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat
from trustme import CA

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.local.kafka import free_port
from haltline.streams.notify.channels import sender_of
from haltline.streams.notify.channels.base import Failed, Sender
from haltline.streams.notify.config import Config
from haltline.streams.notify.links import LinkKey, Links
from haltline.streams.notify.notification_text import Change, Message
from tests.builders import cases
from tests.streams.notify.receivers import ROUTING_KEY, SECRET, Receiver, receiver
from tests.streams.notify.records import change
from tests.waiting import wait_until

LINKS = Links("https://console.example/", LinkKey("k" * 32), 86_400_000)
ODD: dict[str, Any] = {
    "summary": "<!channel> **hi** [x](http://evil)\n" * 40, "agent_id": "a" * 256, "cause": "c" * 512,
    "target": "<script>" * 60, "scope_id": "line\nbreak & <b>", "mission_id": "\u202e", "assignee": "",
}  # fmt: skip


def message(*records: IncidentRecord) -> Message:
    changes = []
    for one in records:
        links = {"session_link": LINKS.session(one), "approval_link": LINKS.approval(one, one.changed_at)}
        changes.append(Change(notification_id=f"ntf_{one.incident_id}_{one.revision}", record=one, **links))
    return Message.of(changes, max(record.changed_at for record in records))


def sender(folder: Path, kind: str, url: str, **fields: Any) -> Sender:
    (folder / "url").write_text(f"{url}\n")
    (folder / "secret").write_text(f"{SECRET}\n")
    (folder / "key").write_text(ROUTING_KEY)
    result: dict[str, dict[str, Any]] = {
        "webhook": {"url_file": folder / "url", "secret_file": folder / "secret"},
        "slack": {"url_file": folder / "url"},
        "teams": {"url_file": folder / "url"},
        "pagerduty": {"routing_key_file": folder / "key", "url": url},
        "alertmanager": {"url": url},
        "apprise": {"urls_file": folder / "url"},
        "email": {"host": "localhost", "from": "haltline@example.org", "to": ["ada@example.org", "bob@example.org"]},
    }
    document = {"channels": {"c": {"kind": kind, **result[kind], **fields}}, "routes": [{"name": "r"}]}
    return sender_of("c", Config.model_validate(document).channels["c"])


def send(folder: Path, kind: str, url: str, record: IncidentRecord, **fields: Any) -> None:
    """Sends a message of one change by a sender of its own."""
    with closing(sender(folder, kind, url, **fields)) as made:
        made.send(message(record))


HTTP = ("webhook", "slack", "teams", "pagerduty", "alertmanager")


Channel = tuple[str, Receiver, Sender]


@pytest.fixture(params=HTTP)
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Channel]:
    with receiver(request.param) as there:
        made = sender(tmp_path, request.param, there.url)
        yield request.param, there, made
        made.close()


def test_a_receiver_takes_every_change_and_a_digest_as_its_schema_has_it(channel: Channel) -> None:
    kind, there, made = channel
    for what in ("opened", "escalated", "approval_wanted", "acknowledged", "resolved", "counted"):
        made.send(message(change(what)))
        made.send(message(change(what, **ODD)))
    assert len(there.heard) == 12
    made.send(message(*(change("opened", number + 1, **ODD) for number in range(30))))
    assert len(there.heard) == 12 + (30 if kind == "pagerduty" else 1)


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
def test_what_an_answer_means(channel: Channel, answer: Any, again: bool, after_s: float | None) -> None:
    kind, there, made = channel
    there.answers.append((answer[0], answer[1], f"{answer[2]} {there.url} {SECRET} {ROUTING_KEY}"))
    with pytest.raises(Failed) as failed:
        made.send(message(change()))
    assert (failed.value.again, failed.value.after_s) == (again, after_s)
    secret = {"pagerduty": ROUTING_KEY, "alertmanager": ""}.get(kind, there.url)
    assert not secret or secret not in failed.value.detail


def test_nobody_at_the_address_is_asked_again_and_the_address_is_not_reported(tmp_path: Path) -> None:
    for kind in (*HTTP, "apprise"):
        with pytest.raises(Failed) as failed:
            send(tmp_path, kind, f"{'json' if kind == 'apprise' else 'http'}://127.0.0.1:1/5ecret-path", change())
        assert failed.value.again, kind
        assert "5ecret" not in failed.value.detail, kind
    with receiver("json") as there:
        send(tmp_path, "apprise", there.url.replace("http://", "json://"), change())
    assert there.heard[0].body["title"].startswith("Incident opened: repetition in session s1")


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


def test_a_button_of_slack_opens_the_approval_and_a_throttled_connector_of_teams_says_so_with_status_200(
    tmp_path: Path,
) -> None:
    with receiver("slack") as there:
        send(tmp_path, "slack", there.url, change("approval_wanted"))
    (actions,) = [block for block in there.heard[0].body["blocks"] if block["type"] == "actions"]
    token = actions["elements"][0]["url"].partition("?token=")[2]
    assert LinkKey("k" * 32).request_of(token, now_s=1_750_000_000) == "apr_5d0c"
    with receiver("teams") as there:
        there.answers.append((200, {}, "delivery failed with error: Microsoft Teams endpoint returned HTTP error 429"))
        with pytest.raises(Failed) as failed:
            send(tmp_path, "teams", there.url, change())
    assert failed.value.again


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
    config = Config.model_validate({"channels": {"c": {"kind": kind, **fields}}, "routes": [{"name": "r"}]})
    with pytest.raises(ValueError, match=problem) as refused:
        sender_of("c", config.channels["c"])
    assert "5ecret" not in str(refused.value)


# Mail


class Mailbox:
    """Keeps what comes; refuses receivers as it is told."""

    def __init__(self) -> None:
        self.mails: list[Envelope] = []
        self.answer = "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Envelope) -> str:  # noqa: ARG002, N802  # aiosmtpd's names
        if self.answer.startswith("250"):
            self.mails.append(envelope)
        return self.answer


Mail = tuple[Mailbox, dict[str, Any]]


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Mail]:
    """A server with STARTTLS and a password, and what a channel needs for it."""
    authority = CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "password").write_text("pa55word\n")

    def known(server: SMTP, session: Any, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=isinstance(data, LoginPassword) and data.password == b"pa55word", handled=False)

    box = Mailbox()
    controller = Controller(
        box, hostname="127.0.0.1", port=free_port(), tls_context=context, require_starttls=True, authenticator=known,
        auth_required=True,
    )  # fmt: skip
    controller.start()
    files = {"ca_file": tmp_path / "ca.pem", "password_file": tmp_path / "password"}
    yield box, {"port": controller.port, "user": "u", **files}
    controller.stop()


def test_a_mail_goes_encrypted_and_with_a_password_and_threads_by_incident(tmp_path: Path, mail: Mail) -> None:
    box, fields = mail
    send(tmp_path, "email", "", change("approval_wanted", **(ODD | {"agent_id": "cleaner"})), **fields)
    content = box.mails[0].content
    text = content.decode() if isinstance(content, bytes) else str(content)
    assert box.mails[0].rcpt_tos == ["ada@example.org", "bob@example.org"]
    for header in ("Message-ID: <ntf_inc-1_1@", "References: <inc-1@", "Auto-Submitted: auto-generated"):
        assert header in text


@pytest.mark.parametrize(("answer", "again"), [("451 later", True), ("554 no", False)])
def test_what_a_mail_server_says_decides(tmp_path: Path, mail: Mail, answer: str, again: bool) -> None:
    box, fields = mail
    box.answer = answer
    with pytest.raises(Failed, match=answer) as failed:
        send(tmp_path, "email", "", change(), **fields)
    assert failed.value.again is again


def test_a_certificate_that_cannot_be_checked_ends_it_before_the_password_and_a_wrong_one_is_not_reported(
    tmp_path: Path, mail: Mail
) -> None:
    box, fields = mail
    with pytest.raises(Failed, match="expected a valid certificate"):
        send(tmp_path, "email", "", change(), **(fields | {"ca_file": None}))
    (tmp_path / "password").write_text("wr0ng")
    with pytest.raises(Failed) as failed:
        send(tmp_path, "email", "", change(), **fields)
    assert (failed.value.again, "wr0ng" in failed.value.detail) == (False, False), failed.value.detail
    assert box.mails == []


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
    made.send(message(change("escalated", 2, severity="critical", **times)))
    wait_until(lambda: active(alertmanager).keys() == {"critical"}, "it fires as critical, and no longer as high")
    labels = active(alertmanager)["critical"]["labels"]
    assert labels.items() >= {"alertname": "HaltlineIncident", "incident_id": "inc-1", "team": "ops"}.items()
    made.send(message(change("resolved", 3, severity="critical", **times)))
    wait_until(lambda: not active(alertmanager), "none fires")
    made.close()
