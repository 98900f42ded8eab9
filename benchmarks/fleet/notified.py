"""A notifier of the system, and a local webhook that receives its notifications."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import wait_until_ready

_DOCUMENT: Final = """
channels:
  on-call: {kind: webhook, url_file: url, secret_file: secret}
"""


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(HTTPStatus.NO_CONTENT)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the name of the base class
        del format


@contextmanager
def notifier(children: Children, bootstrap: str, prefix: str, folder: Path, *, embedded: bool) -> Iterator[None]:
    """Run `haltline notify` until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        folder.mkdir()
        (folder / "url").write_text(f"http://127.0.0.1:{server.server_port}/")
        (folder / "secret").write_text(f"whsec_{secrets.token_hex(16)}")
        (folder / "notify.yaml").write_text(_DOCUMENT)
        options = ["--config", str(folder / "notify.yaml"), "--bootstrap", bootstrap, "--prefix", prefix]
        options += ["--metrics-port", "0", *(["--fetch-wait-ms", str(FETCH_WAIT_MS)] if embedded else [])]
        wait_until_ready(children, children.start_module("notify", "haltline.cli", ["notify", *options]))
        try:
            yield
        finally:
            server.shutdown()
