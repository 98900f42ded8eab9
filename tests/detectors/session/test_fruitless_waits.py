from collections.abc import Sequence
from typing import Any

from haltline.detectors.session.fruitless_waits import FruitlessWaits
from haltline.schemas.events import ActionEvent, Outcome
from tests.builders import bash, cases, each, event, severities

DETECTOR = FruitlessWaits()
TIMED_OUT = "the command timed out after 300 seconds"


def slow(number: int, command: str = "nc h 99", error: str | None = None, **fields: Any) -> ActionEvent:
    """A command that took two minutes, the one of this number."""
    result: dict[str, Any] = {"duration_ms": 120_000, "output_head": "", "output_bytes": 0} | fields
    if "output_head" in fields and "output_bytes" not in fields:
        result["output_bytes"] = len(fields["output_head"])
    return bash(number * 200, command, error, **result)


def wait_call(number: int, head: str, command: str = "make check", **fields: Any) -> ActionEvent:
    """A wait whose answer is new."""
    return slow(number, command, output_head=head, **fields)


def between(events: Sequence[ActionEvent], *others: str) -> list[ActionEvent]:
    """The events, each with quick commands after it."""
    mixed = []
    for e in events:
        mixed.append(e)
        for n, command in enumerate(others):
            result = bash(0, command, output_head=f"{e.event_id} {n}")
            mixed.append(result.model_copy(update={"time": e.time + 1000 * n, "event_id": f"{e.event_id} {n}"}))
    return mixed


@cases(
    "events, found",
    {
        "timeouts without a word": (each(5, slow, error=TIMED_OUT), "mcc"),
        "the same failure after each change": (
            between(each(4, slow, error="EOFError: no more input"), "sed -i s/a/b/ x.py"),
            "mc",
        ),
        "the same command without a result": (each(4, slow), "mc"),
        "few among many": (between(each(6, slow, error=TIMED_OUT), *("ls" for _ in range(9))), ""),
        "timeouts that brought something new": (
            [wait_call(n, f"epoch {n} of 99\n", "python train.py", error=TIMED_OUT) for n in range(6)],
            "",
        ),
        "waiting": ([wait_call(n, "queued", f"sleep {60 * n + 60}; cat s") for n in range(9)], ""),
    },
)
def test_slow_calls(events: Sequence[ActionEvent | Sequence[ActionEvent]], found: str) -> None:
    assert severities(DETECTOR, events) == found


def sleep(number: int, command: str = "sleep 240; echo done", slept_s: float = 240.0, **fields: Any) -> ActionEvent:
    return bash(number * 300, command, duration_ms=slept_s * 1000, output_head="done", **fields)


@cases(
    "events, found",
    {
        "sleeps in a row": (each(13, sleep), "mmmhhhcc"),
        "by a tool": ([event(n * 60, "sleep", args={"s": 30}, duration_ms=30_000) for n in range(12)], "mmmhhhc"),
        "with a look in between": (
            [e for n in range(12) for e in (sleep(n), bash(n * 300 + 290, "ls out", output_head=f"{n}"))],
            "",
        ),
        "that look at something": ([sleep(n, "sleep 240; cat log") for n in range(12)], ""),
        "that were stopped": ([sleep(n, error="timed out", outcome=Outcome.TIMEOUT) for n in range(12)], ""),
        "after a rate limit": (
            [bash(0, "curl api", "429 too many requests"), *each(range(1, 14), sleep)],
            "",
        ),
    },
)
def test_sleeps(events: Sequence[ActionEvent | Sequence[ActionEvent]], found: str) -> None:
    assert severities(DETECTOR, events) == found
