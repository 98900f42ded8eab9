"""A command of haltline that runs, and prints into a file."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_until

DEADLINE_S = 180.0
"""Of a machine that is busy."""


@dataclass
class Printing:
    """The process, and what it has printed."""

    process: "subprocess.Popen[bytes]"
    output: Path

    @property
    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> str:
        """All that it has printed, once this is in it."""
        wait_until(lambda: text in self.printed or self.process.poll() is not None, f"{text!r}", deadline_s=DEADLINE_S)
        assert text in self.printed, self.printed
        return self.printed

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_S)


@contextmanager
def printing(
    output: Path, *words: str, cwd: Path | None = None, env: Mapping[str, str] = os.environ
) -> Iterator[Printing]:
    """Runs the command until the end of the block, which sends it SIGTERM."""
    with output.open("wb") as file:
        command = [sys.executable, "-m", "haltline.cli", *words]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=cwd, env=env)
    try:
        yield Printing(process, output)
    finally:
        process.terminate()  # nothing when it has ended
        process.wait(DEADLINE_S)
