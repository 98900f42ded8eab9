"""Faust's recovery reads again what the store has dropped."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from faust.types import TP

from haltline.streams.runtime.faust_app import make_app
from haltline.streams.runtime.faust_overrides import Hooks
from haltline.streams.runtime.source_reader import Record
from haltline.streams.runtime.worker_settings import WorkerSettings

CHANGELOG = "g-sessions-changelog"
P0, P1 = TP(CHANGELOG, 0), TP(CHANGELOG, 1)


async def nothing(*_: object) -> None:
    """Stands for the runtime."""


class Member:
    """A worker's app without a broker; the test says what the group assigns to it."""

    def __init__(self) -> None:
        hooks = Hooks(on_giving_up=nothing, on_assigned=nothing, on_ready=nothing, partitions=2, in_commit=str)
        settings = WorkerSettings(bootstrap="127.0.0.1:9", group="g", sources=("actions",))
        self.app, self.store = make_app(settings, hooks)
        self.recovery: Any = cast("Any", self.app.tables).recovery
        tables: Any = self.app.tables
        tables._changelogs = {CHANGELOG: tables[settings.table]}  # as Faust has it once it has started

    async def assigned(self, *tps: TP, revoked: set[TP], generation: int, group_is_at: int) -> None:
        """A rebalance, in the order of the worker: its store keeps what is assigned, then Faust's recovery is told."""
        app: Any = self.app
        app.consumer_generation_id = group_is_at
        app._assignor = SimpleNamespace(assigned_actives=lambda: set(tps), assigned_standbys=set[TP])
        app.assignor = app._assignor
        self.store.keep(tp.partition for tp in tps)
        await self.recovery.on_rebalance(set(tps), revoked, set(), generation)

    def reads(self, tp: TP, offsets: range) -> None:
        """Records of the changelog are applied, and counted by Faust."""
        self.store.slice(tp.partition).apply(
            Record(tp.topic, tp.partition, offset, 0, b"session %d" % offset, b"{}", ()) for offset in offsets
        )
        self.recovery.active_offsets[tp] = offsets[-1]


def test_a_partition_that_went_in_a_rebalance_that_another_one_followed_is_read_again() -> None:
    async def run() -> None:
        member = Member()
        await member.assigned(P0, P1, revoked=set(), generation=1, group_is_at=1)
        member.reads(P0, range(10))
        member.reads(P1, range(10))
        # Faust passes over a rebalance when the group is ahead of it already; the store has dropped the partition.
        await member.assigned(P0, revoked={P1}, generation=2, group_is_at=3)
        await member.assigned(P0, P1, revoked=set(), generation=3, group_is_at=3)
        assert member.recovery.active_offsets == {P0: 9, P1: -1}

    asyncio.run(run())


def test_what_is_held_is_not_read_again() -> None:
    async def run() -> None:
        member = Member()
        await member.assigned(P0, P1, revoked=set(), generation=1, group_is_at=1)
        assert member.recovery.active_offsets == {P0: -1, P1: -1}
        member.reads(P0, range(10))
        await member.assigned(P0, revoked={P1}, generation=2, group_is_at=2)
        assert member.recovery.active_offsets == {P0: 9}

    asyncio.run(run())
