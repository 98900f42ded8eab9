from collections.abc import Sequence
from typing import Any

import pytest

from haltline.detectors.session.resource_growth import ResourceGrowth
from haltline.schemas.events import ActionEvent, Kind, Task, Usage
from haltline.schemas.findings import Evidence, Severity
from tests.builders import Watched, call, event, findings, fires_at

DETECTOR = ResourceGrowth()
MIB = 1024 * 1024


def tokens(*amounts: int, every_s: float = 5) -> list[ActionEvent]:
    return [event(i * every_s, "work", usage=Usage(input_tokens=amount)) for i, amount in enumerate(amounts)]


def severities(events: Sequence[ActionEvent | Sequence[ActionEvent]], **settings: Any) -> str:
    """The severities of the findings, by their first letters."""
    return "".join(severity[0] for _, _, severity in fires_at(ResourceGrowth(**settings), events))


@pytest.mark.parametrize(
    ("amounts", "found"),
    [
        pytest.param((100, 200, 450, 1100), "h", id="the fixture of the mission"),
        pytest.param((1_000, 2_000, 4_000), "", id="three steps are too few"),
        pytest.param((1_000, 1_800, 3_240, 5_832), "m", id="1.8 times a step"),
        pytest.param((1_000, 2_000, 4_000, 8_000), "h", id="exactly twice a step"),
        pytest.param((1_000, 3_000, 9_000, 27_000), "c", id="exactly three times a step"),
        pytest.param((1_000, 1_500, 2_250, 3_375), "", id="exactly the threshold"),
        pytest.param((1_000, 2_000, 4_000, 8_000, 16_000, 32_000), "hhc", id="again at each further step"),
        pytest.param(
            [round(1_000 * 1.8**n) for n in range(8)], "mmmcc", id="slow growth that goes on, until it is far"
        ),
        pytest.param((1_000, 1_260, 20_000, 36_000), "m", id="one big step, and one of ordinary growth"),
        pytest.param((1_000, 2_200, 2_000, 5_000, 12_000), "m", id="one pause among four"),
        pytest.param((1_000, 2_200, 2_000, 2_100, 12_000), "", id="two pauses among four"),
        pytest.param((1_000, 4_000, 1_000, 4_000, 16_000), "", id="a fall is no pause"),
        pytest.param((1, 100, 1, 100, 1, 100), "", id="up and down"),
        pytest.param((1_000, 100_000, 1_000, 100_000, 1_000), "", id="up and down by much"),
        pytest.param(tuple(range(1_000, 20_000, 1_000)), "", id="linear growth, as of every agent's context"),
        pytest.param((1, 2, 3, 4, 5, 6, 7, 8), "", id="a counter"),
        pytest.param((1_662, 5_614, 6_131, 6_500, 7_900, 8_100), "", id="a context that fills up"),
        pytest.param((2_000, 2_000, 2_000, 90_000), "", id="a single big step"),
        pytest.param((2_000, 2_000, 2_000, 90_000, 91_000, 92_000), "", id="a single big step that stays"),
        pytest.param((50_000,) * 9, "", id="much, but steady"),
        pytest.param((16_000, 8_000, 4_000, 2_000, 1_000), "", id="less and less"),
        pytest.param((1_829, 3_221, 6_567, 9_088), "", id="growth that slows down"),
        pytest.param((10, 30, 90, 270), "", id="below the floor"),
        pytest.param((1, 1, 1, 1_000), "", id="from next to nothing to the floor"),
    ],
)
def test_growth_of_tokens(amounts: tuple[int, ...], found: str) -> None:
    assert severities(tokens(*amounts)) == found


@pytest.mark.parametrize(
    ("name", "field", "amounts"),
    [
        pytest.param(
            "cost_usd", "usage", [{"cost_usd": c} for c in (0.02, 0.04, 0.09, 0.22)], id="cost below a dollar"
        ),
        pytest.param(
            "memory_bytes", "usage", [{"memory_bytes": m * MIB} for m in (100, 200, 450, 1100)], id="memory in use"
        ),
        pytest.param("file_ops", "usage", [{"file_ops": n} for n in (10, 20, 45, 110)], id="file operations"),
        pytest.param("output_bytes", "output_bytes", [n * MIB for n in (1, 2, 5, 12)], id="size of the output"),
        pytest.param("duration_ms", "duration_ms", [n * 1000 for n in (20, 40, 90, 220)], id="duration"),
    ],
)
def test_growth_of_other_resources(name: str, field: str, amounts: list[Any]) -> None:
    events = [event(s, "work", **{field: amount}) for s, amount in enumerate(amounts)]
    assert [(f.values["resource"], f.severity) for _, f in findings(DETECTOR, events)] == [(name, Severity.HIGH)]


def test_output_that_is_now_small_and_now_large_is_no_growth() -> None:
    sizes = (0, 3_482, 30, 3_482, 8_452, 113, 1_484, 2_787, 10_612, 126, 1_993, 0, 1_784, 64_372, 0)
    assert severities([event(s, "work", output_bytes=size) for s, size in enumerate(sizes)]) == ""


