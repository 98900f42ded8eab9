"""The interface of the worker's runtime to its consumer group; Faust's consumer implements it."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from haltline.streams.runtime.health import Partition


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of the group, called in the event loop one at a time; the group waits for each of them to return.

    They concern the assignment only, not the table: the worker itself reads the changelog of an assigned partition.
    """

    on_giving_up: Callable[[Set[Partition], bool], Awaitable[None]]
    """Called before these partitions are revoked, those of the changelog included; True if the group has already
    dropped this member."""
    on_assigned: Callable[[Set[Partition], int], Awaitable[None]]
    """Called with the whole new assignment and the group's generation: source partitions, and of the changelog those
    with the same numbers and the standbys. No heartbeats are sent until it returns."""


class Membership(Protocol):
    """One member of a consumer group."""

    async def start(self) -> None:
        """Join the group. From here on the hooks are called."""

    async def stop(self) -> None:
        """Leave the group without calling hooks. A static member's assignment is kept for its session timeout."""

    def failure(self) -> BaseException | None:
        """The exception that ended the membership; None while it runs."""

    async def is_member(self, generation: int) -> bool:
        """Ask the group whether this member is still in this generation; waits for the coordinator."""

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, str]]:
        """Return the committed offsets, each with its metadata; partitions without a commit are left out."""

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit the offsets of partitions that are still assigned. Returns whether the group accepted them."""
