"""The sender threads of channels and actuators: messages in order, with retries until a time limit."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

import tenacity

from haltline.schemas.incidents import IncidentState
from haltline.schemas.notifications import NotificationOutcome
from haltline.streams.notify.channels import Receiver
from haltline.streams.notify.channels.base import Failed, Repeating
from haltline.streams.notify.config import Actuator
from haltline.streams.notify.notification_text import Message
from haltline.streams.notify.orders import Order
from haltline.streams.runtime.metrics import Metrics

_log = logging.getLogger(__name__)

_ATTEMPTS_LEAST: Final = 3
_ORDERS_AT_ONCE: Final = 4
"""The calls of one actuator at a time: an agent's that is not answered delays no other's."""
_LOOK_EVERY_S: Final = 0.1
_REPEAT_LOOK_S: Final = 1.0
_BACK_OFF: Final = tenacity.wait_exponential_jitter(initial=1.0, max=60.0, jitter=1.0)


class Owner(Protocol):
    """The origin of a message: a record of a partition."""

    @property
    def owned(self) -> bool:
        """Whether this process still owns the partition."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One message to send, with its origin."""

    channel: str
    message: Message | Order
    origin: Owner


class Abandoned(Exception):
    """The process ends, the partition was revoked and its next owner sends, or the kill was released."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The outcome of one item."""

    item: Item
    outcome: NotificationOutcome
    attempts: int
    detail: str = ""


