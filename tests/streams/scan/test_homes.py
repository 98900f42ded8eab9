from pathlib import Path

import pytest

from haltline.streams.scan.homes import histories, within

SUPPORT = "Library/Application Support"
TASK = "User/globalStorage/saoudrizwan.claude-dev/tasks/1/api_conversation_history.json"


@pytest.mark.parametrize(
    ("platform", "agent", "file"),
    [
        pytest.param("linux", "claude-code", ".claude/projects/-srv-shop/a.jsonl", id="Claude Code"),
        pytest.param("linux", "claude-code", ".claude/projects/-srv-shop/a/subagents/agent-b.jsonl", id="a subagent"),
        pytest.param("linux", "codex", ".codex/sessions/2026/11/24/rollout-1.jsonl", id="Codex"),
        pytest.param("darwin", "cline", f"{SUPPORT}/Code/{TASK}", id="Cline on macOS"),
        pytest.param("win32", "cline", f"AppData/Roaming/Code/{TASK}", id="Cline on Windows"),
        pytest.param("win32", "goose", "AppData/Roaming/Block/goose/sessions/s.jsonl", id="goose on Windows"),
        pytest.param("darwin", "mini-swe-agent", f"{SUPPORT}/mini-swe-agent/last_mini_run.traj.json", id="mini"),
    ],
)  # fmt: skip
def test_a_history_in_the_home_is_found(platform: str, agent: str, file: str, tmp_path: Path) -> None:
    there = tmp_path / file
    there.parent.mkdir(parents=True)
    there.touch()
    (tmp_path / "other.jsonl").touch()
    assert list(histories(tmp_path, {}, platform)) == [(agent, there)]


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        pytest.param(
            ".local/share/opencode/opencode.db", ".local/share/opencode/storage/session/p/ses_1.json", id="opencode"
        ),
        pytest.param(".local/share/goose/sessions/sessions.db", ".local/share/goose/sessions/a.jsonl", id="goose"),
        pytest.param(".gemini/tmp/p/chats/session-a.jsonl", ".gemini/tmp/p/chats/session-a.json", id="Gemini CLI"),
    ],
)
def test_a_session_that_a_newer_release_took_over_is_not_found_twice(newer: str, older: str, tmp_path: Path) -> None:
    for file in (older, newer):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
        assert [found for _, found in histories(tmp_path, {}, "linux")] == [tmp_path / file]


def test_within_a_folder_what_may_be_a_history_is_read_and_what_is_installed_there_is_not(tmp_path: Path) -> None:
    for name in ("run.traj", "sub/b.jsonl", "node_modules/c.jsonl", ".git/d.json", "main.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [str(file.relative_to(tmp_path)) for file in within([tmp_path])] == ["run.traj", "sub/b.jsonl"]
    with pytest.raises(FileNotFoundError):
        list(within([tmp_path / "none"]))
