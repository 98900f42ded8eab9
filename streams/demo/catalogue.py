"""A small data catalogue for the sample agents. It does not use haltline."""

import json
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

STUCK: Final = "fact_sales"
"""The asset that always exists: something else recreates it at once."""

COPY: Final = "tmp_sales_copy"
STAGING: Final = tuple(f"stg_{number:03d}" for number in range(20))

STILL_THERE: Final = "asset still exists"
GONE: Final = "deleted"


@dataclass(frozen=True)
class Request:
    """One received request, and its answer."""

    method: str
    asset_id: str
    """Empty for the list of assets."""
    answer: str


class Catalogue(AbstractContextManager["Catalogue", None]):
    """Serves GET /assets and DELETE /assets/ID on loopback, in threads, until the end of its block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._assets = {STUCK, COPY, *STAGING}
        self._requests: list[Request] = []
        catalogue = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that http.server calls
                asset = self.path.removeprefix("/assets").removeprefix("/")
                body = json.dumps({"message": catalogue._answer(self.command, asset)}).encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_DELETE = do_GET  # noqa: N815  # the name that http.server calls

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's names
                """Print nothing: `requests` has what arrived."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="catalogue", daemon=True)
        self._thread.start()

    @property
    def requests(self) -> tuple[Request, ...]:
        """All received requests, in order."""
        with self._lock:
            return tuple(self._requests)

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, method: str, asset_id: str) -> str:
        with self._lock:
            if method == "GET":
                answer = " ".join(sorted(self._assets))
            elif asset_id == STUCK:
                answer = STILL_THERE
            else:
                answer = GONE if asset_id in self._assets else "no such asset"
                self._assets.discard(asset_id)
            self._requests.append(Request(method, asset_id, answer))
            return answer
