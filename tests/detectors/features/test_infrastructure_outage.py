from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest

from haltline.detectors.features.infrastructure_outage import is_infrastructure
from haltline.detectors.framework.base import Detector
from haltline.detectors.session.error_repetition import ErrorRepetition
from haltline.detectors.session.repetition import Repetition
from haltline.detectors.session.retry_storm import RetryStorm
from tests.builders import event, fires_at


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("HTTP 429: slow down", True, id="too many requests, by its number"),
        pytest.param("503 Service Unavailable", True, id="a service that is not there"),
        pytest.param("openai.RateLimitError: rate limit reached", True, id="a limit"),
        pytest.param("ConnectionResetError: connection reset by peer", True, id="a connection that was reset"),
        pytest.param("the model is overloaded", True, id="overloaded"),
        pytest.param("HTTP 404 not found", False, id="what was asked is not there"),
        pytest.param("expected 503 rows, got 502", False, id="only a number"),
        pytest.param("KeyError: 'status'", False, id="a mistake"),
    ],
)
def test_errors_of_the_infrastructure(text: str, found: bool) -> None:
    assert is_infrastructure(text) is found


def pauses_of(pauses: Sequence[float], error: str = "HTTP 429: too many requests") -> list[Any]:
    return [event(second, "fetch", "x=1", error) for second in accumulate(pauses, initial=0)]


STORM = RetryStorm(last_actions=20, medium=5, high=6, critical=7)


@pytest.mark.parametrize("detector", [ErrorRepetition(), STORM, Repetition()])
@pytest.mark.parametrize(
    ("pauses", "error", "found"),
    [
        pytest.param([2**n for n in range(12)], "HTTP 429", False, id="longer and longer pauses"),
        pytest.param([30] * 12, "503 service unavailable", False, id="half a minute each time"),
        pytest.param([0.1] * 12, "HTTP 429", True, id="at once"),
        pytest.param([5] * 12, "HTTP 429", True, id="every few seconds"),
        pytest.param([2**n for n in range(12)], "no such order", True, id="it is no error of the service"),
    ],
)
def test_a_service_is_waited_for_or_hammered(
    detector: Detector[Any], pauses: Sequence[float], error: str, found: bool
) -> None:
    assert bool(fires_at(detector, pauses_of(pauses, error))) is found
