"""A group member that joins, sends heartbeats, and reports assignments and revocations to the application."""

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError

from benchmarks.simulator.broker import Broker
from benchmarks.simulator.group import Asks, Assigned, Group
from benchmarks.simulator.process import Process

_HEARTBEATS: Final = 3
"""The number of heartbeats in a session timeout."""
_AGAIN_S: Final = 0.3

PASSING: Final = frozenset({KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE})


class GroupMember:
    """One member. The application's callbacks are passed to `tell`, which runs them in its thread or event loop.

    `on_revoked` receives the revoked partitions, whether they were lost, and a function that joins again.
    """

    def __init__(
        self,
        process: Process,
        broker: Broker,
        group: Group,
        *,
        topics: tuple[str, ...],
        instance_id: str | None,
        session_s: float,
        tell: Callable[[Callable[[], object]], object],
        on_assigned: Callable[[Assigned], object],
        on_revoked: Callable[[Assigned, bool, Callable[[], object]], object],
        on_fenced: Callable[[], object],
    ) -> None:
        self.id = ""
        self.instance_id = instance_id
        self.generation = -1
        self._process = process
        self._world = process.world
        self._broker = broker
        self._group = group
        self._topics = topics
        self._session_s = session_s
        self._tell = tell
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_fenced = on_fenced
        self._assigned: Assigned | None = None
        self._left = False
        others = process.on_drop

        def on_drop() -> None:
            others()
            group.drop(self.id)

        process.on_drop = on_drop
        self._turn = 0
        """Counts joins and revocations, so that outdated responses are ignored."""

    @property
    def _gone(self) -> bool:
        return self._left or not self._process.alive

    def join(self) -> None:
        """Join or rejoin the group."""
        if self._gone:
            return
        self._turn += 1
        turn = self._turn

        def joined(code: int, member_id: str, generation: int, assigned: Assigned) -> None:
            self._world.after(
                self._broker.delay(), lambda: self._when_running(take, code, member_id, generation, assigned)
            )

        def take(code: int, member_id: str, generation: int, assigned: Assigned) -> None:
            if turn != self._turn:
                return
            if code:
                self._refused(code)
                return
            self.id, self.generation = member_id, generation
            self._assigned = assigned
            self._tell(lambda: self._gone or self._on_assigned(assigned))
            self._beat_later(turn)

        def on_answer(code: int | None) -> None:
            # The response may be lost although the assignment has arrived: then it is a member.
            if code != 0 and turn == self._turn and self._assigned is None:
                self._when_running(self._refused, code)

        group = self._group
        asks = Asks(self.id, self.instance_id, self._topics, self._session_s, self._session_s * 2)
        group.ask(self._process, lambda: 0 if self._gone else group.join(asks, joined), on_answer)

    def leave(self) -> None:
        """Leave the group. A static member keeps its place."""
        if not self._left:
            self._left = True
            member_id = self.id
            if self.instance_id is None and member_id:
                self._group.ask(self._process, lambda: self._group.leave(member_id), lambda _: None)

    def _when_running(self, call: Callable[..., object], *args: object) -> None:
        """Call this once the process is neither frozen nor cut off."""
        if self._gone:
            return
        if self._process.unreachable:
            self._world.after(0.05, lambda: self._when_running(call, *args))
        else:
            call(*args)

    def _beat_later(self, turn: int) -> None:
        self._world.after(self._session_s / _HEARTBEATS, lambda: self._when_running(self._beat, turn))

    def _beat(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._group.ask(self._process, self.heartbeat, lambda code: self._when_running(self._on_heartbeat, turn, code))

    def heartbeat(self) -> int:
        """Return the coordinator's error code for a heartbeat; 0: none."""
        return self._group.heartbeat(self.id, self.instance_id, self.generation)

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
            self._tell(self._on_fenced)
        elif code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            if code == KafkaError.UNKNOWN_MEMBER_ID:
                self.id = ""
            self._give_up(lost=True)
        else:
            turn = self._turn
            self._world.after(_AGAIN_S, lambda: self._when_running(self._join_again, turn))

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
                self._on_revoked(assigned, lost, self.join)

        self._tell(given_up)
