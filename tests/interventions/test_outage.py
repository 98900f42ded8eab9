import logging

import pytest

from haltline.interventions.outage import Outage


def test_it_is_reported_once_then_at_intervals_and_once_that_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    outage = Outage(logging.getLogger("test"), "sink: the broker", again_every_s=60, now_s=lambda: now_s)
    outage.back()  # as it was all the time
    for second in range(150):
        now_s = 100.0 + second
        outage.away("refused")
    outage.back()
    outage.back()
    assert caplog.messages == [
        "sink: the broker is unavailable: refused",
        "sink: the broker still is unavailable, for 60 s now: refused",
        "sink: the broker still is unavailable, for 120 s now: refused",
        "sink: the broker is unavailable no longer, after 149 s",
    ]
