from collections.abc import Sequence
from typing import Any

from haltline.detectors.session.polling import Polling
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, bash, each, event, evidence, findings
from tests.cases import cases

DETECTOR = Polling()


def poll(second: float, result: str = "state: queued") -> ActionEvent:
    return event(second, "get_job_status", "job=1", output_head=result)


def every(gap_s: float, count: int, make: Any = poll) -> list[ActionEvent]:
    return [make(n * gap_s) for n in range(count)]


def steps(events: Sequence[ActionEvent], detector: Polling = DETECTOR) -> dict[str, int]:
    """By severity: at which event it was reached first, from 1."""
    reached: dict[str, int] = {}
    place = {e.event_id: n for n, e in enumerate(events, start=1)}
    for e, finding in findings(detector, events):
        reached.setdefault(finding.severity.value, place[e.event_id])
    return reached


@cases(
    "events, expected",
    {
        "seven repetitions": (every(1, 8), {}),
        "by the count of the repetitions": (every(1, 60), {"medium": 9, "high": 13, "critical": 21}),
        "by the time waited": (every(60, 25), {"medium": 11, "high": 16, "critical": 21}),
        "a long wait with few polls": (every(120, 12), {"medium": 11}),
        "a long wait with enough of them": (every(120, 13), {"medium": 11, "critical": 13}),
        "every four seconds for ever": (every(4, 300), {"medium": 9, "high": 13, "critical": 21}),
        "by the count, when they are spaced": (every(20, 60), {"medium": 11, "high": 26, "critical": 51}),
        "clocks and counters are nothing new": (
            [poll(s * 20, f"12:{s:02d} still queued, checked {s} times, attempt {s}") for s in range(60)],
            {"medium": 12, "high": 27, "critical": 52},
        ),
        "what is published of an answer is cut": (
            [
                poll(s, f"poll #{n}: queued behind {'others ' * 9}").model_copy(
                    update={"output_bytes": 900 + len(str(n)), "output_digest": f"{n:016x}"}
                )
                for s, n in enumerate(range(95, 155))
            ],
            {"medium": 10, "high": 14, "critical": 22},
        ),
        "an answer that grows behind what is published of it": (
            [
                poll(s, "built " + "x" * 90).model_copy(
                    update={"output_bytes": 900 + 40 * s, "output_digest": f"{s:016x}"}
                )
                for s in range(60)
            ],
            {},
        ),
        "a number that tells how far it got": ([poll(s, f"{s} of 100 files copied") for s in range(60)], {}),
        "a percentage that grows": ([poll(s, f"{s}%") for s in range(100)], {}),
        "something new now and then": ([poll(s, f"step {s // 8}") for s in range(90)], {}),
        "only the time waited is new": (
            [poll(s, f"queued, 0:00:{s % 60:02d} elapsed") for s in range(60)],
            {"medium": 10, "high": 14, "critical": 22},
        ),
        "two states in turn": (
            [poll(s, ("queued", "pending")[s % 2]) for s in range(60)],
            {"medium": 10, "high": 14, "critical": 22},
        ),
        "no poll at all": (each(60, event, "get_order", "order=1", output_head="x"), {}),
        "work goes on while it waits": (
            [
                e
                for s in range(0, 120, 2)
                for e in (poll(s), event(s + 1, "read_file", f"path={s}", output_head=f"{s}"))
            ],
            {},
        ),
        "a sleep, then a look that is no poll by its name": (
            [
                e
                for s in range(0, 120, 2)
                for e in (bash(s, "sleep 5", output_head=""), event(s + 1, "get_order", "order=1", output_head="x"))
            ],
            {"medium": 18, "high": 26, "critical": 42},
        ),
        "longer and longer sleeps": (
            every(1, 60, lambda s: bash(s, f"sleep {5 + s:g}; cat state", output_head="x")),
            {"medium": 9, "high": 13, "critical": 21},
        ),
        "what it reads says that it is not finished": (
            every(1, 60, lambda s: event(s, "get_build", "id=1", output_head='{"status": "running"}')),
            {"medium": 9, "high": 13, "critical": 21},
        ),
        "a minute between one look and the next": (
            every(61, 40, lambda s: event(s, "get_order", "order=1", output_head="x")),
            {"medium": 11, "high": 16, "critical": 21},
        ),
    },
)
def test_waiting(events: Sequence[ActionEvent], expected: dict[str, int]) -> None:
    assert steps(events) == expected


def test_a_change_made_in_between_begins_no_new_wait_and_adds_nothing() -> None:
    edits = [bash(n * 10 + 5, f"sed -i s/{n}/b/ x", output_head="") for n in range(20)]
    mixed = [e for n in range(20) for e in (poll(n * 10), edits[n])]
    assert steps(mixed) == {}


def test_the_finding_tells_how_long_it_waited() -> None:
    watched = Watched(Polling(polls=(2, 3, 4)))
    assert [watched(e) for e in every(30, 2)] == [None, None]
    assert watched(poll(60)) == Finding(
        detector="polling",
        code="polling",
        severity=Severity.MEDIUM,
        confidence=0.5,
        reason="2 polls in 60s with nothing new: get_job_status job=1",
        evidence=evidence(every(30, 3)),
        values={"polls": 2, "waited_s": 60.0},
        thresholds={"polls": 2, "wait_s": 600.0, "min_polls": 12},
    )
    assert watched.detector.near(watched.state) == 1.0
