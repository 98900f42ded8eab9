"""A consumer group's coordinator: generations, session timeouts, static members, and commits that it refuses."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError

from benchmarks.simulator.broker import Broker
from benchmarks.simulator.process import Process

Assigned = frozenset[tuple[str, int]]
"""Partitions of one member."""
Joined = Callable[[int, str, int, Assigned], object]
"""Called with an error code (0: none), the member's id, the generation and the assignment."""
Assignor = Callable[["Group"], dict[str, Assigned]]
"""Returns the assignment of each member by its id."""

NO_ANSWER: Final = None
_LOST_ANSWER_S: Final = 1.0


class Asks(NamedTuple):
    """A request to join."""

    member_id: str
    """Empty: a new member."""
    instance_id: str | None
    topics: tuple[str, ...]
    session_s: float
    rebalance_s: float


class Member:
    """A member as the coordinator knows it."""

    __slots__ = ("assigned", "id", "instance_id", "joined", "rebalance_s", "seen_at", "session_s", "topics", "watched")

    def __init__(self, member_id: str, asks: Asks) -> None:
        self.id = member_id
        self.instance_id = asks.instance_id
        self.topics = asks.topics
        self.session_s = asks.session_s
        self.rebalance_s = asks.rebalance_s
        self.seen_at = 0.0
        self.watched = False
        """A timer for its session timeout is set."""
        self.joined: Joined | None = None
        """Called at the end of the rebalance in which it takes part."""
        self.assigned: Assigned = frozenset()


