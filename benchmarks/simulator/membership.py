"""The worker's membership of its group: `haltline.streams.runtime.membership.Membership`, simulated."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final

from confluent_kafka import KafkaError

from benchmarks.simulator.broker import Broker
from benchmarks.simulator.group import NO_ANSWER, Assigned, Group
from benchmarks.simulator.group_consumer import PASSING, GroupMember
from benchmarks.simulator.loop import SimLoop
from benchmarks.simulator.process import Process
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.membership import Hooks

_AGAIN_S: Final = 0.3
_COMMITS: Final = 20
"""Attempts of one commit while there is no coordinator."""


class Fenced(KnownFailure):
    """Another process has this member's instance id."""


class SimMembership:
    """One member; a task in the event loop of its process calls the hooks one after another."""

    def __init__(
        self,
        process: Process,
        loop: SimLoop,
        broker: Broker,
        group: Group,
        hooks: Hooks,
        *,
        topics: tuple[str, ...],
        instance_id: str | None,
        session_s: float,
        beside: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._process = process
        self._loop = loop
        self._group = group
        self._hooks = hooks
        self._beside = beside
        self._assigned: Assigned = frozenset()
        self._due: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._member = GroupMember(
            process=process, broker=broker, group=group, topics=topics, instance_id=instance_id, session_s=session_s,
            tell=loop.call_soon, on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_fenced=self._on_fenced,
        )  # fmt: skip

    async def start(self) -> None:
        """Join the group. The hooks are called from now on."""
        self._task = asyncio.create_task(self._run())
        self._member.join()

    async def stop(self) -> None:
        """Leave without calling a hook. A static member keeps its place for its session timeout."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._member.leave()

    def failure(self) -> BaseException | None:
        """Return the failure that ended the membership, or None."""
        return self._failure

    async def is_member(self, generation: int) -> bool:
        """Ask the coordinator whether this member is still in this generation; wait until there is a coordinator."""
        member = self._member
        while member.generation == generation:
            code = await self._ask(member.heartbeat)
            if code in (0, KafkaError.REBALANCE_IN_PROGRESS):
                return member.generation == generation
            if code is not NO_ANSWER and code not in PASSING:
                return False
            await asyncio.sleep(_AGAIN_S)
        return False

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, str]]:
        """Return the committed offsets with their metadata, without partitions that have none."""
        found: dict[Partition, tuple[int, str]] = {}

        def read() -> int:
            found.update({at: self._group.offsets[at] for at in partitions if at in self._group.offsets})
            return 0

        while await self._ask(read) != 0:
            await asyncio.sleep(_AGAIN_S)
        return found

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit the offsets of partitions still assigned. Return whether the group accepted them."""
        self._process.world.point("commit")
        kept = {at: (offset, self._beside(at[0])) for at, offset in offsets.items() if at in self._assigned}
        if not kept:
            return False
        group, member = self._group, self._member
        who = (member.id, member.instance_id, member.generation)
        for _ in range(_COMMITS):
            code = await self._ask(lambda: group.commit(*who, kept))
            if code is not NO_ANSWER and code not in PASSING:
                if code == 0:
                    self._process.world.point("committed")
                return code == 0
            await asyncio.sleep(_AGAIN_S)
        return False

    async def _run(self) -> None:
        try:
            while True:
                hook = await self._due.get()
                await hook()
        except Exception as failure:
            self._failure = failure

    def _on_assigned(self, assigned: Assigned) -> None:
        self._assigned = assigned
        self._due.put_nowait(partial(self._hooks.on_assigned, assigned, self._member.generation))

    def _on_revoked(self, assigned: Assigned, lost: bool, join_again: Callable[[], object]) -> None:
        async def give_up() -> None:
            await self._hooks.on_giving_up(assigned, lost)
            self._assigned = frozenset()
            join_again()

        self._due.put_nowait(give_up)

    def _on_fenced(self) -> None:
        self._failure = Fenced(f"the group has another member with instance id {self._member.instance_id}")

    async def _ask(self, question: Callable[[], int]) -> int | None:
        loop = self._loop
        answer: asyncio.Future[int | None] = loop.create_future()

        def take(code: int | None) -> None:
            if not answer.done():
                answer.set_result(code)

        self._group.ask(self._process, question, lambda code: loop.call_soon(take, code))
        return await answer
