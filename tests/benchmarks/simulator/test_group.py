"""The coordinator of a group, and its members."""

from collections.abc import Callable, Coroutine, Set
from typing import Any

import pytest

from benchmarks.simulator.group import Assigned, Group, group_of, with_changelog
from benchmarks.simulator.loop import SimLoop
from benchmarks.simulator.membership import Fenced, SimMembership
from benchmarks.simulator.process import Process
from haltline.streams.runtime.health import Partition
from haltline.streams.runtime.membership import Hooks
from tests.benchmarks.simulator.small import Small

SESSION_S = 3.0


class Grouped(Small):
    """Members of a group that has "a" as its source and "c" as its changelog."""

    def __init__(self, seed: int = 1, *, standbys: int = 0) -> None:
        super().__init__(seed)
        self.broker.create("c", 2, compacted=True)
        self.group: Group = group_of(self.broker, "g")
        self.group.assignor = with_changelog(["a"], "c", standbys)
        self.told: list[tuple[str, str, Assigned]] = []

    def member(self, name: str, instance_id: str | None = None) -> tuple[Process, SimMembership]:
        process, _ = self.process(name)
        loop = SimLoop(process)

        async def giving_up(revoked: Set[Partition], lost: bool) -> None:
            self.told.append((name, "lost" if lost else "gives up", frozenset(revoked)))

        async def assigned(places: Set[Partition], _generation: int) -> None:
            self.told.append((name, "assigned", frozenset(places)))

        membership = SimMembership(
            process, loop, self.broker, self.group, Hooks(giving_up, assigned), topics=("a", "c"),
            instance_id=instance_id, session_s=SESSION_S, beside=lambda topic: f"of {topic}",
        )  # fmt: skip

        async def main() -> None:
            await membership.start()
            await loop.create_future()

        loop.start(main)
        return process, membership

    def has(self, name: str) -> Assigned:
        """What a member was told last."""
        told = [(what, places) for who, what, places in self.told if who == name]
        what, places = told[-1] if told else ("", Assigned())
        return places if what == "assigned" else frozenset()

    def asked(self, process: Process, question: Callable[[], Coroutine[Any, Any, object]]) -> object:
        """The answer of a coroutine of one process."""
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await question())

        loop = process.loop
        assert loop is not None
        loop.call_soon(lambda: loop.create_task(ask()))
        self.until(lambda: bool(answers))
        return answers[0]


ALL: Assigned = frozenset((topic, number) for topic in "ac" for number in range(2))


def test_a_standby_has_the_changelog_of_numbers_that_are_not_its_own() -> None:
    small = Grouped(standbys=1)
    small.member("p1")
    small.member("p2")
    small.run(5)
    assert all({("c", 0), ("c", 1)} <= small.has(name) for name in ("p1", "p2"))


def test_commits_of_an_old_generation_are_refused() -> None:
    small = Grouped()
    process, member = small.member("p1")
    small.run(3)
    small.asked(process, lambda: member.commit({("a", 0): 5}))
    assert small.group.offsets == {("a", 0): (5, "of a")}
    generation = small.group.generation
    assert small.asked(process, lambda: member.is_member(generation)) is True
    process.freeze()
    small.member("p2")
    small.run(15)
    assert small.has("p2") == ALL
    process.unfreeze()
    assert small.asked(process, lambda: member.commit({("a", 0): 9})) is False
    assert small.group.offsets[("a", 0)] == (5, "of a")
    small.run(10)
    assert ("p1", "lost", ALL) in small.told
    assert small.asked(process, lambda: member.is_member(generation)) is False


def test_a_member_that_is_cut_off_is_dropped_and_joins_again_when_it_is_connected() -> None:
    small = Grouped()
    process, member = small.member("p1")
    small.member("p2")
    small.run(5)
    generation = small.group.generation
    process.cut()
    small.run(10)
    assert small.has("p2") == ALL
    process.connect()
    assert small.asked(process, lambda: member.commit({("a", 0): 9, ("a", 1): 9})) is False
    assert small.asked(process, lambda: member.is_member(generation)) is False
    small.run(10)
    assert small.has("p1") | small.has("p2") == ALL != small.has("p2")


@pytest.mark.parametrize("instance_id", [None, "i1"])
def test_a_member_that_its_group_drops_learns_so_and_joins_again(instance_id: str | None) -> None:
    small = Grouped()
    process, _ = small.member("p1", instance_id)
    small.run(5)
    process.on_drop()
    assert not small.group.members
    assert small.has("p1") == ALL
    small.run(5)
    assert ("p1", "lost", ALL) in small.told
    assert small.has("p1") == ALL


def test_a_static_member_takes_the_place_of_the_one_before_within_the_generation_and_fences_it() -> None:
    small = Grouped()
    first, before = small.member("p1", "one")
    small.member("p2", "two")
    small.run(5)
    generation, had = small.group.generation, small.has("p1")
    again, _ = small.member("p1 again", "one")
    small.run(1)
    assert small.group.generation == generation
    assert small.has("p1 again") == had
    assert small.asked(first, lambda: before.commit({("a", 0): 9, ("a", 1): 9})) is False
    small.run(3)
    assert isinstance(before.failure(), Fenced)
    assert again.alive