class Group:
    """One group. Its methods run at the coordinator; `ask` sends a request there over the network."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.world = broker.world
        self.name = name
        self.generation = 0
        self.preparing = False
        self.members: dict[str, Member] = {}
        self.offsets: dict[tuple[str, int], tuple[int, str]] = {}
        self.history: dict[tuple[str, int], list[int]] = {}
        """Every committed offset, for checks."""
        self.assignor: Assignor = shared_out
        self._static: dict[str, str] = {}
        self._loaded_at = 0.0
        self._rebalance = 0

    def ask(self, process: Process, question: Callable[[], int], answered: Callable[[int | None], object]) -> None:
        """Send a request to the coordinator. `answered` receives None when the request or the response is lost."""
        world, broker = self.world, self.broker

        def arrives() -> None:
            lives = broker.lives
            if not broker.up or process.cut_off:
                world.after(_LOST_ANSWER_S * world.random(), lambda: answered(NO_ANSWER))
                return
            code = question() if self.loaded else KafkaError.COORDINATOR_LOAD_IN_PROGRESS

            def back() -> None:
                answered(code if broker.up and broker.lives == lives and not process.cut_off else NO_ANSWER)

            world.after(broker.delay(), back)

        world.after(broker.delay(), arrives)

    @property
    def loaded(self) -> bool:
        """Return whether the coordinator has loaded."""
        return self.world.now >= self._loaded_at

    def load(self, seconds: float) -> None:
        """Load the coordinator after a broker restart: it is ready after `seconds`, when every session restarts."""
        self._loaded_at = self.world.now + seconds
        for member in list(self.members.values()):
            joined, member.joined = member.joined, None
            if joined is not None:  # its connection has ended: it retries
                joined(KafkaError.COORDINATOR_NOT_AVAILABLE, member.id, -1, frozenset())
            self._note_sign(member, seconds)
        if self.preparing:
            self._prepare()

    def forget(self, topic: str) -> None:
        """Delete the committed offsets of a deleted topic."""
        for place in [place for place in self.offsets if place[0] == topic]:
            del self.offsets[place]

    # Requests of members.

    def join(self, asks: Asks, joined: Joined) -> int:
        """Join or rejoin. Return 0 when `joined` will be called, else an error code."""
        member_id, instance_id = asks.member_id, asks.instance_id
        known = self.members.get(member_id)
        if instance_id is not None and self._static.get(instance_id, member_id) != member_id:
            if member_id:
                return KafkaError.FENCED_INSTANCE_ID
            return self._replace(self.members[self._static[instance_id]], asks, joined)
        if member_id and known is None:
            return KafkaError.UNKNOWN_MEMBER_ID
        if known is None:
            known = Member(f"member-{self.world.next_number()}", asks)
            self.members[known.id] = known
            if instance_id is not None:
                self._static[instance_id] = known.id
        elif not self.preparing and next(iter(self.members)) != known.id:
            # Only the leader's rejoin starts another rebalance.
            self._answer(known, joined)
            self._note_sign(known)
            return 0
        known.joined = joined
        self._note_sign(known)
        if not self.preparing:
            self._prepare()
        self._complete_if_all_joined()
        return 0

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """Return 0 or an error code."""
        code = self._check(member_id, instance_id, generation)
        if code:
            return code
        self._note_sign(self.members[member_id])
        return KafkaError.REBALANCE_IN_PROGRESS if self.preparing else 0

    def commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: Mapping[tuple[str, int], tuple[int, str]],
    ) -> int:
        """Return 0 or an error code. A client that is not a member may commit while the group is empty."""
        if member_id or self.members:
            code = self._check(member_id, instance_id, generation)
            if code:
                self.world.trace("refuses a commit of", self.name, member_id, generation, code)
                return code
            self._note_sign(self.members[member_id])
        for place, offset in offsets.items():
            self.offsets[place] = offset
            self.history.setdefault(place, []).append(offset[0])
        if self.world.tracing:
            self.world.trace("commits", self.name, member_id, generation, sorted(offsets.items()))
        return 0

    def leave(self, member_id: str) -> int:
        """Remove a member. Return 0 or an error code."""
        member = self.members.get(member_id)
        if member is None:
            return KafkaError.UNKNOWN_MEMBER_ID
        self.world.trace("leaves", self.name, member_id)
        self._remove(member)
        return 0

    def drop(self, member_id: str) -> None:
        """Remove a member without its knowledge, as an operator does. It learns this from its next request."""
        if member_id in self.members:
            self.world.trace("drops", self.name, member_id)
            self._remove(self.members[member_id])

    def rebalance(self) -> None:
        """Start a rebalance, as a change of topics or a new member does."""
        if self.members and not self.preparing:
            self._prepare()

    def _check(self, member_id: str, instance_id: str | None, generation: int) -> int:
        if instance_id is not None and self._static.get(instance_id, member_id) != member_id:
            return KafkaError.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return KafkaError.UNKNOWN_MEMBER_ID
        return 0 if generation == self.generation else KafkaError.ILLEGAL_GENERATION

    def _replace(self, before: Member, asks: Asks, joined: Joined) -> int:
        """Replace a static member that has restarted. The previous one is fenced."""
        member = Member(f"member-{self.world.next_number()}", asks)
        member.assigned = before.assigned
        self.members = {m.id: m for m in (member if m is before else m for m in self.members.values())}
        self._static[asks.instance_id or ""] = member.id
        self.world.trace("takes the place of", self.name, before.id, member.id)
        if before.joined is not None:
            before.joined(KafkaError.FENCED_INSTANCE_ID, before.id, -1, frozenset())
        self._note_sign(member)
        if self.preparing:
            member.joined = joined
            self._complete_if_all_joined()
        else:
            self._answer(member, joined)
        return 0

    def _answer(self, member: Member, joined: Joined) -> None:
        joined(0, member.id, self.generation, member.assigned)

    def _note_sign(self, member: Member, more_s: float = 0.0) -> None:
        member.seen_at = self.world.now + more_s
        if not member.watched:
            member.watched = True
            self._look_at(member, member.session_s + more_s)

    def _look_at(self, member: Member, after: float) -> None:
        """Check after this delay whether its session has timed out. Each member has at most one timer."""

        def look() -> None:
            if self.members.get(member.id) is not member:
                return
            left = member.seen_at + member.session_s - self.world.now
            if left > 0:
                self._look_at(member, left)
                return
            member.watched = False
            # Its session restarts when the coordinator loads and when the rebalance ends.
            if member.joined is not None or not self.broker.up or not self.loaded:
                return
            self.world.trace("session over", self.name, member.id)
            self._remove(member)

        self.world.after(after + 0.001, look)

    def _remove(self, member: Member) -> None:
        del self.members[member.id]
        if member.instance_id is not None and self._static.get(member.instance_id) == member.id:
            del self._static[member.instance_id]
        if member.joined is not None:
            member.joined(KafkaError.UNKNOWN_MEMBER_ID, member.id, -1, frozenset())
        if not self.members:
            self.preparing = False
            self.generation += 1
        elif self.preparing:
            self._complete_if_all_joined()
        else:
            self._prepare()

    # Rebalances.

    def _prepare(self) -> None:
        self.preparing = True
        self._rebalance += 1
        number = self._rebalance
        self.world.trace("rebalances", self.name, self.generation)
        within_s = max((member.rebalance_s for member in self.members.values()), default=1.0)

        def over() -> None:
            if self.preparing and number == self._rebalance and self.broker.up and self.loaded:
                for member in list(self.members.values()):
                    if member.joined is None and member.instance_id is None:
                        self._remove(member)
                if self.preparing:
                    self._complete()

        self.world.after(within_s, over)

    def _complete_if_all_joined(self) -> None:
        if self.preparing and all(member.joined is not None for member in self.members.values()):
            number = self._rebalance

            def complete() -> None:
                all_joined = all(member.joined is not None for member in self.members.values())
                if self.preparing and number == self._rebalance and all_joined and self.broker.up:
                    self._complete()

            self.world.after(0.2 * self.world.random(), complete)

    def _complete(self) -> None:
        self.preparing = False
        self.generation += 1
        assigned = self.assignor(self)
        self.world.trace("generation", self.name, self.generation, *(f"{i}={len(p)}" for i, p in assigned.items()))
        for member in list(self.members.values()):
            member.assigned = assigned.get(member.id, frozenset())
            joined, member.joined = member.joined, None
            if joined is not None:
                self._note_sign(member)
                self._answer(member, joined)


def group_of(broker: Broker, name: str) -> Group:
    """Return the group of this name, created at first use."""
    found = broker.groups.get(name)
    if found is None:
        found = broker.groups[name] = Group(broker, name)
    return found


def shared_out(group: Group) -> dict[str, Assigned]:
    """Assign the partitions of the topics round-robin, beginning with a random member."""
    members = list(group.members.values())
    found: dict[str, list[tuple[str, int]]] = {member.id: [] for member in members}
    at = int(group.world.random() * len(members)) if members else 0
    topics = sorted({topic for member in members for topic in member.topics})
    for topic in topics:
        for number in range(len(group.broker.topics[topic].logs) if topic in group.broker.topics else 0):
            found[members[at % len(members)].id].append((topic, number))
            at += 1
    return {member_id: frozenset(places) for member_id, places in found.items()}


def with_changelog(sources: Collection[str], changelog: str, standbys: int) -> Assignor:
    """Return an assignor that gives a member the same partition of every source and of the changelog.

    Up to `standbys` other members get the changelog partition as well.
    """

    def assign(group: Group) -> dict[str, Assigned]:
        world = group.world
        members = list(group.members)
        found: dict[str, set[tuple[str, int]]] = {member: set() for member in members}
        numbers = list(range(len(group.broker.topics[changelog].logs)))
        world.rng.shuffle(numbers)
        at = int(world.random() * len(members))
        for number in numbers:
            owner = members[at % len(members)]
            found[owner] |= {(topic, number) for topic in sources}
            for place in range(min(standbys, len(members) - 1) + 1):
                found[members[(at + place) % len(members)]].add((changelog, number))
            # Mostly round-robin; at times one gets more than its share.
            at += 1 if world.chance(0.85) else 0
        return {member: frozenset(places) for member, places in found.items()}

    return assign