def turn(second: float, calls: int) -> list[ActionEvent]:
    """A model turn with parallel calls: all proposed, then all completed."""
    pairs = [call(second + i / 100, "search", f"q={second}.{i}", output_bytes=40_000) for i in range(calls)]
    return [p for p, _ in pairs] + [r for _, r in pairs]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param(
            [turn(s, n) for s, n in enumerate((1, 2, 4, 8))], "hmh", id="more calls each turn, and more output"
        ),
        pytest.param([turn(s, 3) for s in range(0, 90, 10)], "", id="as many calls each turn"),
        pytest.param(
            [
                [
                    event(s, "model", kind=Kind.MODEL_TURN),
                    *(event(s + i / 100, "search", output_bytes=40_000) for i in range(n)),
                ]
                for s, n in ((0, 3), (10, 3), (20, 3), (30, 3), (40, 3))
            ],
            "",
            id="turns told by the session, completed calls only",
        ),
        pytest.param(
            [
                [event(s, "model", kind=Kind.MODEL_TURN), *(event(s + i / 100, "search") for i in range(n))]
                for s, n in ((0, 1), (10, 3), (20, 9), (30, 27))
            ],
            "hc",
            id="turns told by the session, more calls each turn",
        ),
        pytest.param(
            [event(s, "model", kind=Kind.MODEL_TURN, usage=Usage(output_tokens=1000 * 2**s)) for s in range(4)],
            "h",
            id="usage of model turns",
        ),
    ],
)
def test_a_step_is_a_model_turn(events: Sequence[Sequence[ActionEvent]], found: str) -> None:
    assert severities(events) == found


def test_a_call_whose_result_never_comes_does_not_hold_a_step_open() -> None:
    lost = call(0, "search")[0]
    calls = [call(s, "search", usage=Usage(input_tokens=1000 * 2**s)) for s in range(1, 5)]
    assert severities([lost, *calls]) == "h"


@pytest.mark.parametrize(
    ("settings", "amounts", "severity", "steps"),
    [
        pytest.param({"limits": {"tokens": 1_000_000}}, (1_000, 1_800, 3_240, 5_832), "medium", 8, id="far away"),
        pytest.param({"limits": {"tokens": 60_000}}, (1_000, 1_800, 3_240, 5_832), "high", 3, id="near: at least high"),
        pytest.param({"limits": {"tokens": 10_000}}, (1_000, 1_800, 3_240, 5_832), "high", 0, id="reached"),
        pytest.param({"limits": {"tokens": 15_000}}, (1_000, 2_000, 4_000, 8_000), "high", 0, id="reached exactly"),
        pytest.param(
            {"limits": {"tokens": 31_000}}, (1_000, 2_000, 4_000, 8_000), "high", 1, id="reached by the next step"
        ),
        pytest.param(
            {"limits": {"tokens": 31_001}}, (1_000, 2_000, 4_000, 8_000), "high", 2, id="not quite by the next step"
        ),
    ],
)
def test_projection_to_a_limit(settings: dict[str, Any], amounts: tuple[int, ...], severity: str, steps: int) -> None:
    ((_, finding),) = findings(ResourceGrowth(**settings), tokens(*amounts))
    assert (finding.severity.value, finding.values["steps_to_limit"]) == (severity, steps)


def test_memory_is_projected_as_a_level() -> None:
    events = [event(s, "work", usage=Usage(memory_bytes=m * MIB)) for s, m in enumerate((128, 256, 513, 1024))]
    ((_, finding),) = findings(ResourceGrowth(limits={"memory_bytes": 4096 * MIB}), events)
    assert finding.values["steps_to_limit"] == 2


def test_a_limit_that_the_session_declared_counts_when_it_is_tighter() -> None:
    started = event(0, kind=Kind.SESSION_STARTED, task=Task(limits={"tokens": 20_000, "wishes": 3}))
    ((_, finding),) = findings(
        ResourceGrowth(limits={"tokens": 1_000_000}), [started, *tokens(1_000, 2_000, 4_000, 8_000)]
    )
    assert finding.thresholds["limit"] == 20_000


def test_the_finding_names_its_evidence() -> None:
    ((_, finding),) = findings(DETECTOR, tokens(100, 200, 450, 1100))
    assert finding.reason == "tokens grew 2.06 times a step over 4 steps: 100, 200, 450, 1100"
    assert finding.evidence == tuple(
        Evidence(event_id=f"s1@{s} work", topic="haltline.actions", partition=0, offset=i)
        for i, s in enumerate((0, 5, 10, 15))
    )


def test_it_says_how_close_it_is() -> None:
    watched = Watched(DETECTOR)
    near = []
    for e in tokens(1_000, 1_000, 1_250, 1_953, 1_953):
        watched(e)
        near.append(round(watched.detector.near(watched.state), 2))
    assert near == [0, 0, 0, 0.5, 0.5]