def now_ms() -> int:
    """Return the wall clock's time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class ChannelThread:
    """The thread of one channel, or the few of an actuator, with its queue.

    `settled` is called with each item, by these threads. An unexpected exception ends a thread, and is passed to
    `on_failure`.
    """

    def __init__(
        self,
        name: str,
        receiver: Receiver,
        metrics: Metrics,
        *,
        settled: Callable[[Settled], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.channel = receiver.channel
        self.repeats = hasattr(receiver.sender, "repeat")
        self._sender = receiver.sender
        self._settled = settled
        self._on_failure = on_failure
        self._give_up_s = receiver.channel.give_up_after.total_seconds()
        self._waiting: deque[Item] = deque()
        self._sending: list[Item] = []
        self._open: dict[str, Item] = {}
        """The last message by incident, if it is repeated."""
        self._repeated_s = time.monotonic()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._outcomes = metrics.counter("notifications_total")
        self._seconds = metrics.histogram("notification_seconds").labels(name)
        for outcome in (*NotificationOutcome, "retried"):
            self._outcomes.labels(name, str(outcome)).inc(0)  # so that the first one shows as an increase
        number = _ORDERS_AT_ONCE if isinstance(self.channel, Actuator) else 1
        self._threads = [threading.Thread(target=self._run, name=f"notify-{name}", daemon=True) for _ in range(number)]

    def start(self) -> None:
        """Start sending."""
        for thread in self._threads:
            thread.start()

    def add(self, item: Item) -> None:
        """Add an item."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify_all()

    def follow(self, item: Item) -> None:
        """Repeat this from now on, or stop repeating it if its incident is resolved."""
        with self._changed:
            self._follow(item)

    def disown(self, within_s: float) -> None:
        """Drop the items of revoked partitions; waits for a running attempt."""
        with self._changed:
            self._waiting = deque(item for item in self._waiting if item.origin.owned)
            self._open = {key: item for key, item in self._open.items() if item.origin.owned}
            self._changed.notify_all()
            self._changed.wait_for(lambda: all(item.origin.owned for item in self._sending), within_s)

    def load(self) -> tuple[int, float]:
        """Return the number of waiting items, and the age of the oldest in seconds."""
        with self._changed:
            waiting = [*self._sending, *self._waiting]
        return len(waiting), max(0.0, (now_ms() - waiting[0].message.at_ms) / 1000) if waiting else 0.0

    def stop(self) -> None:
        """Stop after the running attempt."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def join(self, within_s: float) -> None:
        """Wait for the end."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(within_s)
        self._sender.close()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                item = self._next()
                if item is not None:
                    self._send(item)
                elif self.repeats:
                    self._repeat()
        except BaseException as failure:
            self._on_failure(failure)

    def _next(self) -> Item | None:
        """Return the next item; None after a timeout."""
        with self._changed:
            if not self._waiting and not self._stopping.is_set():
                self._changed.wait(_REPEAT_LOOK_S)
            if self._stopping.is_set() or not self._waiting:
                return None
            item = self._waiting.popleft()
            self._sending.append(item)
            return item

    def _send(self, item: Item) -> None:
        try:
            found = self._attempt(item) if item.origin.owned else None
        except Abandoned:
            found = None
        if found is None:
            self._end_sending(item)
            return
        outcome, attempts, detail = found
        if outcome is NotificationOutcome.SENT:
            self._seconds.observe(max(0.0, (now_ms() - item.message.at_ms) / 1000))
        self._settled(Settled(item=item, outcome=outcome, attempts=attempts, detail=detail))
        self._outcomes.labels(self.name, outcome.value).inc()
        if self.repeats and outcome is NotificationOutcome.SENT:
            self.follow(item)
        self._end_sending(item)

    def _end_sending(self, item: Item) -> None:
        with self._changed:
            self._sending.remove(item)
            self._changed.notify_all()

    def _follow(self, item: Item) -> None:
        record = cast("Message", item.message).record
        known = self._open.get(record.incident_id)
        if record.state is IncidentState.RESOLVED:
            self._open.pop(record.incident_id, None)
        elif known is None or cast("Message", known.message).record.revision < record.revision:
            self._open[record.incident_id] = item

    def _attempt(self, item: Item) -> tuple[NotificationOutcome, int, str]:
        def is_over(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number >= _ATTEMPTS_LEAST and now_ms() - item.message.at_ms >= self._give_up_s * 1000

        def wait_s(state: tenacity.RetryCallState) -> float:
            failure = None if state.outcome is None else state.outcome.exception()
            retry_after_s = failure.after_s if isinstance(failure, Failed) and failure.after_s is not None else 0.0
            self._outcomes.labels(self.name, "retried").inc()
            _log.warning("channel %s: attempt %d failed: %s", self.name, state.attempt_number, failure)
            return max(retry_after_s, _BACK_OFF(state))

        def sleep(seconds: float) -> None:
            until_s = time.monotonic() + seconds
            while (left_s := until_s - time.monotonic()) > 0:
                if self._stopping.wait(min(left_s, _LOOK_EVERY_S)) or not item.origin.owned:
                    raise Abandoned

        retrying = tenacity.Retrying(
            stop=is_over,
            wait=wait_s,
            sleep=sleep,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Failed) and error.again),
            reraise=True,
        )
        try:
            detail = retrying(self._once, item.message)
        except Failed as failed:
            attempts = int(retrying.statistics["attempt_number"])
            _log.error("channel %s: given up after %d attempts: %s", self.name, attempts, failed.detail)
            return NotificationOutcome.FAILED, attempts, failed.detail
        return NotificationOutcome.SENT, int(retrying.statistics["attempt_number"]), detail

    def _once(self, message: Message | Order) -> str:
        try:
            return self._sender.send(message) or ""
        except Failed:
            raise
        except Exception as error:  # from a library; its text may contain a secret
            raise Failed(f"unexpected {type(error).__name__}", again=False) from None

    def _repeat(self) -> None:
        sender = cast(Repeating, self._sender)
        with self._changed:
            items = list(self._open.values())
            if time.monotonic() - self._repeated_s < sender.repeat_s:
                return
            self._repeated_s = time.monotonic()
        if items:
            try:
                sender.repeat([cast("Message", item.message) for item in items])
            except Failed as failed:  # retried the next time
                _log.warning("channel %s: open incidents could not be repeated: %s", self.name, failed.detail)
