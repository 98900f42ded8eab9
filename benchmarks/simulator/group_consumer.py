"""A group member that joins, sends heartbeats, and reports assignments and revocations to the application."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError

from benchmarks.simulator.broker import Broker
from benchmarks.simulator.group import Asks, Assigned, Group
from benchmarks.simulator.process import Process

_HEARTBEATS: Final = 3
"""The number of heartbeats in a session timeout."""
_AGAIN_S: Final = 0.3

PASSING: Final = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE})


@dataclass(kw_only=True)
class GroupMember:
    """One member. The application's callbacks are passed to `tell`, which runs them in its thread or event loop.

    `on_revoked` receives the revoked partitions, whether they were lost, and a function that joins again.
    """

    process: Process
    broker: Broker
    group: Group
    topics: tuple[str, ...]
    instance_id: str | None
    session_s: float
    tell: Callable[[Callable[[], object]], object]
    on_assigned: Callable[[Assigned], object]
    on_revoked: Callable[[Assigned, bool, Callable[[], object]], object]
    on_fenced: Callable[[], object]
    id: str = ""
    generation: int = -1
    _assigned: Assigned | None = None
    _left: bool = False
    _turn: int = 0
    """Counts joins and revocations, so that outdated responses are ignored."""

    def __post_init__(self) -> None:
        self.process.on_drop = lambda: self.group.drop(self.id)

    @property
    def _gone(self) -> bool:
        return self._left or not self.process.alive

    def join(self) -> None:
        """Join or rejoin the group."""
        if self._gone:
            return
        self._turn += 1
        turn = self._turn

        def joined(code: int, member_id: str, generation: int, assigned: Assigned) -> None:
            self.process.world.after(
                self.broker.delay(), lambda: self._when_running(take, code, member_id, generation, assigned)
            )

        def take(code: int, member_id: str, generation: int, assigned: Assigned) -> None:
            if turn != self._turn:
                return
            if code:
                self._refused(code)
                return
            self.id, self.generation = member_id, generation
            self._assigned = assigned
            self.tell(lambda: self._gone or self.on_assigned(assigned))
            self._beat_later(turn)

        def on_answer(code: int | None) -> None:
            # The response may be lost although the assignment has arrived: then it is a member.
            if code != 0 and turn == self._turn and self._assigned is None:
                self._when_running(self._refused, code)

        group = self.group
        asks = Asks(self.id, self.instance_id, self.topics, self.session_s, self.session_s * 2)
        group.ask(self.process, lambda: 0 if self._gone else group.join(asks, joined), on_answer)

    def leave(self) -> None:
        """Leave the group. A static member keeps its place."""
        if not self._left:
            self._left = True
            member_id = self.id
            if self.instance_id is None and member_id:
                self.group.ask(self.process, lambda: self.group.leave(member_id), lambda _: None)

    def _when_running(self, call: Callable[..., object], *args: object) -> None:
        """Call this once the process is neither frozen nor cut off."""
        if self._gone:
            return
        if self.process.unreachable:
            self.process.world.after(0.05, lambda: self._when_running(call, *args))
        else:
            call(*args)

    def _beat_later(self, turn: int) -> None:
        self.process.world.after(self.session_s / _HEARTBEATS, lambda: self._when_running(self._beat, turn))

    def _beat(self, turn: int) -> None:
        if turn != self._turn:
            return
        self.group.ask(self.process, self.heartbeat, lambda code: self._when_running(self._on_heartbeat, turn, code))

    def heartbeat(self) -> int:
        """Return the coordinator's error code for a heartbeat; 0: none."""
        return self.group.heartbeat(self.id, self.instance_id, self.generation)

    def _on_heartbeat(self, turn: int, code: int | None) -> None:
        if turn != self._turn:
            return
        if code is None or code == 0 or code in PASSING:
            self._beat_later(turn)
        elif code == KafkaError.REBALANCE_IN_PROGRESS:
            self._give_up(lost=False)
        else:
            self._refused(code)

    def _refused(self, code: int | None) -> None:
        if code == KafkaError.FENCED_INSTANCE_ID:
            self._left = True
            self.tell(self.on_fenced)
        elif code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            if code == KafkaError.UNKNOWN_MEMBER_ID:
                self.id = ""
            self._give_up(lost=True)
        else:
            turn = self._turn
            self.process.world.after(_AGAIN_S, lambda: self._when_running(self._join_again, turn))

    def _join_again(self, turn: int) -> None:
        """Join again, unless an assignment has arrived meanwhile: that is revoked first."""
        if turn == self._turn and self._assigned is None:
            self.join()

    def _give_up(self, *, lost: bool) -> None:
        """Have the application revoke its partitions, then join again."""
        self._turn += 1
        assigned, self._assigned = self._assigned, None

        def given_up() -> None:
            if lost:
                self.generation = -1
            if assigned is None or self._gone:
                self.join()
            else:
                self.on_revoked(assigned, lost, self.join)

        self.tell(given_up)
