"""Stops systemd units when haltline asks for it: `python stop_unit.py --secret-file FILE --allow 'indexer.*'`.

Run it as a unit of its own, as root or with the right to stop these units. Needs `pip install standardwebhooks`.
"""

import argparse
import json
import subprocess
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from standardwebhooks import Webhook, WebhookVerificationError

MAX_BYTES = 65_536


class StopUnit(BaseHTTPRequestHandler):
    """Answers 204 when the unit has stopped, also if it had before."""

    def do_POST(self) -> None:
        """Answer one request."""
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(min(length, MAX_BYTES)).decode(errors="replace")
        status, text = stop(body, dict(self.headers.items()))
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def stop(body: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """Stop the unit that a request names. Returns status and text."""
    secrets = Path(options.secret_file).read_text(encoding="utf-8").split()
    if not any(verified(secret, body, headers) for secret in secrets):
        return 401, b"expected a signature by the secret"
    unit = str(json.loads(body).get("unit"))
    if not any(fnmatchcase(unit, glob) for glob in options.allow):
        return 403, b"expected a unit of --allow"
    done = subprocess.run(["systemctl", "stop", "--", unit], capture_output=True, timeout=60, check=False)
    return (204, b"") if done.returncode == 0 else (500, done.stderr[:200])


def verified(secret: str, body: str, headers: dict[str, str]) -> bool:
    """Return whether this secret has signed it, within the last five minutes."""
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--secret-file", required=True, help="whsec_ and Base64, one a line")
parser.add_argument("--allow", action="append", required=True, metavar="GLOB", help="units that it may stop")
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=9480)
options = parser.parse_args()
ThreadingHTTPServer((options.host, options.port), StopUnit).serve_forever()
