from typing import Any

from haltline.detectors.session.resource_growth import ResourceGrowth
from haltline.schemas.events import ActionEvent, Kind, Task, Usage
from haltline.schemas.findings import Severity
from tests.builders import Events, call, cases, each, event, findings, severities

DETECTOR = ResourceGrowth()
MIB = 1024 * 1024


def tokens(*amounts: int, every_s: float = 5) -> list[ActionEvent]:
    return [event(i * every_s, "work", usage=Usage(input_tokens=amount)) for i, amount in enumerate(amounts)]


@cases(
    "amounts, found",
    {
        "the fixture of the mission": ((100, 200, 450, 1100), "h"),
        "1.8 times a step": ((1_000, 1_800, 3_240, 5_832), "m"),
        "exactly twice a step": ((1_000, 2_000, 4_000, 8_000), "h"),
        "exactly three times a step": ((1_000, 3_000, 9_000, 27_000), "c"),
        "again at each further step": ((1_000, 2_000, 4_000, 8_000, 16_000, 32_000), "hhc"),
        "slow growth that goes on, until it is far": ([round(1_000 * 1.8**n) for n in range(8)], "mmmcc"),
        "one big step, and one of ordinary growth": ((1_000, 1_260, 20_000, 36_000), "m"),
        "one pause among four": ((1_000, 2_200, 2_000, 5_000, 12_000), "m"),
        "two pauses among four": ((1_000, 2_200, 2_000, 2_100, 12_000), ""),
        "linear growth, as of every agent's context": (tuple(range(1_000, 20_000, 1_000)), ""),
        "a context that fills up": ((1_662, 5_614, 6_131, 6_500, 7_900, 8_100), ""),
    },
)
def test_growth_of_tokens(amounts: tuple[int, ...], found: str) -> None:
    assert severities(DETECTOR, tokens(*amounts)) == found


@cases(
    "name, field, amounts",
    {
        "cost below a dollar": ("cost_usd", "usage", [{"cost_usd": c} for c in (0.02, 0.04, 0.09, 0.22)]),
        "memory in use": ("memory_bytes", "usage", [{"memory_bytes": m * MIB} for m in (100, 200, 450, 1100)]),
        "file operations": ("file_ops", "usage", [{"file_ops": n} for n in (10, 20, 45, 110)]),
        "size of the output": ("output_bytes", "output_bytes", [n * MIB for n in (1, 2, 5, 12)]),
        "duration": ("duration_ms", "duration_ms", [n * 1000 for n in (20, 40, 90, 220)]),
    },
)
def test_growth_of_other_resources(name: str, field: str, amounts: list[Any]) -> None:
    events = [event(s, "work", **{field: amount}) for s, amount in enumerate(amounts)]
    assert [(f.values["resource"], f.severity) for _, f in findings(DETECTOR, events)] == [(name, Severity.HIGH)]


def turn(second: float, calls: int) -> list[ActionEvent]:
    """A model turn with parallel calls: all proposed, then all completed."""
    pairs = [call(second + i / 100, "search", f"q={second}.{i}", output_bytes=40_000) for i in range(calls)]
    return [p for p, _ in pairs] + [r for _, r in pairs]


@cases(
    "events, found",
    {
        "more calls each turn, and more output": ([turn(s, n) for s, n in enumerate((1, 2, 4, 8))], "hmh"),
        "as many calls each turn": (each(range(0, 90, 10), turn, 3), ""),
        "after a call whose result never comes": (
            [call(0, "search")[0], *(call(s, "search", usage=Usage(input_tokens=1000 * 2**s)) for s in range(1, 5))],
            "h",
        ),
        "usage of model turns": (
            [event(s, "model", kind=Kind.MODEL_TURN, usage=Usage(output_tokens=1000 * 2**s)) for s in range(4)],
            "h",
        ),
    },
)
def test_a_step_is_a_model_turn(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


@cases(
    "settings, amounts, severity, steps",
    {
        "far away": ({"limits": {"tokens": 1_000_000}}, (1_000, 1_800, 3_240, 5_832), "medium", 8),
        "near: at least high": ({"limits": {"tokens": 60_000}}, (1_000, 1_800, 3_240, 5_832), "high", 3),
        "reached exactly": ({"limits": {"tokens": 15_000}}, (1_000, 2_000, 4_000, 8_000), "high", 0),
    },
)
def test_projection_to_a_limit(settings: dict[str, Any], amounts: tuple[int, ...], severity: str, steps: int) -> None:
    ((_, finding),) = findings(ResourceGrowth(**settings), tokens(*amounts))
    assert (finding.severity.value, finding.values["steps_to_limit"]) == (severity, steps)


def test_memory_is_projected_as_a_level_and_a_declared_limit_counts_when_it_is_tighter() -> None:
    events = [event(s, "work", usage=Usage(memory_bytes=m * MIB)) for s, m in enumerate((128, 256, 513, 1024))]
    ((_, finding),) = findings(ResourceGrowth(limits={"memory_bytes": 4096 * MIB}), events)
    assert finding.values["steps_to_limit"] == 2
    started = event(0, kind=Kind.SESSION_STARTED, task=Task(limits={"tokens": 20_000, "wishes": 3}))
    ((_, finding),) = findings(
        ResourceGrowth(limits={"tokens": 1_000_000}), [started, *tokens(1_000, 2_000, 4_000, 8_000)]
    )
    assert finding.thresholds["limit"] == 20_000
