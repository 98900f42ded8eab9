"""What the main path needs from outside: where outputs go, and what is counted."""

from collections.abc import Sequence
from typing import Protocol

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.findings import Finding


class Sender(Protocol):
    """Where outputs go; the worker's is an `Outbox`."""

    def send(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Hands one record over."""


class Outbox(Sender, Protocol):
    """What a worker sends with."""

    def partitions(self, topic: str) -> int:
        """How many the topic has. Raises KnownFailure when there is no such topic."""


class Meter:
    """What is counted on the way: here nothing. The worker's is a `SessionMetrics`."""

    def finding(self, finding: Finding) -> None:
        """A finding of a detector."""

    def decision(self, decision: Decision, latency_s: float | None) -> None:
        """A decision, and the time since its event was produced; None: it is on no event."""

    def model_turn(self, *, is_usage_known: bool) -> None:
        """A turn of a model."""

    def judged(self, detector: str, level: str, helped: float) -> None:
        """How far an earlier intervention of a rule helped, 0 to 1."""

    def irreversible(self, effect: str) -> None:
        """An act was attempted that cannot be taken back."""

    def stopped(self, time_to_stop_s: float) -> None:
        """A kill was acknowledged."""

    def followup(self, what: str) -> None:
        """Something that operators, answers or the clock have caused."""

    def detector_error(self, detector: str) -> None:
        """A detector raised."""

    def dead_letter(self, reason: BadRecord) -> None:
        """A record could not be used."""

    def policy(self, name: str, version: int) -> None:
        """A policy is in force from now on."""

    def policy_refused(self) -> None:
        """A policy document could not be used."""
