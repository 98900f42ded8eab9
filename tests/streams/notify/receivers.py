"""Receivers of several kinds on this machine: they check what comes as theirs do, and answer as they do."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jsonschema import Draft202012Validator
from standardwebhooks import Webhook, WebhookVerificationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROUTING_KEY = "R0123456789ABCDEFGHIJKLMNOPQRSTU"

_TEXT = {"type": "string", "minLength": 1}
_URL = {"type": "string", "pattern": "^https?://", "maxLength": 3000}
PAGERDUTY = {
    "type": "object", "additionalProperties": False, "required": ["routing_key", "event_action", "dedup_key"],
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "minLength": 1, "maxLength": 255},
        "client": _TEXT,
        "links": {"type": "array", "items": {"type": "object", "required": ["href"], "properties": {"href": _URL}}},
        "payload": {
            "type": "object",
            "additionalProperties": False,
            "required": ["summary", "source", "severity"],
            "properties": {
                "summary": {"type": "string", "minLength": 1, "maxLength": 1024},
                "source": _TEXT,
                "severity": {"enum": ["critical", "error", "warning", "info"]},
                "timestamp": {"type": "string", "format": "date-time"},
                "component": _TEXT,
                "group": _TEXT,
                "class": _TEXT,
                "custom_details": {"type": "object"},
            },
        },
    },
    "if": {"properties": {"event_action": {"const": "trigger"}}}, "then": {"required": ["payload"]},
}  # fmt: skip
_PLAIN = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {"type": {"const": "plain_text"}, "text": {"type": "string", "minLength": 1, "maxLength": 150}},
}
_MRKDWN = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {
        "type": {"const": "mrkdwn"},
        # Text in angle brackets is a mention or a link.
        "text": {"type": "string", "minLength": 1, "maxLength": 3000, "pattern": "^[^<>]*$"},
    },
}
SLACK = {
    "type": "object",
    "required": ["text", "blocks"],
    "properties": {
        "text": {"type": "string", "pattern": "^[^<>]*$"},
        "blocks": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {
                "type": "object",
                "required": ["type"],
                "oneOf": [
                    {"properties": {"type": {"const": "header"}, "text": _PLAIN}, "required": ["text"]},
                    {
                        "properties": {
                            "type": {"const": "section"},
                            "text": _MRKDWN,
                            "fields": {"type": "array", "minItems": 1, "maxItems": 10, "items": _MRKDWN},
                        },
                        "anyOf": [{"required": ["text"]}, {"required": ["fields"]}],
                    },
                    {
                        "properties": {
                            "type": {"const": "actions"},
                            "elements": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": 25,
                                "items": {
                                    "type": "object",
                                    "required": ["type", "text", "url"],
                                    "properties": {
                                        "type": {"const": "button"},
                                        "text": _PLAIN,
                                        "url": _URL,
                                        "style": {"enum": ["primary", "danger"]},
                                    },
                                },
                            },
                        },
                        "required": ["elements"],
                    },
                ],
            },
        },
    },
}
_TEXT_BLOCK = {
    "properties": {
        "type": {"const": "RichTextBlock"},
        "inlines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "text"],
                "properties": {"type": {"const": "TextRun"}, "text": _TEXT},
            },
        },
    },
    "required": ["inlines"],
}
_FACTS = {
    "properties": {
        "type": {"const": "FactSet"},
        "facts": {
            "type": "array",
            "items": {"type": "object", "required": ["title", "value"], "properties": {"title": _TEXT, "value": _TEXT}},
        },
    },
    "required": ["facts"],
}
TEAMS = {
    "type": "object",
    "required": ["type", "attachments"],
    "properties": {
        "type": {"const": "message"},
        "attachments": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["contentType", "content"],
                "properties": {
                    "contentType": {"const": "application/vnd.microsoft.card.adaptive"},
                    "content": {
                        "type": "object",
                        "required": ["type", "version", "body"],
                        "properties": {
                            "type": {"const": "AdaptiveCard"},
                            "version": {"enum": ["1.2", "1.3", "1.4", "1.5"]},
                            "body": {
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": "object", "required": ["type"], "oneOf": [_TEXT_BLOCK, _FACTS]},
                            },
                            "actions": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["type", "title", "url"],
                                    "properties": {"type": {"const": "Action.OpenUrl"}, "url": _URL},
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
ALERTMANAGER = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["labels"],
        "properties": {
            "labels": {
                "type": "object",
                "required": ["alertname"],
                "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
                "additionalProperties": {"type": "string"},
            },
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            "startsAt": {"type": "string"},
            "endsAt": {"type": "string"},
            "generatorURL": _URL,
        },
    },
}

Answer = tuple[int, dict[str, str], str]
OK: Answer = (200, {}, "ok")


@dataclass
class Heard:
    """One request."""

    headers: dict[str, str]
    body: Any


@dataclass
class Receiver:
    """What came, in order; `answers` are given first, one for each request, then the usual one."""

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

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}/hook/5ecret-path"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        if made.holds is not None:
            made.holds.set()
        server.shutdown()
        server.server_close()
        thread.join()
