"""Programs that tests run, and the handling of missing ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest


def ended(*command: object, timeout: float = 300, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a command until its end; options are those of `subprocess.run`."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout, **options)


def printed(*command: object, **options: Any) -> str:
    """The output of a command; if it fails, the test fails."""
    done = ended(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def intake(*options: str) -> Iterator[str]:
    """The address of `haltline intake`."""
    command = [sys.executable, "-m", "haltline.cli", "intake", "--port", "0", "--budget", "20", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def missing(why: str) -> NoReturn:
    """Skips the test on a developer's machine; with CI=true it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true: {why}", pytrace=False)
    pytest.skip(why)
