"""Disks as anybody leaves them: what cannot be read costs a line, and ends, hides or reveals nothing."""

import gzip
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.interventions.agent.user_files import write_file
from haltline.streams.importing import reading
from haltline.streams.private_files import make_folder
from tests.builders import cases
from tests.streams.scan.transcripts import Transcript, stuck

GOOD = stuck()
LINES = b"".join(orjson.dumps(line) + b"\n" for line in GOOD.lines)
EVENTS = len(GOOD.lines) // 2 * 3
SECRET = "ghp_" + "a1B2" * 9


def run(command: str, folder: Path, *paths: Path, home: Path) -> Result:
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "COLUMNS": "200", "CLAUDE_CONFIG_DIR": None}
    return CliRunner().invoke(app, [command, str(folder), *map(str, paths)], env=env)


def truncate(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def deep(path: Path) -> None:
    """A folder whose path is longer than a system call takes."""
    path.mkdir()
    here = os.open(path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("a" * 250, dir_fd=here)
        below = os.open("a" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def database(path: Path, *, beside: str = "") -> None:
    """One that computes gigabytes, or that SQLite would open with another file."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as made:
        for table in ("session(id)", "part(id, message_id, session_id, data)"):
            made.execute(f"CREATE TABLE {table}")
        size = 4 if beside else 400_000_000
        made.execute(f"CREATE TABLE message(id, session_id, time_created, data AS (hex(zeroblob({size}))))")
        made.execute("INSERT INTO session VALUES ('s')")
        made.execute("INSERT INTO message VALUES ('m', 's', 1)")
        made.commit()
    if beside:
        os.mkfifo(f"{path}{beside}")


def database_beside(beside: str) -> Callable[[Path], None]:
    return lambda path: database(path / "opencode.db", beside=beside)


def trace(path: Path) -> None:
    event = {"session_id": "s", "kind": "action.proposed", "event_id": "e", "time": 1, "action": "ls"}
    path.write_bytes(orjson.dumps(event))
    os.mkfifo(path.with_name(f"{path.stem}.sessions.jsonl"))


ODD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a named pipe": ("a.jsonl", os.mkfifo, "expected a file, got a named pipe"),
    "a link to a device": ("a.jsonl", lambda path: path.symlink_to("/dev/zero"), "expected a file, got a device"),
    "a dangling link": ("a.jsonl", lambda path: path.symlink_to("gone"), "No such file or directory"),
    "an empty file": ("a.jsonl", Path.touch, "got an empty file"),
    "half a value": ("a.json", lambda path: path.write_text('{"a'), "got a text that is cut off"),
    "a path that is too long": ("deep", deep, "File name too long"),
    "a file with a hole": ("a.jsonl", truncate, "got an endless one"),
    "a packed bomb": ("a.jsonl.gz", lambda path: path.write_bytes(gzip.compress(b" " * 2**20)), "got an endless one"),
    "many values": ("a.json", lambda path: path.write_text(f"[{'[],' * 9999}[]]"), "expected at most 9000 values"),
    "a line of control characters": ("\x1b[2J\na.jsonl", Path.touch, "/\ufffd[2J\ufffda.jsonl: expected JSON"),
    "a computing database": ("a", database_beside(""), "expected a database of an agent, got string or blob too big"),
    "a pipe for a log of changes": ("a", database_beside("-wal"), "expected a file, got a named pipe"),
    "a pipe beside a trace": ("a.jsonl", trace, "expected a file, got a named pipe"),
}  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached at once; no file is large enough for processes of its own."""
    monkeypatch.setattr("haltline.streams.scan.scanning._SMALL_BYTES", 2**50)
    for name, most in (("MAX_VALUE_BYTES", 200_000), ("MAX_LINE_BYTES", 50_000), ("MAX_VALUES", 9000)):
        monkeypatch.setattr(reading, name, most)


@cases("name, make, says", ODD)
@pytest.mark.parametrize("command", ["scan", "import"])
@pytest.mark.usefixtures("small")
def test_it_costs_a_line_and_the_others_are_read(
    command: str, name: str, make: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    folder = tmp_path / "f"
    (folder / "z").mkdir(parents=True)
    (folder / "z" / "good.jsonl").write_bytes(LINES)
    make(folder / name)
    done = run(command, folder, home=tmp_path)
    assert done.exit_code == (Exit.OK if command == "scan" else Exit.NO), done.output
    assert says in done.stderr
    assert all(line.startswith("haltline: ") for line in done.stderr.splitlines())
    assert GOOD.session_id in done.stdout


@pytest.mark.parametrize("command", ["scan", "import"])
def test_a_name_that_is_not_utf_8_is_a_name(command: str, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / os.fsdecode(b"\xff.jsonl")).write_bytes(LINES)
    (folder / os.fsdecode(b"\xfe.jsonl")).touch()
    for _ in ("", "again, with what was kept"):
        done = run(command, folder, home=tmp_path)
        assert not isinstance(done.exception, Exception), done.exception
        assert GOOD.session_id in done.stdout
        assert "caf?" in done.stderr


def test_what_came_before_a_hole_or_more_broken_lines_than_whole_ones_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "HEAD_LINES", 20)
    file = tmp_path / "a.jsonl"
    for behind, says in (
        (b"x\n" * 100_000, "got more others than these; the rest is not read"),
        (b"\x1f\x8b", "got bytes that are not UTF-8"),
    ):
        file.write_bytes(LINES + behind)
        done = run("import", file, home=tmp_path)
        assert (done.exit_code, says in done.stderr) == (Exit.NO, True), done.stderr
        assert len(done.stdout.splitlines()) == EVENTS
    packed = file.with_suffix(".gz")
    packed.write_bytes(gzip.compress(LINES + os.urandom(200_000).hex().encode())[:-50_000])
    assert "expected a whole gzip file" in run("import", packed, home=tmp_path).stderr


def test_no_name_tells_a_secret(tmp_path: Path) -> None:
    leaking = Transcript(f"s-{SECRET}").prompt("go")
    for _ in range(12):
        leaking.call("rm -rf /srv/x/data", "busy", failed=True)
    for line in leaking.lines:
        if line["type"] == "assistant":
            line["message"]["model"] = f"m-{SECRET}"
            line["message"]["content"][0]["name"] = f"deploy_{SECRET}"
    folder = tmp_path / f"project-{SECRET}"
    leaking.write(folder / f"{SECRET}.jsonl")
    (folder / f"{SECRET}.json").touch()
    page, cache = tmp_path / "report.html", tmp_path / "cache" / "haltline" / "scan.jsonl"
    page.touch(0o644)
    printed = run("scan", folder, Path("--html"), page, home=tmp_path).output
    printed += run("scan", folder, Path("--json"), home=tmp_path).output + run("import", folder, home=tmp_path).output
    assert printed.count("[redacted:github_token]") > 20
    assert [SECRET in text for text in (printed, page.read_text())] == [False, False]
    assert [stat.S_IMODE(file.stat().st_mode) for file in (page, cache)] == [0o600, 0o600]


def test_a_folder_of_data_is_private_and_left_out_by_git_and_one_with_files_stays_as_it_is(tmp_path: Path) -> None:
    new, used, old = tmp_path / ".haltline" / "demo", tmp_path / "used", tmp_path / "old" / ".haltline"
    for folder in (used, old):
        folder.mkdir(0o755, parents=True)
        (folder / "file").touch()
    for folder in (new, used, old):
        make_folder(folder)
    found = {folder.name: (stat.S_IMODE(folder.stat().st_mode), (folder / ".gitignore").exists())
             for folder in (new.parent, new, used)}  # fmt: skip
    assert found == {".haltline": (0o700, True), "demo": (0o700, True), "used": (0o755, False)}
    assert (stat.S_IMODE(old.stat().st_mode), (old / ".gitignore").read_text()) == (0o700, "*\n")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("before")

    def broken() -> object:
        yield b"half"
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_file(file, broken())  # type: ignore[arg-type]
    assert ([*tmp_path.iterdir()], file.read_text()) == ([file], "before")
    write_file(Path("/dev/null"), [b"to a device"])
