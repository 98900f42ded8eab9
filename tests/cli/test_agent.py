"""`haltline agent` as a process: its socket, its files, and what a client meets when it is gone."""

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from haltline.cli.agent.reaching import Reach
from haltline.interventions.agent.frame.session import Allowed, Denied
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.client import Connection, ServiceGone, ServiceSession
from haltline.schemas.agent_service import Order
from tests.programs import ended
from tests.waiting import wait_until

LOOP = ["made", "made", "session_killed_loop_guard"]
HALTLINE = (sys.executable, "-m", "haltline.cli")
ANOTHER_USER = """# connects, and writes what is answered
import contextlib, os, socket, sys
client = socket.socket(socket.AF_UNIX)
os.seteuid(65534)
client.connect(sys.argv[1])
with contextlib.suppress(ConnectionError):
    client.sendall(b"{}\\n")
    sys.stdout.buffer.write(client.recv(9))
"""


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """Short, for the path of a socket has a limit."""
    with tempfile.TemporaryDirectory(prefix="hl", dir="/tmp") as name:
        own = {"HALTLINE_RUN_DIR": f"{name}/run", "XDG_STATE_HOME": f"{name}/state", "HOME": name}
        yield {**os.environ, **own, "HALTLINE_HOOK_IDLE_S": "60"}
        for process in serving(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def serving(folder: str) -> list[int]:
    """The processes with a socket in this folder."""
    found = []
    for entry in filter(lambda entry: entry.name.isdigit(), Path("/proc").iterdir()):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            variables = (entry / "environ").read_bytes().decode(errors="replace")
            if f"HOME={folder}\0" in variables and ("cli.agent.service" in words or "\0agent\0" in words):
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def agent(environ: dict[str, str], *options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The service, and the lines that it prints when it serves."""
    command = [*HALTLINE, "agent", "--local", *options]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, [process.stdout.readline().strip() for _ in range(2 if options else 1)]
        finally:
            process.kill()


def delete(session: ServiceSession, call_id: str) -> str:
    """What becomes of a delete that is made if it may be."""
    try:
        verdict = session.before(call_id, "delete_asset", {"asset_id": "fact_sales"})
    except Refused as refused:
        return refused.code
    if isinstance(verdict, Denied):
        return verdict.code
    assert isinstance(verdict, Allowed)
    session.after(verdict.call_id, "fact_sales still exists")
    return "made"


def test_it_serves_one_user_on_one_socket_with_a_key_for_http(environ: dict[str, str]) -> None:
    with agent(environ, "--http", "0") as (process, (http_line, path)):
        assert (stat.S_IMODE(os.stat(path).st_mode), stat.S_IMODE(Path(path).parent.stat().st_mode)) == (0o600, 0o700)
        second = subprocess.run(
            [*HALTLINE, "agent", "--local"], env=environ, capture_output=True, text=True, check=False
        )
        assert (second.returncode, "another process serves it" in second.stderr) == (1, True)
        file = Path(path).with_suffix(".http")
        kept = json.loads(file.read_text())
        assert (stat.S_IMODE(file.stat().st_mode), kept["url"] in http_line) == (0o600, True)
        own = {"Content-Type": "application/json", "Authorization": f"Bearer {kept['key']}"}
        page, rebound = own | {"Origin": "https://a.example"}, own | {"Host": "a.example"}
        statuses = []
        for headers in ({"Content-Type": "application/json"}, page, rebound, own):
            connection = http.client.HTTPConnection(kept["url"].removeprefix("http://"))
            connection.request("POST", "/v2/begin", b'{"session_id": "s1"}', headers)
            response = connection.getresponse()
            statuses.append(response.status)
            token = json.loads(response.read()).get("token")
        assert statuses == [401, 403, 421, 200]
        connection.request("GET", "/v2/orders", headers=own | {"Haltline-Token": token})
        streamed = connection.getresponse()
        over_socket = ServiceSession(lambda on_order: Connection(Path(path), on_order), {"session_id": "s1"})
        assert [delete(over_socket, f"d{number}") for number in range(3)] == [
            "made",
            "made",
            "session_killed_loop_guard",
        ]
        line = streamed.readline()
        assert (line[:6], json.loads(line[6:])["order"]) == (b"data: ", "stop"), "one session, by two ways"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert (Path(path).exists(), file.exists()) == (False, False)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_not_answered(environ: dict[str, str]) -> None:
    with agent(environ) as (_, (path,)):
        for folder in (Path(path).parent, Path(path).parent.parent):
            folder.chmod(0o755)
        Path(path).chmod(0o666)
        # In a process of its own: a change of user interrupts each thread, which ends a mock cluster's.
        asked = subprocess.run([sys.executable, "-c", ANOTHER_USER, path], capture_output=True, check=True)
        assert asked.stdout == b"", asked.stdout


def test_a_session_goes_on_in_a_service_that_was_started_anew_and_stays_stopped(environ: dict[str, str]) -> None:
    orders: list[Order] = []
    with mock.patch.dict(os.environ, environ, clear=True):
        reach = Reach({}, os.environ | {"HALTLINE_MODE": "local"})
        session = ServiceSession(reach, {"session_id": "s1"}, on_order=orders.append)
        assert [delete(session, f"d{number}") for number in range(3)] == LOOP
        wait_until(lambda: [one.order for one in orders] == ["stop"], "it is told")
        (process,) = serving(environ["HOME"])
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not serving(environ["HOME"]), "the service is gone")
        assert delete(session, "d4") == "session_killed_loop_guard", "by what it had stored"
        assert delete(ServiceSession(reach, {"session_id": "s2"}), "d1") == "made"
        assert len(serving(environ["HOME"])) == 1


def test_without_a_service_calls_follow_the_fail_policy_by_what_they_would_run(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    def nowhere(_: object) -> Any:
        raise ConnectionRefusedError("nobody serves")

    session = ServiceSession(nowhere, {"session_id": "s1"})
    assert delete(session, "d1") == "no_verdict"
    for command, expected in (("ls /srv", Allowed), ("rm -rf /srv/data", Denied)):
        assert isinstance(session.before(None, "Bash", {"command": command}), expected), command
    assert [record.getMessage() for record in caplog.records] == [
        "haltline: s1: calls follow the fail policy: nobody serves"
    ]


def test_a_call_that_waits_at_the_end_of_its_session_does_not_begin_it_anew() -> None:
    class Waits:
        def __init__(self) -> None:
            self.closed = threading.Event()

        def ask(self, verb: str, _fields: Mapping[str, Any]) -> dict[str, Any]:
            if verb == "begin":
                return {"token": "t", "session_id": "s1"}
            if verb == "propose":
                self.closed.wait(60)
                raise ServiceGone("it was closed")
            return {}

        def close(self) -> None:
            self.closed.set()

    links: list[Waits] = []

    def reach(_: object) -> Waits:
        links.append(Waits())
        return links[-1]

    session = ServiceSession(reach, {"session_id": "s1"})
    session.begin()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(session.before, "c1", "delete_asset", {"asset_id": "x"})
        session.end()
        assert isinstance(waiting.result(60), Denied)
    assert len(links) == 1


def test_without_a_broker_and_without_local_it_says_what_is_missing(environ: dict[str, str]) -> None:
    done = ended(*HALTLINE, "agent", env={name: value for name, value in environ.items() if "BOOTSTRAP" not in name})
    assert (done.returncode, "bootstrap: expected Kafka's address" in done.stderr) == (2, True), done.stderr


def test_a_line_that_is_no_request_is_answered_and_the_next_one_is_read(environ: dict[str, str]) -> None:
    with agent(environ) as (_, (path,)):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            lines = ('{"id": 1}', "{no json", "[1]", '{"id": 3, "verb": "begin", "lease_s": 1e999}')
            client.sendall("\n".join((*lines, '{"id": 2, "verb": "begin"}', "")).encode())
            answers = client.makefile()
            found = [json.loads(answers.readline()) for _ in range(5)]
        assert [one["result"]["answer"] for one in found if one["id"] == 2] == ["allow"]
        failed = [one for one in found if "error" in one]
        errors = {f"{one['id']}: {one['error']['problems'][0].partition(', got')[0]}" for one in failed}
        assert errors == {
            "1: verb: expected one of begin, propose, end, turn, close",
            "3: lease_s: expected another value (Input should be a finite number)",
            "None: the line: expected an object",
            "None: the line: expected one JSON object",
        }
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"no json\n")
            assert "expected a JSON object or the name of an agent, got 'no json'" in client.makefile().read()


def test_an_answer_that_is_for_nobody_leaves_no_caller_waiting(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        connection = Connection(Path(path), lambda _: None)
        accepted, _ = server.accept()
        accepted.sendall(b'{"id": null, "error": {"status": 413, "problems": ["too long"]}}\n{"order": 7}\nno json\n')
        accepted.close()
        with pytest.raises(ServiceGone):
            connection.ask("turn", {})


def test_a_service_that_a_front_end_has_started_ends_after_its_last_session(environ: dict[str, str]) -> None:
    variables = environ | {"HALTLINE_MODE": "local", "HALTLINE_HOOK_IDLE_S": "0.2"}
    with mock.patch.dict(os.environ, variables, clear=True):
        session = ServiceSession(Reach({}, os.environ), {"session_id": "s1"})
        assert delete(session, "d1") == "made"
        session.end()
    wait_until(lambda: not serving(environ["HOME"]), "the service has ended")


WITHOUT_SOCKETS = """
import functools, socket, sys
socket.socketpair = functools.partial(socket.socketpair, socket.AF_UNIX)  # asyncio wakes itself by a pair
del socket.AF_UNIX
sys.modules |= {"fcntl": None, "haltline.cli.agent.hook_request": None}  # what needs what Windows lacks
from haltline.cli.app import app
app()
"""


def test_without_unix_sockets_it_serves_http_on_loopback_with_a_key(environ: dict[str, str]) -> None:
    command = [sys.executable, "-c", WITHOUT_SOCKETS, "agent", "--local"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            key = (Path(environ["HOME"]) / ".haltline" / "agent.key").read_text()
            answers = []
            for sent in (key, "another"):
                connection = http.client.HTTPConnection(address.removeprefix("http://"))
                headers = {"Authorization": f"Bearer {sent}", "Content-Type": "application/json"}
                connection.request("POST", "/v2/begin", b"{}", headers)
                answers.append(connection.getresponse().status)
        finally:
            process.send_signal(signal.SIGTERM)
    assert (answers, address.startswith("http://127.0.0.1:"), process.returncode) == ([200, 401], True, 0)
