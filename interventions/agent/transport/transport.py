"""The interfaces between a guard, its transport and its decider."""

from collections.abc import Iterable
from typing import Protocol

from haltline.schemas.control import ControlRecord
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent


class Receiver(Protocol):
    """Receives records. Called from the transport's own thread; does not block, does not raise."""

    def concerns(self, key: str) -> bool:
        """Return whether an entry of the control topic with this key is relevant."""

    def control(self, key: str, record: ControlRecord | None) -> None:
        """Handle an entry of the control topic; None: the entry under this key was removed."""

    def loaded(self) -> None:
        """All entries of the control topic have been read."""

    def unloaded(self) -> None:
        """The control topic is read again, from its beginning."""

    def decision(self, decision: Decision) -> None:
        """Handle a decision for this session."""


class Transport(Protocol):
    """A connection to the worker."""

    @property
    def up(self) -> bool:
        """False: records certainly cannot be delivered now."""

    @property
    def unwatched(self) -> str | None:
        """Why workers may not see the records, as text; None: no reason."""

    @property
    def carries(self) -> bool:
        """False: records are discarded, and need not be serialized."""

    @property
    def undelivered(self) -> int:
        """Records that did not arrive."""

    def start(self, receiver: Receiver) -> None:
        """Start to read. Returns at once."""

    def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:
        """Queue one record of this session; returns at once. False: it was dropped, as there is no room.

        With `must`, it may use the reserved room.
        """

    def close(self, within_s: float) -> int:
        """Wait until all records have arrived, then close. Returns how many have not."""


class NoTransport:
    """A transport that discards records: for local mode without a broker. There are no kills from outside."""

    up = True
    unwatched = None
    carries = False
    undelivered = 0

    def start(self, receiver: Receiver) -> None:
        """Report that no entries are in force."""
        receiver.loaded()

    def publish(self, topic: str, value: bytes, *, must: bool = False) -> bool:  # noqa: ARG002 - a link's arguments
        """Discard the record."""
        return True

    def close(self, within_s: float) -> int:  # noqa: ARG002 - the arguments of a link
        """Return 0: there are no records."""
        return 0


class Decider(Protocol):
    """Decides in this process."""

    def decide(self, event: ActionEvent) -> Decision | None:
        """Return the decision on the session's next event; None: no decision."""

    def after_fork(self) -> None:
        """In a forked child: replace locks that another thread may have held at the fork."""

    def go_on(self, earlier: "Decider") -> None:
        """Take over the counts of an earlier decider of the same session. Before the first event."""

    def stored(self) -> bytes | None:
        """Return the session's state, for a later process to `restore`; None without one."""

    def restore(self, stored: bytes) -> ControlRecord | None:
        """Go on from a stored state, before the first event. Returns the restriction in force; None: none.

        Raises ValueError if it cannot be read.
        """

    def below(self) -> "Decider":
        """Return the decider of a session below this one; both share the counts of destroyed targets."""

    @property
    def of_tree(self) -> ControlRecord | None:
        """The restriction in force for the tree of the session, such as that it starts no more agents; None: none."""

    def killed(self, lineage: Iterable[str]) -> Decision | None:
        """Return the kill in force in this process for a session: its own, of one above it, or of its tree.

        `lineage`: the ids of the session and of all above it.
        """
