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
PATH = "/hook/5ecret-path"
Answer = tuple[int, dict[str, str], str]
OK: Answer = (200, {}, "ok")


@dataclass
class Heard:
    """One request."""

    headers: dict[str, str]
    body: Any
    asked: str
    """Its method and path."""


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


DELETE = {"kind": "DeleteOptions", "apiVersion": "v1"}
APIS: dict[str, tuple[int, Any]] = {
    "PATCH /apis/batch/v1/namespaces/batch/cronjobs/cleaner-nightly": (200, {"spec": {"suspend": True}}),
    "DELETE /apis/batch/v1/namespaces/batch/jobs/cleaner": (200, {**DELETE, "propagationPolicy": "Foreground"}),
    "DELETE /api/v1/namespaces/reports/pods/report-7": (200, {**DELETE, "gracePeriodSeconds": 0}),
    "DELETE /api/v1/namespaces/reports/pods/report-8": (404, {**DELETE, "gracePeriodSeconds": 0}),
    "POST /key/block": (200, {"key": "88dc28d0f030c55ed4ab77ed8faf0981"}),
    "PUT /repos/acme/shop/actions/workflows/agent.yml/disable": (204, {}),
    "POST /repos/acme/shop/actions/runs/9876/cancel": (202, {}),
}
"""What stand-ins of the APIs of Kubernetes, LiteLLM and GitHub answer to a request with this body."""


def of_api(received: Heard) -> Answer:
    """Answers a request that has the token and its body."""
    status, expected = APIS.get(received.asked, (400, None))
    kind = "application/merge-patch+json" if received.asked.startswith("PATCH") else "application/json"
    found = received.headers["authorization"], received.headers["content-type"], received.body
    return (status if found == ("Bearer t0ken", kind, expected) else 400), {}, ""


KINDS: dict[str, Callable[[Heard], Answer]] = {
    "webhook": of_webhook,
    "alertmanager": lambda _: OK,
    "json": lambda _: OK,
    "api": of_api,
}


@contextmanager
def receiver(kind: str) -> Iterator[Receiver]:
    """A server that hears requests of this kind."""
    made, check = Receiver(), KINDS[kind]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            body = text if kind == "webhook" else json.loads(text)
            received = Heard(dict(self.headers.items()), body, f"{self.command} {self.path}")
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

        do_DELETE = do_PATCH = do_PUT = do_POST  # noqa: N815 - as http.server calls them

    with served(Handler) as address:
        made.url = f"{address}{PATH}"
        try:
            yield made
        finally:
            if made.holds is not None:
                made.holds.set()
