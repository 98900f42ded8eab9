"""What a guard asks of whatever carries its records."""

from collections.abc import Iterable
from typing import Protocol

from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent


class Receiver(Protocol):
    """Receives what arrives. Called from the link's own thread; does not block, does not raise."""

    def concerns(self, key: str) -> bool:
        """Whether an entry of the control topic with this key is of interest at all."""

    def control(self, key: str, record: ControlRecord | None) -> None:
        """An entry of the control topic was read; None: nothing holds under this key any more."""

    def loaded(self) -> None:
        """All entries that stood on the control topic have been read."""

    def unloaded(self) -> None:
        """The control topic is read anew, from its beginning."""

    def decision(self, decision: Decision) -> None:
        """A decision for this session has arrived."""


class Transport(Protocol):
    """A way to the worker and back."""

    @property
    def up(self) -> bool:
        """False: records surely cannot be carried now."""

    @property
    def unwatched(self) -> str | None:
        """Why workers cannot be expected to see what is carried, in words; None: nothing speaks against it."""

    @property
    def carries(self) -> bool:
        """False: what is handed over goes nowhere, and need not be written."""

    @property
    def undelivered(self) -> int:
        """Records that were handed over and did not arrive."""

    def start(self, receiver: Receiver) -> None:
        """Begin to read. Returns at once."""

    def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:
        """Hand one record of this session over; returns at once. False: it was dropped, there is no room.

        What `must` get through has the last of the room.
        """

    def close(self, within_s: float) -> int:
        """Wait until all records have arrived, then end. Returns how many have not."""


class NoTransport:
    """Nowhere: for local mode without a broker. Nothing is ever killed from outside."""

    up = True
    unwatched = None
    carries = False
    undelivered = 0

    def start(self, receiver: Receiver) -> None:
        """Nothing stands, and nothing comes."""
        receiver.loaded()

    def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:  # noqa: ARG002 - a link's arguments
        """Goes nowhere, which is what was asked for."""
        return True

    def close(self, within_s: float) -> int:  # noqa: ARG002 - the arguments of a link
        """Nothing is left."""
        return 0


class Decider(Protocol):
    """Decides in this process."""

    def decide(self, event: ActionEvent) -> Decision | None:
        """The decision on the session's next event; None: nothing to say."""

    def after_fork(self) -> None:
        """In a child: locks that another thread held at the fork are nobody's now."""

    def go_on(self, earlier: "Decider") -> None:
        """Goes on with what an earlier decider of the same session has counted. Before the first event."""

    def below(self) -> "Decider":
        """Who decides for a session below this one: with counts of what is destroyed that both share."""

    def killed(self, lineage: Iterable[str]) -> Decision | None:
        """The kill that stands in this process against a session: its own, of one above it, or of its tree.

        `lineage` are the ids of the session and of all above it.
        """
