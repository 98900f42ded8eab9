import os
import re
import signal
from contextlib import AbstractContextManager
from pathlib import Path

from tests.cli.printing import Printing, printing

EVERYDAY = {"HALTLINE_BOOTSTRAP": "127.0.0.1:1", "HALTLINE_PREFIX": "everyday."}
"""Of a user who has a cluster set for every day: the demo must not touch it."""


def demo(tmp_path: Path) -> AbstractContextManager[Printing]:
    words = ("demo", "--keep", str(tmp_path / "kept"))
    return printing(tmp_path / "printed.txt", *words, env=os.environ | EVERYDAY)


def pids_of(printed: str) -> list[int]:
    """The worker's and the audit sink's."""
    found = re.search(r"worker is process (\d+), audit sink (\d+);", printed)
    assert found is not None, printed
    return [int(found[1]), int(found[2])]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_demo_that_is_interrupted_ends_all_that_it_started(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        running.wait_for("worker is process")
        running.process.send_signal(signal.SIGINT)
        assert running.exit_code() == 130, running.printed
        assert not any(map(is_running, pids_of(running.printed)))
        assert "Traceback" not in running.printed


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine.txt").write_text("precious", encoding="utf-8")
    with demo(tmp_path) as running:
        assert running.exit_code() == 2
        assert "--keep: expected a folder that is new or empty" in running.printed
