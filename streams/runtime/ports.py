"""The ports of the main path: where outputs are sent, and what is counted."""

from collections.abc import Sequence
from typing import Protocol

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding


class Sender(Protocol):
    """A destination of outputs; the worker's is an `Outbox`."""

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Send one record."""


class Outbox(Sender, Protocol):
    """The sender of a worker."""

    def partitions(self, topic: str) -> int:
        """Return the topic's number of partitions. Raises KnownFailure when there is no such topic."""


class Meter:
    """A meter that counts nothing. The worker's is a `SessionMetrics`."""

    def finding(self, finding: Finding) -> None:
        """Count a finding of a detector."""

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """Count a decision with its latency in seconds since its event was produced; None if no event caused it."""

    def model_turn(self, *, is_usage_known: bool) -> None:
        """Count a turn of a model."""

    def event_ahead(self) -> None:
        """Count an event that was too far ahead of the log."""

    def judged(self, detector: str, level: str, helped: float) -> None:
        """Count how far an earlier intervention of a rule helped, 0 to 1."""

    def irreversible(self, effect: str) -> None:
        """Count an attempt of an irreversible action."""

    def stopped(self, time_to_stop_s: float) -> None:
        """Count an acknowledged kill, with the seconds it took."""

    def followup(self, what: str) -> None:
        """Count an effect of operators, acknowledgements or the clock."""

    def detector_error(self, detector: str) -> None:
        """Count an exception in a detector."""

    def dead_letter(self, reason: BadRecord) -> None:
        """Count a record that could not be used."""

    def policy(self, name: str, version: int) -> None:
        """Record the policy now in force."""

    def policy_refused(self) -> None:
        """Count a policy document that could not be used."""
