import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

DEADLINE_S = 180.0
"""Thrice the promised minute: the machine may be busy."""
EVERYDAY = {"HALTLINE_BOOTSTRAP": "127.0.0.1:1", "HALTLINE_PREFIX": "everyday."}
"""Of a user who has a cluster set for every day: the demo must not touch it."""


class Demo:
    """A running `haltline demo`, and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def printed(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.printed or self.process.poll() is not None, f"{text!r}", deadline_s=DEADLINE_S)
        assert text in self.printed, self.printed

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_S)

    def pids(self) -> list[int]:
        return pids_of(self.printed)


def pids_of(printed: str) -> list[int]:
    """The worker's and the audit sink's."""
    found = re.search(r"worker is process (\d+), audit sink (\d+);", printed)
    assert found is not None, printed
    return [int(found[1]), int(found[2])]


@contextmanager
def demo(tmp_path: Path, *options: str) -> Iterator[Demo]:
    output = tmp_path / "printed.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "haltline.cli", "demo", "--keep", str(tmp_path / "kept"), *options],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | EVERYDAY,
        )
    try:
        yield Demo(process, output)
    finally:
        process.terminate()  # nothing when it has ended
        process.wait(DEADLINE_S)


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
        assert not any(map(is_running, running.pids()))
        assert "Traceback" not in running.printed


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine.txt").write_text("precious", encoding="utf-8")
    with demo(tmp_path) as running:
        assert running.exit_code() == 2
        assert "--keep: expected a folder that is new or empty" in running.printed
