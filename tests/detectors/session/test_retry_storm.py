from typing import Any

from haltline.detectors.session.retry_storm import RetryStorm
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Severity
from tests.builders import bash, call, event, findings, nearness, severities
from tests.cases import cases

DETECTOR = RetryStorm()
ERRORS = ("KeyError: 'a'", "TypeError: no", "timed out", "ValueError: 7", "permission denied", "not found", "conflict")


def failures(count: int, start: int = 0, every_s: float = 30, **fields: Any) -> list[ActionEvent]:
    """Failed calls, each with another error than the one before."""
    return [
        event(start + s * every_s, f"tool_{s % 5}", f"x={start + s}", ERRORS[s % len(ERRORS)], **fields)
        for s in range(count)
    ]


def successes(count: int, start: int = 0) -> list[ActionEvent]:
    return [event(start + s * 30, "read_file", f"path=/srv/{start + s}") for s in range(count)]


@cases(
    "events, found",
    {
        "fourteen are below the count": (failures(14), ""),
        "fifteen are medium, twenty high, twenty-three critical": (failures(23), "mmmmmhhhc"),
        "successes in between": ([*failures(14), *successes(12, 1000), *failures(2, 2000)], ""),
        "few successes in between": ([*failures(14), *successes(10, 1000), *failures(1, 2000)], "m"),
        "every other one fails": (
            [e for s in range(30) for e in (*failures(1, s * 60), *successes(1, s * 60 + 30))],
            "",
        ),
        "searches find nothing": ([bash(s * 30, f"grep x{s} a", "exit code 1") for s in range(30)], ""),
        "waits for something": ([event(s * 30, "job_status", f"x={s}", ERRORS[s % 7]) for s in range(30)], ""),
        "fast, but too few for that to matter": (failures(19, every_s=1), "m" * 5),
    },
)
def test_failures_of_the_last_steps(events: list[ActionEvent], found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "count, every_s, found",
    {
        "nineteen in 18 seconds": (19, 1, ""),
        "twenty in 57 seconds": (20, 3, "m"),
        "forty in 39 seconds": (40, 1, "m" * 10 + "h" * 10 + "c"),
        "a slow one": (40, 4, ""),
    },
)
def test_failures_in_a_short_time(count: int, every_s: float, found: str) -> None:
    fast_only = RetryStorm(last_actions=200, medium=200, high=200, critical=200)
    assert severities(fast_only, failures(count, every_s=every_s)) == found


def test_parallel_calls_are_one_step() -> None:
    turns = [[call(t * 60 + n / 10, "fetch", f"x={t},{n}", "timed out", took_s=5) for n in range(6)] for t in range(14)]
    events = [e for calls in turns for e in (*(p for p, _ in calls), *(c for _, c in calls))]
    assert severities(DETECTOR, events) == ""
    assert severities(DETECTOR, [c for calls in turns for c in calls]) == "", "each result behind its proposal"
    one_by_one = [
        call(t * 60 + n * 8, "fetch", f"x={t},{n}", "timed out", took_s=5) for t in range(14) for n in range(6)
    ]
    assert severities(DETECTOR, one_by_one).startswith("mmmmmhhhc")


def test_calls_that_were_cancelled_and_steps_of_which_a_part_succeeded_did_not_fail() -> None:
    bad = [call(t * 60, "fetch", f"x={t}", "timed out" if t % 3 else None) for t in range(30)]
    cancelled = [call(t * 60 + 5, "fetch", f"y={t}", "Sibling tool call errored") for t in range(30)]
    counts = RetryStorm(last_actions=40, medium=25, high=30, critical=35)
    assert severities(counts, [c for pair in zip(bad, cancelled, strict=True) for c in pair]) == ""
    steps: list[ActionEvent] = []
    for t in range(30):
        failed = call(t * 60, "fetch", f"x={t}", "timed out", took_s=5)
        good = call(t * 60 + 1, "fetch", f"y={t}", took_s=6)
        steps += [failed[0], good[0], failed[1], good[1]]
    assert severities(DETECTOR, steps) == ""


def test_the_finding_names_its_evidence_and_how_close_it_is() -> None:
    events = [*successes(3), *failures(15, 1000)]
    ((_, finding),) = findings(DETECTOR, events)
    assert (finding.code, finding.severity, finding.confidence) == ("retry_storm", Severity.MEDIUM, 15 / 23)
    assert finding.reason == "15 of the last 18 steps failed, with 7 different errors"
    assert [e.event_id for e in finding.evidence] == [e.event_id for e in events[3:]]
    assert finding.values == {"failed": 15, "steps": 18, "failed_in_window": 3, "errors": 7}
    near = nearness(DETECTOR, failures(15))
    assert near[:4] + near[-2:] == [0, 0.07, 0.13, 0.2, 0.93, 1]
