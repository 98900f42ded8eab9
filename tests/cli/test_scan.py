import re
import socket
from pathlib import Path
from typing import NoReturn

import orjson
import pytest
from typer.testing import CliRunner, Result

from haltline.cli.agent.hook_settings import installed
from haltline.cli.app import app
from haltline.cli.common import Exit
from tests.streams.scan.transcripts import MODEL, Transcript, stuck

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


def scan(home: Path, *arguments: str | Path, **environ: str) -> Result:
    env = {"HOME": str(home), "USERPROFILE": str(home), "XDG_CACHE_HOME": str(home / "cache"), "COLUMNS": "200"}
    return CliRunner().invoke(app, ["scan", *map(str, arguments)], env=env | {"CLAUDE_CONFIG_DIR": None} | environ)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    projects = tmp_path / ".claude" / "projects"
    stuck().write(projects / "-srv-shop" / "a.jsonl")
    Transcript("fine").prompt("look").call("ls", "a.py").write(projects / "-srv-docs" / "b.jsonl")
    return tmp_path


def test_the_histories_of_the_home_are_read_and_no_socket_is_opened(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    done = scan(home)
    assert done.exit_code == Exit.OK, done.output
    assert done.stdout.startswith("2 sessions of claude-code, 2025-10-09: 14.3k tokens, $0.06\n")
    assert re.search(r"^day +sessions .*\n2025-10-09 +2 +13.0k +1.3k +0 +0 +\$0.06$", done.stdout, re.MULTILINE)
    assert "1 went wrong: a hold would have saved " in done.stdout
    assert "Guard claude-code: haltline hook install" in done.stdout


def test_what_was_used_is_summed_by_what_is_asked_for_and_a_line_fits(home: Path) -> None:
    printed = scan(home, "--by", "project").stdout
    assert re.search(r"^-srv-shop +1 +12.0k ", printed, re.MULTILINE)
    narrow = scan(home, "--by", "project", COLUMNS="60").stdout.partition("\n\n")[2].splitlines()[:3]
    assert (max(map(len, narrow)) <= 60, narrow[1].startswith("-srv-sh")) == (True, True)
    *groups, last = map(orjson.loads, scan(home, "--json", "--by", "model").stdout.splitlines())
    assert [(one["model"], one["sessions"], one["output"]) for one in groups] == [(MODEL, 2, 1300)]
    assert last["totals"]["cost_usd"] == groups[0]["cost_usd"]


def test_the_next_steps_keep_the_path_and_know_of_a_hook(home: Path) -> None:
    settings = home / ".claude/settings.json"
    settings.write_bytes(installed(None, "exec haltline hook --local", ""))
    printed = scan(home, home / ".claude").stdout
    assert f"haltline scan {home / '.claude'} --html report.html" in printed
    assert "claude-code is guarded by a hook here: haltline hook status" in printed


def test_as_json_each_session_is_a_line_and_the_totals_are_the_last(home: Path) -> None:
    *sessions, last = map(orjson.loads, scan(home, "--json").stdout.splitlines())
    assert [len(one["waste"]) for one in sessions] == [1, 0]
    assert last["totals"]["wasted_tokens"] == sessions[0]["waste"][0]["tokens"] > 0
    recent = scan(home, "--json", "--since", "-1d").stdout.splitlines()
    assert [line for line in recent if "waste" in line] == [orjson.dumps(orjson.loads(recent[-1])).decode()]


def test_secrets_are_in_no_output(home: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    leaking = Transcript("leak").prompt("push")
    for _ in range(12):
        leaking.call(f"curl -H 'Authorization: token {secret}' https://api.github.com", f"bad {secret}", failed=True)
    leaking.write(home / ".claude" / "projects" / "-srv-leak" / "c.jsonl")
    page = home / "report.html"
    printed = scan(home, "--html", page).output + scan(home, "--json").output
    kept = (home / "cache" / "haltline" / "scan.jsonl").read_text()
    assert "-srv-leak" in printed
    assert secret not in printed + kept + page.read_text()


def test_what_a_history_says_cannot_end_the_script_of_the_page(home: Path) -> None:
    hostile = Transcript(f"x{HOSTILE}").prompt("go")
    for _ in range(12):
        hostile.call(HOSTILE, HOSTILE, failed=True)
    page = home / "report.html"
    scan(home, hostile.write(home / "h.jsonl"), "--html", page)
    text = page.read_text()
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert orjson.loads(data)["sessions"][0]["id"].startswith("x</script>")
    assert not set("<>&") & set(data)
    assert text.count("<script") == 2
    assert not re.search(r"(?:src|href)=.?https?:", text), "it loads nothing"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(["no/such/file"], Exit.USAGE, "No such file or directory", id="a path that is not there"),
        pytest.param(["--html", "no/such/report.html"], Exit.USAGE, "expected a file in a folder that exists",
                     id="a page in a folder that is not there"),
        pytest.param(["--since", "yesterday"], Exit.USAGE, "how long ago (-90m, -30d), got 'yesterday'", id="a word"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(arguments: list[str], code: Exit, says: str, home: Path) -> None:
    done = scan(home, *arguments)
    assert done.exit_code == code
    assert says in done.stderr


def test_a_home_without_histories_says_what_to_name(tmp_path: Path) -> None:
    done = scan(tmp_path)
    assert (done.exit_code, f"No session was found in {tmp_path}." in done.stdout) == (Exit.NO, True)
    assert "  claude-code: ~/.claude ... or $CLAUDE_CONFIG_DIR\n" in done.stdout
    done = scan(tmp_path, tmp_path)
    assert (done.exit_code, "Read are files of these names, by their content: opencode.db" in done.stdout) == (1, True)


def test_sessions_that_are_all_older_are_not_called_missing(home: Path) -> None:
    done = scan(home, "--since", "2099-01-01")
    assert (done.exit_code, done.stdout) == (Exit.NO, "No session was active since then.\n")


def test_what_cannot_be_read_or_kept_costs_a_line_also_as_json(home: Path) -> None:
    whole = (home / ".claude" / "projects" / "-srv-shop" / "a.jsonl").read_bytes()
    folder = home / "histories"
    folder.mkdir()
    (folder / "binary.jsonl").write_bytes(bytes(range(256)))
    (folder / "half.jsonl").write_bytes(whole[: len(whole) // 2])
    (folder / "latin.jsonl").write_bytes(whole.replace(b"mend the build", b"Ger\xfcst"))
    (home / "cache").write_text("not a folder")
    done = scan(home, "--json", folder)
    assert done.exit_code == Exit.OK
    assert len(done.stdout.splitlines()) == 2, "both are of one session"
    kept, binary, half, latin = done.stderr.splitlines()
    assert "the next scan reads everything again: " in kept
    assert re.search(r"binary.jsonl: expected JSON, or JSON lines, got something else from column 1", binary)
    assert re.search(r"half.jsonl: line \d+: expected JSON, got a text that is cut off$", half)
    assert re.search(r"latin.jsonl: line 1: expected JSON, got bytes that are not UTF-8, from the one at \d+$", latin)
