"""What a process uses of the world outside: Kafka's clients, clocks and threads.

Everything that takes one uses the real ones unless it is given others: a simulation runs the same code on a virtual
clock, with logs in memory, one step at a time.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient


def _boottime() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, kw_only=True)
class System:
    """Makes clients and threads, and tells the time. Each field has the signature of its default."""

    producer: Callable[..., Producer] = Producer
    consumer: Callable[..., Consumer] = Consumer
    admin: Callable[..., AdminClient] = AdminClient
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a clock that does not go back."""
    boottime: Callable[[], float] = _boottime
    """The same, which goes on while the machine sleeps, where the system has such a clock."""
    time_ns: Callable[[], int] = time.time_ns
    """Nanoseconds since 1970."""
    random_bytes: Callable[[int], bytes] = os.urandom
    sleep: Callable[[float], object] = time.sleep
    thread: Callable[..., threading.Thread] = threading.Thread
    event: Callable[[], threading.Event] = threading.Event
    semaphore: Callable[[int], threading.Semaphore] = threading.Semaphore
    condition: Callable[[], threading.Condition] = threading.Condition

    def time_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.time_ns() // 1_000_000


REAL: Final = System()
