"""Local receivers of several kinds: they check messages and respond like the real ones."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from jsonschema import Draft202012Validator
from standardwebhooks import Webhook, WebhookVerificationError

from tests.http_server import served

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROUTING_KEY = "R0123456789ABCDEFGHIJKLMNOPQRSTU"
Schema = dict[str, Any]


def _object(*required: str, others: bool = True, **properties: Schema) -> Schema:
    """An object with these properties, some of them required; `others`: it may have more."""
    return {
        "type": "object", "properties": properties, "required": [*required], "additionalProperties": others
    }  # fmt: skip


def _list(items: Schema, least: int = 0, most: int = 1000) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _text(most: int = 100_000, least: int = 1, **more: Any) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most, **more}


def _one(*values: str) -> Schema:
    return {"enum": [*values]}


_URL = _text(3000, pattern="^https?://")
_PLAIN = _object("type", "text", type=_one("plain_text"), text=_text(150))
_UNTAGGED = _text(3000, pattern="^[^<>]*$")  # text in angle brackets is a mention or a link
_MRKDWN = _object("type", "text", type=_one("mrkdwn"), text=_UNTAGGED)
_BUTTON = _object("type", "text", "url", type=_one("button"), text=_PLAIN, url=_URL, style=_one("primary", "danger"))
_SECTION = _object(type=_one("section"), text=_MRKDWN, fields=_list(_MRKDWN, 1, 10))
_SLACK_BLOCKS = [
    _object("type", "text", type=_one("header"), text=_PLAIN),
    _SECTION | {"anyOf": [{"required": ["text"]}, {"required": ["fields"]}]},
    _object("type", "elements", type=_one("actions"), elements=_list(_BUTTON, 1, 25)),
]
SLACK = _object("text", "blocks", text=_text(pattern="^[^<>]*$"), blocks=_list({"oneOf": _SLACK_BLOCKS}, 1, 50))
_PAYLOAD = _object(
    "summary", "source", "severity",
    others=False, summary=_text(1024), source=_text(), severity=_one("critical", "error", "warning", "info"),
    timestamp=_text(format="date-time"), component=_text(), group=_text(), custom_details={"type": "object"},
    **{"class": _text()},
)  # fmt: skip
PAGERDUTY = _object(
    "routing_key", "event_action", "dedup_key",
    others=False, routing_key=_text(32, 32), event_action=_one("trigger", "acknowledge", "resolve"),
    dedup_key=_text(255), client=_text(), links=_list(_object("href", href=_URL)), payload=_PAYLOAD,
) | {"if": {"properties": {"event_action": {"const": "trigger"}}}, "then": {"required": ["payload"]}}  # fmt: skip
_RUN = _object("type", "text", type=_one("TextRun"), text=_text())
_FACT = _object("title", "value", title=_text(), value=_text())
_CARD_PARTS = [
    _object("type", "inlines", type=_one("RichTextBlock"), inlines=_list(_RUN)),
    _object("type", "facts", type=_one("FactSet"), facts=_list(_FACT)),
]
_OPEN = _object("type", "title", "url", type=_one("Action.OpenUrl"), url=_URL)
_CARD = _object(
    "type", "version", "body",
    type=_one("AdaptiveCard"), version=_one("1.2", "1.3", "1.4", "1.5"), body=_list({"oneOf": _CARD_PARTS}, 1),
    actions=_list(_OPEN),
)  # fmt: skip
_CARD_TYPE = _one("application/vnd.microsoft.card.adaptive")
_ATTACHMENT = _object("contentType", "content", contentType=_CARD_TYPE, content=_CARD)
TEAMS = _object("type", "attachments", type=_one("message"), attachments=_list(_ATTACHMENT, 1))
_LABELS = _object("alertname") | {
    "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
    "additionalProperties": {"type": "string"},
}
_ALERT = _object(
    "labels",
    others=False, labels=_LABELS, annotations={"type": "object", "additionalProperties": {"type": "string"}},
    startsAt=_text(), endsAt=_text(), generatorURL=_URL,
)  # fmt: skip
ALERTMANAGER = _list(_ALERT)
Answer = tuple[int, dict[str, str], str]
OK: Answer = (200, {}, "ok")


@dataclass
class Heard:
    """One request."""

    headers: dict[str, str]
    body: Any


@dataclass
class Receiver:
    """A receiver: its requests in order; `answers` are the first responses, one each, before the usual one."""

    url: str = ""
    heard: list[Heard] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    holds: threading.Event | None = None
    """While it is there and not set, no request is answered."""


def of_schema(schema: dict[str, Any], accepted: Answer) -> Callable[[Heard], Answer]:
    """Accepts what the schema allows; 400 and why, for all else."""
    validator = Draft202012Validator(schema)

    def check(received: Heard) -> Answer:
        problems = [f"{list(problem.path)}: {problem.message}" for problem in validator.iter_errors(received.body)]
        return (400, {}, f"invalid_payload {problems}") if problems else accepted

    return check


def of_webhook(received: Heard) -> Answer:
    """Verifies the signature with the library of receivers."""
    try:
        Webhook(SECRET).verify(received.body, received.headers)
    except WebhookVerificationError as error:
        return 401, {}, str(error)
    received.body = json.loads(received.body)
    return 204, {}, ""


KINDS: dict[str, Callable[[Heard], Answer]] = {
    "webhook": of_webhook, "slack": of_schema(SLACK, OK), "teams": of_schema(TEAMS, (202, {}, "")),
    "pagerduty": of_schema(PAGERDUTY, (202, {}, '{"status": "success"}')), "alertmanager": of_schema(ALERTMANAGER, OK),
    "json": lambda _: OK,
}  # fmt: skip


@contextmanager
def receiver(kind: str) -> Iterator[Receiver]:
    """A server that hears POSTs of this kind."""
    made, check = Receiver(), KINDS[kind]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            received = Heard(dict(self.headers.items()), text if kind == "webhook" else json.loads(text))
            status, headers, body = check(received)
            if status < 300 and made.answers:
                status, headers, body = made.answers.pop(0)
            made.heard.append(received)
            if made.holds is not None:
                made.holds.wait(60)
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                if status != 204:
                    self.wfile.write(body.encode())
            except OSError:
                pass  # who asked is gone

    with served(Handler) as address:
        made.url = f"{address}/hook/5ecret-path"
        try:
            yield made
        finally:
            if made.holds is not None:
                made.holds.set()
