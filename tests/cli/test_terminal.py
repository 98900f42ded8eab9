"""Output of the commands on terminals: widths, colours."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import Producer

from haltline.schemas.decisions import Level, ScopeKind
from haltline.schemas.incidents import IncidentChange, IncidentRecord, IncidentState
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.cases import cases

HALTLINE = str(Path(sys.executable).with_name("haltline"))
SESSION = "8f14e45f-ceea-467f-a0e6-3b1c5b6b1f0a"
REASON = "the same call failed 12 times with the same error, and nothing else was done in between"
_COLOUR = re.compile(r"\x1b\[[\d;]*3\d(?:;\d+)*m")
_ANY = re.compile(r"\x1b\[[\d;]*m")


def on_a_terminal(*arguments: str, columns: int = 80, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """Everything that a command prints on a terminal of this width."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.execve(HALTLINE, [HALTLINE, *arguments], {"TERM": "xterm-256color", **environment})
    output = b""
    try:
        while part := os.read(terminal, 65_536):
            output += part
    except OSError:  # the command has ended
        pass
    os.waitpid(pid, 0)
    os.close(terminal)
    return output.decode().replace("\r\n", "\n")


@pytest.fixture
def with_an_incident(embedded: EmbeddedBroker) -> EmbeddedBroker:
    record = IncidentRecord(
        incident_id="4f1c09ab77", revision=1, change=IncidentChange.OPENED, state=IncidentState.OPEN,
        scope=ScopeKind.SESSION, scope_id=SESSION, session_id=SESSION, cause="error_repetition", agent_id="cleaner",
        level=Level.KILL, count=12, first_at=1_790_000_000_000, last_at=1_790_000_000_000,
        changed_at=1_790_000_000_000, summary=REASON, decision_id="d-1",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": embedded.bootstrap})
    producer.produce(Topics().incidents, key=SESSION.encode(), value=record.to_json())
    assert producer.flush(10) == 0
    return embedded


def test_a_table_that_is_too_wide_for_a_terminal_is_printed_a_record_at_a_time(
    with_an_incident: EmbeddedBroker,
) -> None:
    command = ("incidents", "--bootstrap", with_an_incident.bootstrap)
    lines = _ANY.sub("", on_a_terminal(*command)).splitlines()
    assert lines[0].startswith("row 1 ──")
    assert lines[1:6] == ["id: 4f1c09ab", "state: open", "level: KILL", "times: 12", "cause: error_repetition"]
    assert f"of: {SESSION}" in lines
    assert f"why: {REASON}" in lines  # the terminal breaks it
    assert not any(line.startswith(("severity", "assigned")) for line in lines)  # they are empty

    wide = _ANY.sub("", on_a_terminal(*command, columns=160))
    assert f"│ {SESSION} │" in wide
    assert max(map(len, wide.splitlines())) <= 160

    piped = subprocess.run([HALTLINE, *command], env={}, capture_output=True, text=True, check=False).stdout
    assert f"│ {SESSION} │" in piped
    assert 160 < max(map(len, piped.splitlines())) <= 200


@cases(
    "environment, coloured, styled",
    {"a terminal": ({}, True, True), "a terminal with NO_COLOR: bold is left": ({"NO_COLOR": "1"}, False, True)},
)
def test_help_and_errors_have_colours_where_they_may(environment: dict[str, str], coloured: bool, styled: bool) -> None:
    shown = on_a_terminal("--help", environment=environment)
    assert (bool(_COLOUR.search(shown)), bool(_ANY.search(shown))) == (coloured, styled)
    wrong = on_a_terminal("notify", environment=environment)
    assert "--config: expected a document" in _ANY.sub("", wrong)
    assert bool(_COLOUR.search(wrong)) == coloured


def test_json_has_never_any_colours() -> None:
    command = [HALTLINE, "audit", "ask", "--list", "--json"]
    data = subprocess.run(command, env={"FORCE_COLOR": "1"}, capture_output=True, text=True, check=False)
    assert data.stdout
    assert not _ANY.search(data.stdout)
