"""The outputs and counts of a group of workers for rules in shadow."""

from collections.abc import Sequence

from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding
from haltline.schemas.topics import Topics
from haltline.streams.runtime.ports import Meter, Sender


class ShadowSender:
    """A Sender that passes on the findings and hypothetical decisions of rules in shadow, and drops all else."""

    def __init__(self, sender: Sender, topics: Topics) -> None:
        self._sender = sender
        self._handed_on = frozenset({topics.detections, topics.interventions})

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Send one record if it is one of these."""
        if topic in self._handed_on:
            self._sender.send(topic, key=key, value=value, headers=headers)


class ShadowMeter(Meter):
    """A Meter of what the other group does not count."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def finding(self, finding: Finding) -> None:
        """Count a finding of a rule in shadow."""
        self._meter.finding(finding)

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """Count a hypothetical decision."""
        self._meter.decision(decision, latency_s)

    def detector_error(self, detector: str) -> None:
        """Count an exception of a rule in shadow."""
        self._meter.detector_error(detector)

    def policy(self, name: str, version: int) -> None:
        """Record the policy of this group's workers."""
        self._meter.policy(name, version)

    def policy_refused(self) -> None:
        """Count a policy document that could not be used."""
        self._meter.policy_refused()
