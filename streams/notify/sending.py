"""The sender threads, one per channel: due messages in order, with retries until a time limit."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

import tenacity

from haltline.schemas.incidents import IncidentState
from haltline.schemas.notifications import NotificationOutcome
from haltline.streams.notify.channels.base import Failed, Repeating, Sender
from haltline.streams.notify.config import AnyChannel
from haltline.streams.notify.delivery_queue import DeliveryQueue, Item
from haltline.streams.notify.notification_text import Change, Message
from haltline.streams.runtime.metrics import Metrics

_log = logging.getLogger(__name__)

DIGEST_MOST: Final = 500
"""The most changes of one message."""
_ATTEMPTS_LEAST: Final = 3
_LOOK_EVERY_S: Final = 0.1
_BACK_OFF: Final = tenacity.wait_exponential_jitter(initial=1.0, max=60.0, jitter=1.0)


class Owner(Protocol):
    """The origin of items: a record of a partition."""

    @property
    def owned(self) -> bool:
        """Whether this process still owns the partition."""


class Abandoned(Exception):
    """The process ends, or the partition was revoked: its next owner sends."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The outcome of one item."""

    item: Item[Owner]
    message_id: str
    outcome: NotificationOutcome
    attempts: int
    detail: str = ""


def now_ms() -> int:
    """Return the wall clock's time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class ChannelThread:
    """The thread of one channel. `settled` is called with each item, by this thread; `change_of` gives its text.

    An unexpected exception ends the thread, and is passed to `on_failure`.
    """

    def __init__(
        self,
        name: str,
        channel: AnyChannel,
        sender: Sender,
        metrics: Metrics,
        *,
        change_of: Callable[[Item[Owner]], Change],
        settled: Callable[[Settled], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.channel = channel
        self.repeats = hasattr(sender, "repeat")
        self._sender = sender
        self._change_of = change_of
        self._settled = settled
        self._on_failure = on_failure
        self._give_up_s = channel.give_up_after.total_seconds()
        self._waiting: DeliveryQueue[Owner] = DeliveryQueue()
        self._sending: list[Item[Owner]] = []
        self._open: dict[str, Item[Owner]] = {}
        """The last message by incident, if it is repeated."""
        self._repeated_s = time.monotonic()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._outcomes = metrics.counter("notifications_total")
        self._seconds = metrics.histogram("notification_seconds").labels(name)
        for outcome in (*NotificationOutcome, "retried"):
            self._outcomes.labels(name, str(outcome)).inc(0)  # so that the first one shows as an increase
        self._thread = threading.Thread(target=self._run, name=f"notify-{name}", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def add(self, item: Item[Owner], *, settled: bool = False) -> None:
        """Add an item, like `DeliveryQueue.add`."""
        with self._changed:
            self._waiting.add(item, settled=settled)
            self._changed.notify_all()

    def follow(self, item: Item[Owner]) -> None:
        """Repeat this from now on, or stop repeating it if its incident is resolved."""
        with self._changed:
            self._follow(item)

    def disown(self, within_s: float) -> None:
        """Drop the items of revoked partitions; waits for a running attempt."""
        with self._changed:
            self._waiting.drop(lambda origin: not origin.owned)
            self._open = {key: item for key, item in self._open.items() if item.origin.owned}
            self._changed.notify_all()
            self._changed.wait_for(lambda: all(item.origin.owned for item in self._sending), within_s)

    def load(self) -> tuple[int, float]:
        """Return the number of waiting items, and for how many seconds the oldest due one has been due."""
        at_ms = now_ms()
        with self._changed:
            due = [item.planned.due_ms for item in self._sending]
            if (first := self._waiting.next_due_ms()) is not None:
                due.append(first)
            number = len(self._waiting) + len(self._sending)
        return number, max(0.0, (at_ms - min(due)) / 1000) if due else 0.0

    def stop(self) -> None:
        """Stop after the running attempt."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def join(self, within_s: float) -> None:
        """Wait for the end."""
        if self._thread.is_alive():
            self._thread.join(within_s)
        self._sender.close()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                items = self._next()
                if items:
                    self._send(items)
                elif self.repeats:
                    self._repeat()
        except BaseException as failure:
            self._on_failure(failure)

    def _next(self) -> list[Item[Owner]]:
        """Return the items of the next message; none after a timeout."""
        with self._changed:
            due_ms = self._waiting.next_due_ms()
            wait_s = 1.0 if due_ms is None else min(1.0, (due_ms - now_ms()) / 1000)
            if wait_s > 0 and not self._stopping.is_set():
                self._changed.wait(wait_s)
            if self._stopping.is_set():
                return []
            self._sending = self._waiting.take(now_ms(), DIGEST_MOST)
            return self._sending

    def _send(self, items: list[Item[Owner]]) -> None:
        message = Message.of([self._change_of(item) for item in items], max(item.at_ms for item in items))
        due_ms = max(item.planned.due_ms for item in items)
        try:
            outcome, attempts, detail = self._attempt(message, items, due_ms)
        except Abandoned:
            with self._changed:
                for item in items:
                    if item.origin.owned and not self._stopping.is_set():
                        self._waiting.add(item)
                self._sending = []
                self._changed.notify_all()
            return
        if outcome is NotificationOutcome.SENT:
            self._seconds.observe(max(0.0, (now_ms() - due_ms) / 1000))
        for item in items:
            self._settled(
                Settled(item=item, message_id=message.message_id, outcome=outcome, attempts=attempts, detail=detail)
            )
        self._outcomes.labels(self.name, outcome.value).inc(len(items))
        with self._changed:
            if self.repeats and outcome is NotificationOutcome.SENT:
                for item in items:
                    self._follow(item)
            self._sending = []
            self._changed.notify_all()

    def _follow(self, item: Item[Owner]) -> None:
        incident = item.record.incident_id
        if item.record.state is IncidentState.RESOLVED:
            self._open.pop(incident, None)
        elif incident not in self._open or self._open[incident].record.revision < item.record.revision:
            self._open[incident] = item

    def _attempt(self, message: Message, items: list[Item[Owner]], due_ms: int) -> tuple[NotificationOutcome, int, str]:
        def is_over(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number >= _ATTEMPTS_LEAST and now_ms() - due_ms >= self._give_up_s * 1000

        def wait_s(state: tenacity.RetryCallState) -> float:
            failure = None if state.outcome is None else state.outcome.exception()
            retry_after_s = failure.after_s if isinstance(failure, Failed) and failure.after_s is not None else 0.0
            self._outcomes.labels(self.name, "retried").inc()
            _log.warning("channel %s: attempt %d failed: %s", self.name, state.attempt_number, failure)
            return max(retry_after_s, _BACK_OFF(state))

        def sleep(seconds: float) -> None:
            until_s = time.monotonic() + seconds
            while (left_s := until_s - time.monotonic()) > 0:
                if self._stopping.wait(min(left_s, _LOOK_EVERY_S)) or not all(item.origin.owned for item in items):
                    raise Abandoned

        retrying = tenacity.Retrying(
            stop=is_over,
            wait=wait_s,
            sleep=sleep,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Failed) and error.again),
            reraise=True,
        )
        try:
            retrying(self._once, message)
        except Failed as failed:
            attempts = int(retrying.statistics["attempt_number"])
            _log.error("channel %s: given up after %d attempts: %s", self.name, attempts, failed.detail)
            return NotificationOutcome.FAILED, attempts, failed.detail
        return NotificationOutcome.SENT, int(retrying.statistics["attempt_number"]), ""

    def _once(self, message: Message) -> None:
        try:
            self._sender.send(message)
        except Failed:
            raise
        except Exception as error:  # from a library; its text may contain a secret
            raise Failed(f"unexpected {type(error).__name__}", again=False) from None

    def _repeat(self) -> None:
        sender = cast("Repeating", self._sender)
        with self._changed:
            items = list(self._open.values())
            if time.monotonic() - self._repeated_s < sender.repeat_s:
                return
            self._repeated_s = time.monotonic()
        if items:
            try:
                sender.repeat([self._change_of(item) for item in items])
            except Failed as failed:  # retried the next time
                _log.warning("channel %s: open incidents could not be repeated: %s", self.name, failed.detail)
