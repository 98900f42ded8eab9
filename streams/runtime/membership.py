"""What the worker's runtime asks of its consumer group, and what it is called with; Faust's consumer is behind it."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from haltline.streams.runtime.health import Partition


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called in the event loop, one at a time; the group waits for each of them to return.

    They say what the group says. Nothing is said of the table: whoever is assigned a partition reads it by itself.
    """

    on_giving_up: Callable[[Set[Partition], bool], Awaitable[None]]
    """Before these partitions go, the changelog's among them; True when the group has dropped this member already."""
    on_assigned: Callable[[Set[Partition], int], Awaitable[None]]
    """All that is this member's from now on, in this generation of the group: partitions of the sources, and of the
    changelog those with the same numbers and those to be kept up as a standby. Sends no heartbeats until it returns."""


class Membership(Protocol):
    """One member of a consumer group."""

    async def start(self) -> None:
        """Join. The hooks are called from here on."""

    async def stop(self) -> None:
        """Leave, without a hook being called. A static member's place is kept for its session timeout."""

    def failure(self) -> BaseException | None:
        """What it cannot go on after; None while it goes on."""

    async def is_member(self, generation: int) -> bool:
        """Whether the group, asked now, still has this member in this generation; waits for its coordinator."""

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, str]]:
        """Offsets that the group has committed, each with what is beside it; none where nothing is committed."""

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit those that are still assigned. Whether the group took them."""
