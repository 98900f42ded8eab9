"""What a group of workers for rules in shadow hands on and counts."""

from collections.abc import Sequence

from haltline.schemas.dead_letter import BadRecord
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


class ShadowMeter:
    """A Meter without what the other group counts."""

    def __init__(self, meter: Meter) -> None:
        self.finding = meter.finding
        self.decision = meter.decision
        self.detector_error = meter.detector_error
        self.policy = meter.policy
        self.policy_refused = meter.policy_refused

    def model_turn(self, *, is_usage_known: bool) -> None:
        """Counted by the other group."""

    def judged(self, detector: str, level: str, helped: float) -> None:
        """Of what an agent has received, and it receives nothing of a rule in shadow."""

    def irreversible(self, effect: str) -> None:
        """Counted by the other group."""

    def stopped(self, time_to_stop_s: float) -> None:
        """Counted by the other group."""

    def followup(self, what: str) -> None:
        """As `stopped`."""

    def dead_letter(self, reason: BadRecord) -> None:
        """As `stopped`: it writes the letter."""
