import random

from haltline.detectors.session.context_thrash import ContextThrash
from haltline.schemas.events import ActionEvent, Kind, Usage
from haltline.schemas.findings import Severity
from tests.builders import event, findings, nearness, severities
from tests.cases import cases

DETECTOR = ContextThrash()
FILLS_UP = (40_000, 60_000, 80_000, 100_000)


def turns(*tokens: int, kind: Kind = Kind.MODEL_TURN) -> list[ActionEvent]:
    return [
        event(s * 10, "model", kind=kind, usage=Usage(input_tokens=t), event_id=f"turn {s}")
        for s, t in enumerate(tokens)
    ]


def read(second: float, size: int | None) -> ActionEvent:
    return event(second, "read_file", f"path={second}", output_bytes=size)


def wrote(second: float, tokens: int) -> ActionEvent:
    usage = Usage(input_tokens=1000, output_tokens=tokens)
    return event(second, "", kind=Kind.MODEL_TURN, outcome=None, usage=usage, event_id=f"turn {second}")


@cases(
    "events, found",
    {
        "large files that a context holds": ([read(s, 100_000) for s in range(9)], ""),
        "sizes that nobody tells": ([read(s, None) for s in range(9)], ""),
        "an output that no context holds": ([read(0, 2_000_000)], "m"),
        "again and again, never critical": ([read(s, 2_000_000) for s in range(20)], "m" + "h" * 19),
        "at times": ([read(0, 2_000_000), *(read(s, 10) for s in range(1, 30)), read(30, 2_000_000)], "mm"),
        "a turn that wrote without end": ([wrote(0, 60_000), wrote(1, 10)], "m"),
        "turns that write without end": ([wrote(s, 60_000) for s in range(4)], "mhh"),
        "a long turn that ends with a call": ([wrote(0, 60_000), read(1, 10), wrote(2, 10)], ""),
        "turns of an ordinary length": ([wrote(s, 8_000) for s in range(9)], ""),
    },
)
def test_steps_that_no_context_holds(events: list[ActionEvent], found: str) -> None:
    assert severities(DETECTOR, events) == found


def test_the_text_of_a_step_that_no_context_holds() -> None:
    ((_, finding),) = findings(DETECTOR, [read(0, 2_000_000)])
    assert (finding.code, finding.values["size"]) == ("oversized_step", 2_000_000)
    assert finding.reason == "2000000 bytes of output of one call: read_file path=0"


@cases(
    "events, found",
    {
        "two falls are below the count": (turns(*FILLS_UP * 3), ""),
        "again and again": (turns(*FILLS_UP * 9), "mmhhcc"),
        "usage is told with results": (turns(*FILLS_UP * 4, kind=Kind.COMPLETED), "m"),
        "small contexts": (turns(*(t // 10 for t in FILLS_UP * 9)), ""),
        "at times": (turns(*[*range(20_000, 100_000, 2_000)] * 5), ""),
        "a context that only grows": (turns(*range(20_000, 200_000, 2_000)), ""),
        "small calls in between": (turns(*(t for n in range(40) for t in (50_000 + n * 500, 900))), ""),
        "parts of the work with a context of their own": (
            turns(*(t for n in range(9) for t in (50_000 + n, 51_000 + n, 52_000 + n, 5_000, 6_000, 7_000))),
            "",
        ),
        "not the same limit": (turns(*(40_000, 60_000, 80_000, 30_000, 90_000, 160_000) * 4), ""),
        "no usage is told": ([event(s, "read_file") for s in range(50)], ""),
    },
)
def test_falls_of_the_context(events: list[ActionEvent], found: str) -> None:
    assert severities(DETECTOR, events) == found


def test_turns_that_read_more_or_less_are_no_pattern() -> None:
    found = []
    for seed in range(50):
        rng = random.Random(seed)
        found.append(severities(DETECTOR, turns(*(rng.randrange(10_000, 150_000) for _ in range(100)))))
    assert found == [""] * 50


def test_what_was_read_from_a_cache_counts() -> None:
    events = [
        event(
            s * 10, "model", kind=Kind.MODEL_TURN, usage=Usage(input_tokens=100, cache_read_tokens=t), event_id=f"{s}"
        )
        for s, t in enumerate(FILLS_UP * 4)
    ]
    assert severities(DETECTOR, events) == "m"


def test_the_finding_names_its_evidence_and_how_close_it_is() -> None:
    ((_, finding),) = findings(DETECTOR, turns(*FILLS_UP * 4))
    assert (finding.code, finding.severity, finding.confidence) == ("context_thrash", Severity.MEDIUM, 3 / 7)
    assert finding.reason == (
        "the context shrank 3 times in 10 turns and 90s, the last time from 100000 to 40000 tokens"
    )
    assert [e.event_id for e in finding.evidence] == ["turn 4", "turn 8", "turn 12", "turn 13"]
    assert finding.values == {"falls": 3, "from_tokens": 100_000, "to_tokens": 40_000}
    near = nearness(DETECTOR, turns(*FILLS_UP * 4))
    assert [near[6], near[10], near[14]] == [0.33, 0.67, 1]
