"""Every process of haltline on one machine, as people start them, on an embedded broker."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import FETCH_WAIT_MS
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import start_audit, start_worker, wait_until_ready
from tests.builders import some
from tests.mock_cluster import QuickBroker

WITHIN_S = 120.0


class System:
    """Processes by name, with where each serves its metrics."""

    def __init__(self, children: Children, bootstrap: str, folder: Path) -> None:
        self.children = children
        self.bootstrap = bootstrap
        self.table = folder / "audit"
        self.logs = folder / "logs"
        self.addresses: dict[str, str] = {}

    def start(self, name: str, arguments: Sequence[str], **environment: str) -> str:
        """Starts `haltline ...`; returns where it serves, once it says so: by host and port."""
        command = [*arguments, "--bootstrap", self.bootstrap]
        return self.follow(self.children.start_module(name, "haltline.cli", command, env=environment))

    def follow(self, child: Child) -> str:
        """Return the address of a process, once it has printed it."""

        def said() -> re.Match[str] | None:
            return re.search(r"(?:serves .*on port |http://127\.0\.0\.1:)(\d+)", child.log_file.read_text())

        self.children.wait_until(said, f"{child.name} to say where it serves", within_s=WITHIN_S)
        self.addresses[child.name] = f"127.0.0.1:{some(said())[1]}"
        return self.addresses[child.name]


def ask(address: str, path: str, body: object, token: str = "") -> Any:
    """The response of an intake or a console; None for a refusal."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    written = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(f"http://{address}{path}", written, headers), timeout=60) as answer:
            return json.load(answer)
    except HTTPError:
        return None


@contextmanager
def running(folder: Path, *, worker: Sequence[str] = (), audit: Sequence[str] = ()) -> Iterator[System]:
    """A broker with a worker and a sink that serve their metrics; more is started by the test."""
    with QuickBroker() as broker, Children(folder / "logs") as children:
        broker.ensure_topics(Topics())
        system = System(children, broker.bootstrap, folder)
        wait = ["--fetch-wait-ms", str(FETCH_WAIT_MS)]
        sink = ["--table", str(system.table), "--metrics-port", "0", "--flush", "1", *wait, *audit]
        sinking = start_audit(children, broker.bootstrap, sink)
        working = start_worker(children, broker.bootstrap, *worker, embedded=True)
        wait_until_ready(children, working)
        system.follow(working)
        system.follow(sinking)
        yield system
