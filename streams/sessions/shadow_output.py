"""What a group of workers for rules in shadow hands on and counts."""

from collections.abc import Sequence

from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding
from haltline.schemas.topics import Topics
from haltline.streams.runtime.ports import Meter, Sender


class ShadowSender:
    """A Sender that hands on what rules in shadow find and would have decided: all else is for the other group."""

    def __init__(self, sender: Sender, topics: Topics) -> None:
        self._sender = sender
        self._handed_on = frozenset({topics.detections, topics.interventions})

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Hands one record over, if it is one of these."""
        if topic in self._handed_on:
            self._sender.send(topic, key=key, value=value, headers=headers)


class ShadowMeter(Meter):
    """Counts what the other group does not count: it counts the rest."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def finding(self, finding: Finding) -> None:
        """A finding of a rule in shadow."""
        self._meter.finding(finding)

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """What it would have decided."""
        self._meter.decision(decision, latency_s)

    def detector_error(self, detector: str) -> None:
        """A rule in shadow raised."""
        self._meter.detector_error(detector)

    def policy(self, name: str, version: int) -> None:
        """What this group's workers follow."""
        self._meter.policy(name, version)

    def policy_refused(self) -> None:
        """As `policy`."""
        self._meter.policy_refused()
