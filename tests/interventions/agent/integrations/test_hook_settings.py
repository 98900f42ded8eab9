import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.cli.agent import hook_settings
from haltline.cli.agent.hook_settings import installed, parsed, uninstalled, without
from haltline.cli.agent.hook_status import hooks
from haltline.interventions.agent.integrations.hooks.installed import PROGRAM
from tests.builders import cases

OTHERS = {
    "model": "opus",
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "Notification": [{"hooks": [{"type": "command", "command": "notify-send haltline hooked"}]}],
    },
}


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


def main(arguments: list[str]) -> int:
    return hook_settings.main(arguments, refusal=lambda _: None)


@cases(
    "before",
    {
        "no file": None,
        "a file in its own layout": b'{"model":"opus",\n\n  "hooks": {}}',
        "hooks of others": json.dumps(OTHERS).encode(),
    },
)
def test_uninstall_leaves_the_file_as_it_was_to_the_byte(tmp_path: Path, before: bytes | None) -> None:
    file = tmp_path / ".claude" / "settings.local.json"
    if before is not None:
        file.parent.mkdir()
        file.write_bytes(before)
    assert main(["install", "--settings", str(file), "--bootstrap", "kafka:9092"]) == 0
    assert b"hook_client.py --bootstrap kafka:9092" in file.read_bytes()
    assert main(["install", "--settings", str(file)]) == 0
    assert main(["uninstall", "--settings", str(file)]) == 0
    assert (file.read_bytes() if file.exists() else None) == before
    assert list(file.parent.iterdir()) == ([file] if before is not None else [])


def test_a_dry_run_changes_nothing_uninstall_keeps_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, before = tmp_path / "settings.json", '{\n  "model": "opus"\n}\n'
    file.write_text(before)
    assert main(["install", "--dry-run", "--settings", str(file)]) == 0
    shown = capsys.readouterr().out
    assert (f"--- {file}" in shown, '+    "PreToolUse": [' in shown) == (True, True)
    assert (file.read_text(), list(tmp_path.iterdir())) == (before, [file])
    main(["install", "--settings", str(file)])
    said = capsys.readouterr().err
    assert f"{file}: written" in said
    assert f"haltline hook uninstall --settings {file} ends that" in said
    file.write_text(json.dumps(json.loads(file.read_text()) | {"theme": "dark"}))
    main(["uninstall", "--settings", str(file)])
    assert json.loads(file.read_text()) == {"model": "opus", "theme": "dark"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "expected JSON, got Expecting property name"),
        ("[]", "expected a JSON object, got list"),
        ('{"hooks": 7}', "hooks: expected an object, got int"),
        ('{"hooks": {"Stop": {}}}', "hooks: Stop: expected a list, got dict"),
    ],
)
def test_a_file_that_claude_code_would_not_read_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    file = tmp_path / "settings.json"
    file.write_text(text)
    assert main(["install", "--settings", str(file)]) == 2
    assert f"{file}: {expected}" in capsys.readouterr().err
    assert file.read_text() == text


def test_a_link_stays_a_link_and_the_mode_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text("{}")
    real.chmod(0o600)
    link.symlink_to(real)
    main(["install", "--settings", str(link)])
    assert link.is_symlink()
    assert (b"hook" in real.read_bytes(), real.stat().st_mode & 0o777) == (True, 0o600)


