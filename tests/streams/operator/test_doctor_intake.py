"""What `haltline doctor` says of an intake."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from haltline.streams.operator.health_checks import Verdict, intake
from tests.cases import cases
from tests.http_server import served


@contextmanager
def answering(status: int, host: str) -> Iterator[str]:
    """The URL of what answers /healthz as an intake does."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"broker":true,"sessions":0}')

    with served(Answer, host) as url:
        yield url


@cases(
    "status, host, verdict, found",
    {
        "one on this machine": (200, "127.0.0.1", Verdict.OK, "well"),
        "one at another address without TLS": (200, "127.0.0.2", Verdict.NOTE, "without TLS"),
        "one whose broker is away": (503, "127.0.0.1", Verdict.BAD, "its broker does not answer"),
    },
)
def test_an_intake_is_asked_for_its_health(status: int, host: str, verdict: Verdict, found: str) -> None:
    with answering(status, host) as url:
        check = intake(url)
    assert (check.verdict, found in check.found) == (verdict, True), check
