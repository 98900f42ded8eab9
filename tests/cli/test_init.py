"""`haltline init` and `haltline config show`."""

import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from haltline.cli import settings_file
from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.cli.frameworks import FRAMEWORKS
from haltline.cli.settings_table import SETTINGS
from haltline.console.access.keys import Keys, Role, Who
from haltline.schemas.keys import load_private_key, load_public_key


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no file of the user's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("HALTLINE_CONFIG", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def haltline(*words: str, **environ: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "300", **environ})


def test_init_writes_a_file_that_reads_as_one_with_keys_that_open_and_sign(folder: Path) -> None:
    done = haltline("init", "--bootstrap", "kafka-1:9092", "--table", "audit", "--operator", "ada")
    assert done.exit_code == Exit.OK, done.output
    found = {name: one.value for name, one in settings_file.load(os.environ).items()}
    assert found == {
        "HALTLINE_BOOTSTRAP": "kafka-1:9092",
        "HALTLINE_OPERATOR": "ada",
        "HALTLINE_AUDIT_TABLE": str(folder / "audit"),
        "HALTLINE_AUDIT_KEY": str(folder / "haltline-keys" / "audit.pem"),
        "HALTLINE_AUDIT_PUBLIC_KEY": str(folder / "haltline-keys" / "audit.pem.pub"),
        "HALTLINE_CONSOLE_KEYS": str(folder / "haltline-keys" / "console.yaml"),
    }
    private, public = (Path(found[f"HALTLINE_AUDIT_{name}"]) for name in ("KEY", "PUBLIC_KEY"))
    assert load_private_key(private).public_key() == load_public_key(public)
    people = Path(found["HALTLINE_CONSOLE_KEYS"])
    assert {stat.S_IMODE(file.stat().st_mode) for file in (private, people)} == {0o600}
    assert stat.S_IMODE(people.parent.stat().st_mode) == 0o700
    printed = [word for word in done.stdout.split() if word.startswith("hl_")]
    assert [Keys.read(people).who(key) for key in printed] == [Who("ada", Role.OPERATOR), Who("viewer", Role.VIEWER)]
    assert not [file for file in folder.rglob("*") if file.is_file() and printed[0] in file.read_text()]


def test_without_cryptography_the_file_has_no_key_of_the_audit_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as base:
        base.setitem(sys.modules, "haltline.schemas.keys", None)
        done = haltline("init", "--yes")
    assert done.exit_code == Exit.OK, done.output
    assert "audit.pem: not made, as it needs cryptography: pip install 'haltline[processor]'" in done.stdout
    assert settings_file.load(os.environ).keys() == {"HALTLINE_CONSOLE_KEYS"}
    assert haltline("init", "--yes", "--force").exit_code == Exit.OK
    assert "HALTLINE_AUDIT_KEY" in settings_file.load(os.environ)


def test_each_setting_that_is_commented_out_would_be_one() -> None:
    haltline("init", "--yes")
    file = Path("haltline.toml")
    file.write_text(re.sub(r"(?m)^# (?=[a-z_]+ = )", "", file.read_text()))
    sections = {setting.variable for setting in SETTINGS if setting.section != "agent"}
    assert settings_file.read(str(file)).keys() == sections


def test_init_replaces_a_file_only_by_force_and_never_a_key() -> None:
    haltline("init", "--yes")
    key = Path("haltline-keys/audit.pem").read_bytes()
    refused = haltline("init", "--yes")
    assert refused.exit_code == Exit.USAGE
    assert "expected no file there, got one; --force replaces it" in refused.stderr
    done = haltline("init", "--force", "--operator", "bea")
    assert done.exit_code == Exit.OK
    assert settings_file.load(os.environ)["HALTLINE_OPERATOR"].value == "bea"
    assert Path("haltline-keys/audit.pem").read_bytes() == key
    assert "hl_" not in done.stdout


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_lines_of_a_framework_are_printed_and_nothing_is_written(folder: Path, name: str) -> None:
    done = haltline("init", "--framework", name)
    assert done.exit_code == Exit.OK, done.output
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith("    ")][-1] == FRAMEWORKS[name].how
    assert f"More: docs/frameworks/{name}.md" in done.stdout
    assert list(folder.iterdir()) == []


def test_a_framework_that_is_not_known_is_named() -> None:
    done = haltline("init", "--framework", "autogpt")
    assert (done.exit_code, "--framework: expected one of langchain, " in done.stderr) == (Exit.USAGE, True)


def test_on_a_terminal_it_offers_the_hooks_and_asks_for_the_settings(folder: Path) -> None:
    ours, theirs = pty.openpty()
    (folder / "home" / ".claude").mkdir(parents=True)
    os.write(ours, b"\ny\nkafka-1:9092\n\nada\n")
    environ = os.environ | {"COLUMNS": "200", "XDG_CONFIG_HOME": str(folder), "HOME": str(folder / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "haltline.cli", "init"],
        stdin=theirs, capture_output=True, text=True, check=False, env=environ, timeout=60,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "claude-code is used on this machine" in done.stdout
    assert "hook_client.py --local" in (folder / "home" / ".claude" / "settings.json").read_text()
    found = {name: one.value for name, one in settings_file.load(os.environ).items()}
    assert (found["HALTLINE_BOOTSTRAP"], found["HALTLINE_OPERATOR"]) == ("kafka-1:9092", "ada")
    assert "An agent's lines: haltline init --framework NAME, one of langchain, " in done.stdout


def test_config_show_says_where_each_value_is_from_and_what_is_wrong_with_a_file() -> None:
    Path("haltline.toml").write_text('[kafka]\nbootstrap = "a:1"\nprefix = "a."\n')
    environ = {"HALTLINE_BOOTSTRAP": "b:1", "HALTLINE_CONSOLE_DATABASE": "postgresql://ada:hunter2@db/x"}
    environ["HALTLINE_AUDIT_STORAGE_OPTIONS"] = "A=1 X_SECRET=2"
    shown = json.loads(haltline("config", "show", "--json", **environ).stdout)
    file = str(Path("haltline.toml").absolute())
    assert shown["files"] == [file]
    by_name = {one["setting"]: (one["value"], one["origin"]) for one in shown["settings"]}
    assert by_name["kafka.bootstrap"] == ("b:1", "environment, HALTLINE_BOOTSTRAP")
    assert by_name["kafka.prefix"] == ("a.", f"{file}:3")
    assert by_name["console.port"] == ("8460", "default")
    assert by_name["console.database"][0] == "postgresql://ada:***@db/x"
    assert by_name["audit.storage_options"][0] == "A=1 X_SECRET=***"
    assert haltline("config", "show", "--beside-agent").stdout.startswith("files: none;")
    Path("haltline.toml").write_text("[kafka]\nprefix = 1\n")
    done = haltline("config", "show")
    assert (done.exit_code, "haltline.toml:2: kafka.prefix: expected a text, got 1" in done.stderr) == (2, True)
