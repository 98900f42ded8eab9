"""`make audit`: the result for advisories, from a local advisory service."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.tools import DEPLOY, free_port
from tests.http_server import served
from tests.programs import ended

AUDIT = DEPLOY.parent / ".ci" / "audit"
ADVISORY = {
    "id": "GHSA-xxxx-yyyy-zzzz",
    "aliases": ["CVE-2026-0001"],
    "summary": "it does what it should not",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "victim"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}


@contextmanager
def advisories(of: dict[str, Any]) -> Iterator[str]:
    """A service of OSV's kind that knows these, by package and version; where it is."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = of.get(f"{document['package']['name']} {document['version']}")
            body = json.dumps({} if known is None else {"vulns": [known]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served(Handler) as address:
        yield f"{address}/v1/query"


def install(folder: Path, name: str, version: str) -> None:
    information = folder / f"{name}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def audit(folder: Path, url: str) -> tuple[int, str]:
    done = ended(sys.executable, AUDIT, "--osv-url", url, "--path", folder)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("version", "code", "text"),
    [
        pytest.param("1.0", 1, "audit: victim 1.0: CVE-2026-0001 GHSA-xxxx-yyyy-zzzz: mended in 1.1", id="vulnerable"),
        pytest.param("1.1", 0, "audit: osv: 2 of 2 packages looked up, 0 known vulnerabilities", id="mended"),
    ],
)
def test_a_known_vulnerability_fails(tmp_path: Path, version: str, code: int, text: str) -> None:
    install(tmp_path, "victim", version)
    install(tmp_path, "other", "2.0")
    with advisories({"victim 1.0": ADVISORY}) as url:
        actual, output = audit(tmp_path, url)
    assert (actual, text in output) == (code, True), output


def test_without_a_service_it_says_so_and_fails_nothing(tmp_path: Path) -> None:
    install(tmp_path, "victim", "1.0")
    actual, output = audit(tmp_path, f"http://127.0.0.1:{free_port()}/v1/query")
    assert (actual, "no advisory service can be asked here" in output) == (0, True), output
    assert "No broken requirements found" in output
