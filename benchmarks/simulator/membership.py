"""The worker's membership of its group: `haltline.streams.runtime.membership.Membership`, simulated."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from confluent_kafka import KafkaError

from benchmarks.simulator.broker import Broker
from benchmarks.simulator.group import NO_ANSWER, Asks, Assigned, Group
from benchmarks.simulator.world import Process
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.membership import Hooks

_HEARTBEATS: Final = 3
_AGAIN_S: Final = 0.3
_PASSING: Final = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE})
_LOST: Final = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION})


class Fenced(KnownFailure):
    """Another process has this member's instance id."""


class SimMembership:
    """One member; its work is a task in the loop of its process."""

    def __init__(
        self,
        process: Process,
        broker: Broker,
        group: Group,
        hooks: Hooks,
        *,
        topics: tuple[str, ...],
        instance_id: str | None,
        session_s: float,
        rebalance_s: float,
        beside: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._process = process
        self._world = process.world
        self._broker = broker
        self._group = group
        self._hooks = hooks
        self._topics = topics
        self._instance_id = instance_id
        self._session_s = session_s
        self._rebalance_s = rebalance_s
        self._beside = beside
        self._id = ""
        self._generation = -1
        """-1: no member of any."""
        self._assigned: Assigned = frozenset()
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    async def start(self) -> None:
        """Join. The hooks are called from here on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Leave, without a hook being called. A static member's place is kept for its session timeout."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._id and self._instance_id is None:
            group, member_id = self._group, self._id
            await self._ask(lambda: group.leave(member_id))
        self._id, self._generation = "", -1

    def failure(self) -> BaseException | None:
        """What it cannot go on after; None while it goes on."""
        return self._failure

    async def is_member(self, generation: int) -> bool:
        """Whether the group, asked now, still has this member in this generation; waits for its coordinator."""
        while self._generation == generation:
            code = await self._heartbeat()
            if code in (0, KafkaError.REBALANCE_IN_PROGRESS):
                return self._generation == generation
            if code is not NO_ANSWER and code not in _PASSING:
                return False
            await asyncio.sleep(_AGAIN_S)
        return False

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, str]]:
        """Offsets that the group has committed, each with what is beside it; none where nothing is committed."""
        found: dict[Partition, tuple[int, str]] = {}

        def read() -> int:
            found.update({at: self._group.offsets[at] for at in partitions if at in self._group.offsets})
            return 0

        while await self._ask(read) != 0:
            await asyncio.sleep(_AGAIN_S)
        return found

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commit those that are still assigned. Whether the group took them."""
        self._world.point("commit")
        kept = {(at[0], at[1]): (offset, self._beside(at[0])) for at, offset in offsets.items() if at in self._assigned}
        if not kept:
            return False
        group, who = self._group, (self._id, self._instance_id, self._generation)
        for _ in range(20):
            code = await self._ask(lambda: group.commit(*who, kept))
            if code is not NO_ANSWER and code not in _PASSING:
                return code == 0
            await asyncio.sleep(_AGAIN_S)
        return False

    async def _run(self) -> None:
        try:
            while True:
                if not await self._join():
                    await asyncio.sleep(_AGAIN_S)
                    continue
                await self._hooks.on_assigned(frozenset(self._assigned), self._generation)
                lost = await self._stay()
                assigned = self._assigned
                if lost:
                    self._generation = -1
                await self._hooks.on_giving_up(assigned, lost)
                self._assigned = frozenset()
        except Exception as failure:
            self._failure = failure

    async def _stay(self) -> bool:
        """Sends heartbeats until the group rebalances. True when it has dropped this member."""
        while True:
            await asyncio.sleep(self._session_s / _HEARTBEATS)
            code = await self._heartbeat()
            if code == KafkaError.REBALANCE_IN_PROGRESS:
                return False
            if code in _LOST:
                if code == KafkaError.UNKNOWN_MEMBER_ID:
                    self._id = ""
                return True
            self._check(code)

    async def _heartbeat(self) -> int | None:
        group, who = self._group, (self._id, self._instance_id, self._generation)
        return await self._ask(lambda: group.heartbeat(*who))

    async def _join(self) -> bool:
        loop = self._process.loop
        if loop is None:
            raise RuntimeError("expected a process with a loop")
        answer: asyncio.Future[tuple[int, str, int, Assigned]] = loop.create_future()

        def take(code: int, member_id: str, generation: int, assigned: Assigned) -> None:
            if not answer.done():
                answer.set_result((code, member_id, generation, assigned))

        def joined(*result: object) -> None:
            self._world.after(self._broker.delay(), lambda: loop.call_soon(take, *result))

        group = self._group
        asks = Asks(self._id, self._instance_id, self._topics, self._session_s, self._rebalance_s)
        asked = await self._ask(lambda: group.join(asks, joined) if self._process.alive else 0)
        if asked == 0:
            try:
                # The broker may begin anew meanwhile, and know nothing of the question then.
                async with asyncio.timeout(self._rebalance_s + 1.0):
                    asked, member_id, generation, assigned = await answer
            except TimeoutError:
                return False
        if asked != 0:
            if asked in _LOST:
                self._id = ""
            self._check(asked)
            return False
        self._id, self._generation, self._assigned = member_id, generation, assigned
        return True

    def _check(self, code: int | None) -> None:
        if code == KafkaError.FENCED_INSTANCE_ID:
            raise Fenced(f"the group has another member with instance id {self._instance_id}")

    async def _ask(self, question: Callable[[], int]) -> int | None:
        loop = self._process.loop
        if loop is None:
            raise RuntimeError("expected a process with a loop")
        answer: asyncio.Future[int | None] = loop.create_future()

        def take(code: int | None) -> None:
            if not answer.done():
                answer.set_result(code)

        self._group.ask(question, lambda code: loop.call_soon(take, code))
        return await answer
