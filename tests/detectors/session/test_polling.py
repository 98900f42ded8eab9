from collections.abc import Sequence
from typing import Any

from haltline.detectors.session.polling import Polling
from haltline.schemas.events import ActionEvent
from tests.builders import bash, cases, event, findings, in_turn

DETECTOR = Polling()


def poll(second: float, result: str = "state: queued") -> ActionEvent:
    return event(second, "get_job_status", "job=1", output_head=result)


def order(second: float) -> ActionEvent:
    """A look that is no poll by its name."""
    return event(second, "get_order", "order=1", output_head="x")


def every(gap_s: float, count: int, make: Any = poll) -> list[ActionEvent]:
    return [make(n * gap_s) for n in range(count)]


def steps(events: Sequence[ActionEvent], detector: Polling = DETECTOR) -> dict[str, int]:
    """By severity: the number of the first event with it, from 1."""
    reached: dict[str, int] = {}
    place = {e.event_id: n for n, e in enumerate(events, start=1)}
    for e, finding in findings(detector, events):
        reached.setdefault(finding.severity.value, place[e.event_id])
    return reached


@cases(
    "events, expected",
    {
        "by the count of the repetitions": (every(1, 60), {"medium": 9, "high": 13}),
        "by the time waited": (every(60, 40), {"medium": 11, "high": 16, "critical": 31}),
        "clocks and counters are nothing new": (
            [poll(s * 20, f"12:{s:02d} still queued, checked {s} times, attempt {s}") for s in range(60)],
            {"medium": 12, "high": 27},
        ),
        "a number that tells how far it got": ([poll(s, f"{s} of 100 files copied") for s in range(60)], {}),
        "a change made in between begins no new wait and adds nothing": (
            in_turn(range(0, 200, 10), poll, lambda s: bash(s, f"sed -i s/{s}/b/ x", output_head="")),
            {},
        ),
        "work goes on while it waits": (
            in_turn(range(0, 120, 2), poll, lambda s: event(s, "read_file", f"path={s}", output_head=f"{s}")),
            {},
        ),
        "a sleep, then a look that is no poll by its name": (
            in_turn(range(0, 120, 2), lambda s: bash(s, "sleep 5", output_head=""), order),
            {"medium": 18, "high": 26},
        ),
        "a wait that its time ended, and that does not": (
            [
                bash(s * 40, "kubectl rollout status d", "1 of 7 updated\ntimed out waiting for the condition")
                for s in range(28)
            ],
            {"medium": 11, "high": 24},
        ),
    },
)
def test_waiting(events: Sequence[ActionEvent], expected: dict[str, int]) -> None:
    assert steps(events) == expected


def test_the_pause_before_the_next_poll_grows_up_to_a_minute() -> None:
    pauses = [finding.values["pause_s"] for _, finding in findings(DETECTOR, every(1, 80))]
    assert sorted(set(pauses)) == [5.0, 10.0, 20.0, 40.0, 60.0]
    assert pauses == sorted(pauses)
