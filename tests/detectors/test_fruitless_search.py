from collections.abc import Sequence
from typing import Any

import pytest

from haltline.detectors.fruitless_search import FruitlessSearch
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Severity
from tests.builders import bash, call, event, findings, fires_at

DETECTOR = FruitlessSearch()
Events = Sequence[ActionEvent | Sequence[ActionEvent]]


def search(second: float, result: str | None = "No matches found", **fields: Any) -> ActionEvent:
    return event(second, "search_code", args={"query": f"q{second:g}"}, output_head=result, **fields)


def grep(second: float, output: str = "") -> ActionEvent:
    return bash(second, f"grep -rn 'name_{second:g}' src", "rc=1: " if not output else None, output_head=output)


def severities(events: Events) -> str:
    """The severities of the findings, by their first letters."""
    return "".join(severity[0] for _, _, severity in fires_at(DETECTOR, events))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([search(s) for s in range(9)], "", id="nine are below the count"),
        pytest.param([search(s) for s in range(10)], "m", id="ten are medium"),
        pytest.param([search(s) for s in range(30)], "m" * 6 + "h" * 14 + "c", id="sixteen are high, thirty critical"),
        pytest.param([grep(s) for s in range(10)], "m", id="by a program that ends without a word"),
        pytest.param([search(s, "[]") for s in range(10)], "m", id="an empty list"),
        pytest.param([search(s, None, output_bytes=0) for s in range(10)], "m", id="an empty result by its size"),
        pytest.param([search(s, None) for s in range(20)], "", id="results that nobody tells"),
        pytest.param([search(s, "main.py:3: no results") for s in range(20)], "", id="results that hold such words"),
        pytest.param([grep(s) if s != 5 else grep(s, "src/a.py:1") for s in range(14)], "", id="one found something"),
        pytest.param(
            [search(s) if s != 5 else bash(s, "sed -i s/a/b/ a.py", output_head="") for s in range(14)],
            "",
            id="something was done in between",
        ),
        pytest.param(
            [search(s) if s % 2 else event(s, "think", args={"thought": f"{s}"}, output_head="") for s in range(20)],
            "m",
            id="thoughts in between",
        ),
        pytest.param([bash(s, f"touch {s}.txt", output_head="") for s in range(20)], "", id="programs without a word"),
        pytest.param(
            [event(s, "edit_file", args={"path": f"{s}"}, output_head="") for s in range(20)], "", id="writes"
        ),
        pytest.param([search(s, error="connection refused") for s in range(20)], "", id="errors, which are no answer"),
        pytest.param(
            [call(s, "search_code", args={"query": f"q{s}"}, output_head="0 results") for s in range(10)],
            "m",
            id="proposed and completed",
        ),
    ],
)
def test_fires(events: Events, found: str) -> None:
    assert severities(events) == found


def test_the_finding_says_what_was_seen() -> None:
    ((_, finding),) = findings(DETECTOR, [search(10 * s) for s in range(10)])
    assert (finding.code, finding.severity) == ("fruitless_search", Severity.MEDIUM)
    assert finding.values == {"looks": 10}
    assert finding.thresholds == {"medium": 10, "high": 16, "critical": 30}
    assert [e.event_id for e in finding.evidence] == [f"s1@{10 * s} search_code" for s in range(10)]
    assert finding.reason.startswith("10 looks in a row found nothing, the last 10 in 90s, such as search_code")