def test_the_command_quotes_what_a_shell_would_split(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    main(["install", "--local", "--settings", str(file), "--agent-id", "the builder"])
    command = json.loads(file.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert command.endswith("hook_client.py --local --agent-id 'the builder'")


@pytest.mark.parametrize("agent", [*hook_settings.AGENTS])
def test_each_agent_gets_its_hooks_in_its_own_files_and_loses_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.chdir(tmp_path)
    one = hook_settings.AGENTS[agent]
    place = tmp_path / one.private if one.private else Path(one.of_user).expanduser()
    assert main(["install", "--for", agent, "--local"]) == 0
    files = [place] if place.is_file() else sorted(place.iterdir())
    text = files[0].read_text()
    assert "hook_client.py" in text
    assert (f'"{agent}"' in text or f"--for {agent} --local" in text) == (agent != "claude-code")
    if agent == "cline":
        assert {file.name for file in files} >= {"PreToolUse", "PostToolUse"}
        assert all(file.stat().st_mode & 0o111 for file in files)
    elif agent in {"codex", "gemini-cli"}:
        (before,) = {"PreToolUse", "BeforeTool"} & json.loads(text)["hooks"].keys()
        assert json.loads(text)["hooks"][before][0]["hooks"][0]["timeout"] == (60 if agent == "codex" else 60_000)
    assert main(["uninstall", "--for", agent]) == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_hook_of_the_last_release_moves_out_of_the_file_that_a_team_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shared, private = tmp_path / ".claude/settings.json", tmp_path / ".claude/settings.local.json"
    shared.parent.mkdir()
    before = json.dumps(OTHERS).encode()
    shared.write_bytes(installed(before, "/opt/python -I -S /opt/cli/hook_client.py --local", "f"))
    (tmp_path / ".claude/settings.json.before-haltline").write_bytes(before)
    assert [(hook.agent, hook.place) for hook in hooks(os.environ)] == [("claude-code", shared)]
    arguments = ["install", "--local"]
    assert hook_settings.main(arguments, refusal=lambda act: f"{act}: a person is asked") == 0, "its options are equal"
    assert (shared.read_bytes(), PROGRAM.search(private.read_text()) is not None) == (before, True)
    assert main(["install", "--user"]) == 0
    of_user = Path.home() / ".claude/settings.json"
    assert [(hook.place, hook.root) for hook in hooks(os.environ)] == [(of_user, str(Path.home()))]
    assert main(["uninstall"]) == 0
    assert (hooks(os.environ), sorted(shared.parent.iterdir()), of_user.exists()) == ([], [shared], False)


def test_where_haltline_is_not_installed_the_command_line_passes_without_a_word(tmp_path: Path) -> None:
    shared, private = (tmp_path / name / ".claude/settings.json" for name in ("shared", "home"))
    for file in (shared, private.with_name("settings.local.json")):
        main(["install", "--local", "--settings", str(file)])
        line = json.loads(file.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
        assert (sys.prefix in line) == (file != shared), "a team has no path of this machine"
        line = line.replace("hook_client.py", "gone.py")
        done = subprocess.run(["/bin/sh", "-c", line], env={"PATH": "/nowhere"}, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_hook_of_another_in_the_place_of_ours_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "PreToolUse").write_text("#!/bin/sh\n./check.sh\n")
    assert main(["install", "--for", "cline", "--settings", str(tmp_path)]) == 2
    assert "PreToolUse: expected no hook of another program there" in capsys.readouterr().err
    main(["uninstall", "--for", "cline", "--settings", str(tmp_path)])
    assert [file.name for file in tmp_path.iterdir()] == ["PreToolUse"]


ENTRIES = [
    {"hooks": [{"type": "command", "command": "./mine.sh"}]},
    {"matcher": "Bash", "hooks": [{"type": "command", "command": "myhaltline hook"}]},
    {"matcher": "Bash"},
]
entries = st.lists(st.sampled_from(ENTRIES) | st.integers(), min_size=1)


@given(hooks=st.dictionaries(st.sampled_from([*hook_settings.EVENTS, "Other"]), entries, min_size=1))
def test_install_and_uninstall_leave_the_same_settings(hooks: dict[str, object]) -> None:
    before = json.dumps({"hooks": hooks, "x": 1}).encode()
    after = installed(before, "/usr/bin/haltline hook", "f")
    assert without(parsed(after, "f"), "f") == parsed(before, "f")
    assert uninstalled(after, None, "f") == uninstalled(installed(before, "haltline hook", "f"), None, "f")
