import os
import re
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.console.access.keys import BadKeys, Keys, Role, Who, digest_of
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import cases
from tests.waiting import wait_until


def test_a_key_that_was_made_opens_the_console_with_its_role_and_as_json_is_one_document(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["console", "key", 'ada "the first"', "--role", "viewer"])
    key = done.stdout.splitlines()[0].split()[-1]
    file = tmp_path / "keys.yaml"
    file.write_text(done.stdout)
    keys = Keys.read(file)
    assert keys.who(key) == Who('ada "the first"', Role.VIEWER)
    assert keys.who(key + "x") is None
    assert key not in "".join(done.stdout.splitlines()[1:])
    done = CliRunner().invoke(app, ["console", "key", "ada", "--role", "viewer", "--json"])
    made = orjson.loads(done.stdout)
    assert made["entry"] == {"name": "ada", "role": "viewer", "sha256": digest_of(made["key"])}
    done = CliRunner().invoke(app, ["console", "key", "ada", "--role", "god"])
    assert done.exit_code == Exit.USAGE
    assert "'god' is not one of 'viewer', 'agent', 'operator', 'admin'" in " ".join(
        done.stderr.replace("│", "").split()
    )


@cases(
    "text, problem",
    {
        "no list": ("a: b", "expected a list of name, role and sha256, got dict"),
        "a role that is none": ("- {name: ada, role: god, sha256: 00}", "0: role"),
        "a key in the clear": ("- {name: ada, role: admin, sha256: hl_secret}", "0: sha256"),
        "aliases": ("- &a [*a]", "expected YAML, got line 1: expected a value, got an alias"),
    },
)
def test_a_file_of_keys_that_cannot_be_used_says_where(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(BadKeys) as refused:
        Keys.read(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert problem in str(refused.value)


def test_a_link_that_signs_in_is_printed_on_a_terminal(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    reads, writes = os.openpty()
    options = ["--bootstrap", embedded.bootstrap, "--port", "0", "--database", f"sqlite:///{tmp_path}/model.db"]
    process = subprocess.Popen([sys.executable, "-m", "haltline.cli", "console", *options], stdout=writes)
    os.close(writes)
    printed = b""
    try:
        while (address := re.search(rb"(http://127\.0\.0\.1:\d+)\s", printed)) is None:
            printed += os.read(reads, 65_536)
        wait_until(lambda: answers(f"{address[1].decode()}/healthz"), "it serves")
    finally:
        process.terminate()
        process.wait(60)
    with suppress(OSError):  # a terminal that is closed
        while more := os.read(reads, 65_536):
            printed += more
    os.close(reads)
    assert b"/sign-in#token=" in printed


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=10):
        return True
    return False
