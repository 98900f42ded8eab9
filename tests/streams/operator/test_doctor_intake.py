"""What `haltline doctor` says of an intake."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from haltline.streams.operator.health_checks import Verdict, intake
from tests.cases import cases


@contextmanager
def answering(status: int, host: str) -> Iterator[str]:
    """The URL of what answers /healthz as an intake does."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"broker":true,"sessions":0}')

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the name that the library gives it
            """Nothing."""

    server = HTTPServer((host, 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{host}:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


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


def test_one_that_is_not_there_is_a_note() -> None:
    check = intake("http://127.0.0.1:9")
    assert (check.verdict, "haltline intake" in check.do) == (Verdict.NOTE, True)
