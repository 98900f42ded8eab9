"""Local receivers of several kinds, which respond like the real ones."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from tests.http_server import served

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
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


def of_webhook(received: Heard) -> Answer:
    """Verifies the signature with the library of receivers."""
    try:
        Webhook(SECRET).verify(received.body, received.headers)
    except WebhookVerificationError as error:
        return 401, {}, str(error)
    received.body = json.loads(received.body)
    return 204, {}, ""


KINDS: dict[str, Callable[[Heard], Answer]] = {
    "webhook": of_webhook,
    "alertmanager": lambda _: OK,
    "json": lambda _: OK,
}


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
