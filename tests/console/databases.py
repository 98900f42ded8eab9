"""A database for a console: SQLite in a folder, or a new one of a PostgreSQL server that is started for the tests.

`HALTLINE_TEST_DATABASE=postgresql` runs every test of the console on PostgreSQL.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from pwd import getpwnam

import psycopg

from tests.waiting import wait_until

ON_POSTGRESQL = os.environ.get("HALTLINE_TEST_DATABASE") == "postgresql"
MISSING = (
    "PostgreSQL is not here: expected initdb on the path or under /usr/lib/postgresql (apt-get install postgresql)"
)
running: list["Server"] = []
"""The server of this run, where there is one."""


@cache
def binaries() -> Path | None:
    """The folder of initdb and postgres; None: they are not here."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class Server:
    """A server whose databases are thrown away with it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def new(self) -> str:
        """The URL of a new database."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(f"{self._address}/postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"{self._address}/{name}"

    @property
    def _address(self) -> str:
        return f"postgresql://haltline@127.0.0.1:{self.port}"

    def answers(self) -> bool:
        try:
            psycopg.connect(f"{self._address}/postgres").close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def server() -> Iterator[Server]:
    """A server in a folder of its own; by the user postgres where root runs the tests, whom it refuses."""
    folder = binaries()
    assert folder is not None, MISSING
    user = "postgres" if os.geteuid() == 0 else None
    data = Path(tempfile.mkdtemp(prefix="haltline-postgresql-"))
    try:
        if user is not None:
            os.chown(data, getpwnam(user).pw_uid, getpwnam(user).pw_gid)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = ["-A", "trust", "-U", "haltline", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run([folder / "initdb", "-D", data, *options], check=True, capture_output=True, user=user, cwd=data)
        settings = ["fsync=off", f"unix_socket_directories={data}", "listen_addresses=127.0.0.1", "max_connections=200"]
        options = [part for setting in settings for part in ("-c", setting)]
        with (data / "log").open("wb") as log:
            command: list[str | Path] = [folder / "postgres", "-D", data, "-p", str(port), *options]
            runs = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=data)
        found = Server(port)
        try:
            wait_until(lambda: runs.poll() is not None or found.answers(), "PostgreSQL answers")
            assert runs.poll() is None, (data / "log").read_text()
            running.append(found)
            yield found
        finally:
            running.clear()
            runs.send_signal(signal.SIGINT)  # at once: SIGTERM waits until every client has gone
            runs.wait(30)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def database(folder: Path) -> str:
    """The URL of this run's kind of database; the same folder is the same one."""
    if not running:
        return f"sqlite:///{folder}/model.db"
    kept = folder / "model.url"
    if not kept.exists():
        kept.write_text(running[0].new())
    return kept.read_text()
