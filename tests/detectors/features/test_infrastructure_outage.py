from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest

from haltline.detectors.features.infrastructure_outage import is_infrastructure
from haltline.detectors.framework.base import Detector
from haltline.detectors.session.error_repetition import ErrorRepetition
from haltline.detectors.session.repetition import Repetition
from tests.builders import cases, event, fires_at


@cases(
    "text, found",
    {
        "too many requests, by its number": ("HTTP 429: slow down", True),
        "a service that is not there": ("503 Service Unavailable", True),
        "a host whose name is not known": ("curl: (6) Could not resolve host: api.example.org", True),
        "a server of tools that is not connected": ("MCP server not connected", True),
        "a test that timed out": ("test_login timed out after 30 s", False),
        "a name that is not defined": ("cannot resolve symbol `server`", False),
        "only a number": ("expected 503 rows, got 502", False),
    },
)
def test_errors_of_the_infrastructure(text: str, found: bool) -> None:
    assert is_infrastructure(text) is found


@pytest.mark.parametrize("detector", [ErrorRepetition(), Repetition()])
@cases(
    "pauses, error, found",
    {
        "longer and longer pauses": ([2**n for n in range(12)], "HTTP 429", False),
        "half a minute each time": ([30] * 12, "503 service unavailable", False),
        "at once": ([0.1] * 12, "HTTP 429", True),
        "it is no error of the service": ([2**n for n in range(12)], "no such order", True),
    },
)
def test_a_service_is_waited_for_or_hammered(
    detector: Detector[Any], pauses: Sequence[float], error: str, found: bool
) -> None:
    events = [event(second, "fetch", "x=1", error) for second in accumulate(pauses, initial=0)]
    assert bool(fires_at(detector, events)) is found
