"""Records decided in a child process, each way in which one can end it."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from haltline.streams.replay.records import LogRecord
from haltline.streams.runtime import trial
from haltline.streams.runtime.changelog import RawRecord
from haltline.streams.runtime.trial import MEMORY_MIB, Trial, in_child

_MIB = 1024 * 1024


def records(*values: str) -> list[LogRecord]:
    return [LogRecord("events", 0, offset, 0, b"k", value.encode()) for offset, value in enumerate(values)]


def tried(decide: Callable[[RawRecord], object], told: Sequence[LogRecord], limit_s: float = 60.0) -> Trial:
    return asyncio.run(in_child(decide, told, limit_s))


def _holds_the_interpreter() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def _eats() -> None:
    eaten = []
    for _ in range(2 * MEMORY_MIB):
        eaten.append(b"x" * _MIB)


def _eats_and_is_contained() -> None:
    with suppress(MemoryError):
        _eats()


ENDS = {
    "killed": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "killed by SIGSEGV"),
    "exits": (lambda: os._exit(7), "ended with exit status 7"),
    "raises": (lambda: int("x"), "ValueError(\"invalid literal for int() with base 10: 'x'\")"),
    "eats memory": (_eats_and_is_contained, f"more than {MEMORY_MIB} MiB of memory"),
}


@pytest.mark.parametrize(("ends", "why"), ENDS.values(), ids=ENDS)
def test_a_record_that_ends_the_child_is_named_with_the_reason_and_those_before_it_are_decided(
    ends: Callable[[], object], why: str
) -> None:
    def decide(record: RawRecord) -> None:
        if record.value == b"bad":
            ends()

    assert tried(decide, records("good", "good", "bad", "good")) == Trial(2, why)
    assert tried(decide, records("bad")) == Trial(0, why)


@pytest.mark.parametrize("hangs", [_holds_the_interpreter, threading.Event().wait], ids=["computes", "waits"])
def test_a_record_that_takes_too_long_ends_the_child_also_while_no_other_python_code_can_run(
    hangs: Callable[[], object],
) -> None:
    assert tried(lambda _: hangs(), records("bad"), limit_s=0.5) == Trial(0, "no decision within 0.5 s")


def test_where_a_process_is_killed_that_takes_a_little_memory_no_record_is_to_blame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(_: RawRecord) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    assert tried(killed, records("a", "b")) == Trial(0, "killed by SIGKILL")
    monkeypatch.setattr(trial, "_take_memory", killed)
    assert tried(killed, records("a", "b")) == Trial(2)


def test_a_trial_that_is_cancelled_ends_its_child() -> None:
    async def cancelled() -> None:
        running = asyncio.create_task(in_child(lambda _: threading.Event().wait(), records("a"), 600.0))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())  # waits for the thread that waits for the child


def test_records_are_read_as_usual_where_there_can_be_no_further_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> int:
        raise BlockingIOError("no process is left")

    monkeypatch.setattr(os, "fork", none_left)
    assert tried(lambda _: None, records("a", "b")) == Trial(2)
