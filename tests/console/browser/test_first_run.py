"""From an empty folder to a console that proves the audit, with nothing typed twice."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.waiting import wait_until

WITHIN_S = 180.0


class Folder:
    """A folder, and commands that run in it without any option about where things are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("HALTLINE_")}
        self.environ |= {"XDG_CONFIG_HOME": str(path / "none"), "COLUMNS": "200"}

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints; it must end with the code."""
        command = [sys.executable, "-m", "haltline.cli", *words]
        done = subprocess.run(
            command, cwd=self.path, env=self.environ, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> list[dict[str, object]]:
        """The rows that a command prints as JSON."""
        found = json.loads(self.run(*words, "--json"))
        assert isinstance(found, list)
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """One in which `haltline init` has run."""
    found = Folder(tmp_path_factory.mktemp("first"))
    assert "Next: haltline up" in found.run("init", "--yes", "--operator", "ada")
    return found


@pytest.fixture(scope="module")
def printed(folder: Folder) -> Iterator[str]:
    """What `haltline up` prints in it, which runs meanwhile; at the end it is interrupted."""
    output = folder.path / "printed.txt"
    command = [sys.executable, "-m", "haltline.cli", "up", "--metrics-port", "0", "--console-port", "0"]
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder.path, env=folder.environ, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_until(
            lambda: "Ctrl-C ends all" in output.read_text() or process.poll() is not None,
            "it is up",
            deadline_s=WITHIN_S,
        )
        yield output.read_text()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) == 0, output.read_text()
    rows = folder.json("audit", "query", "SELECT session_id FROM audit WHERE kind = 'kill'")
    assert rows, "the table is found after the end as well"
    assert "bootstrap" not in (folder.path / ".haltline" / "up.toml").read_text(), "the broker is gone"


def link_in(printed: str) -> str:
    found = re.search(r"Sign in\s+(http://127\.0\.0\.1:\d+/sign-in#token=\S+)   \(as ada: once", printed)
    assert found is not None, printed
    return found[1]


def test_commands_in_the_folder_find_broker_table_and_processes(folder: Folder, printed: str) -> None:
    folder.run("canary", "--within", "60s")
    folder.run("kill", "night-7", "--unknown", "--reason", "loops", "--timeout", "60")
    assert "night-7" in folder.run("status")
    wait_until(
        lambda: folder.json("audit", "query", "SELECT * FROM audit WHERE kind = 'kill' AND \"by\" = 'ada'"),
        "the table has the kill, by the operator named in the file",
        deadline_s=WITHIN_S,
    )
    assert folder.run("audit", "verify").startswith("VERIFIED"), "with the key that init has made"
    checks = {str(check["what"]): check for check in folder.json("doctor")}
    assert str(checks["configuration"]["found"]).split(", ") == [
        str(folder.path / "haltline.toml"),
        str(folder.path / ".haltline" / "up.toml"),
    ]
    assert [check for check in checks.values() if check["verdict"] == "bad"] == []
    assert {checks[name]["verdict"] for name in ("worker's health", "sink's health", "console's health")} == {"ok"}
    folder.run("replay", "audit")
    assert "KILL" in folder.run("backtest", "audit")


def test_the_printed_link_signs_in_once_and_the_audit_page_verifies(
    chromium: Browser, folder: Folder, printed: str
) -> None:
    link = link_in(printed)
    token = link.partition("token=")[2]
    page = chromium.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(link)
    page.wait_for_url("**/fleet")
    expect(page.get_by_text("ada").first).to_be_visible()
    assert not [url for url in requests if token in url.partition("#")[0]], "the token is in no address that is sent"
    page.go_back(wait_until="load")
    assert token not in page.url, "nor in the history"
    page.goto(link)
    page.wait_for_url("**/fleet#")
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_text("Chains and signatures.")).to_be_visible()
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_text("VERIFIED").first).to_be_visible()
    page.close()
    other = chromium.new_context().new_page()
    other.goto(link)
    expect(other.get_by_text("This link was already used")).to_be_visible()
    other.context.close()
    logs = [file for file in (folder.path / ".haltline").rglob("*") if file.is_file()]
    assert not [file for file in logs if token.encode() in file.read_bytes()], "the token is in no file"
