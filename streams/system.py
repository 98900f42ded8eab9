"""The system interfaces that a process uses: Kafka's clients, clocks and threads.

The real ones are the default. A simulation passes others and runs the same code step by step, on a virtual clock and
with logs in memory.
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
    """A factory of clients and threads, and a clock. Each field has the signature of its default."""

    producer: Callable[..., Producer] = Producer
    consumer: Callable[..., Consumer] = Consumer
    admin: Callable[..., AdminClient] = AdminClient
    monotonic: Callable[[], float] = time.monotonic
    """Seconds of a monotonic clock."""
    boottime: Callable[[], float] = _boottime
    """Seconds of a monotonic clock that includes the time in which the machine sleeps, where the system has one."""
    time_ns: Callable[[], int] = time.time_ns
    """Nanoseconds since 1970."""
    random_bytes: Callable[[int], bytes] = os.urandom
    sleep: Callable[[float], object] = time.sleep
    thread: Callable[..., threading.Thread] = threading.Thread
    event: Callable[[], threading.Event] = threading.Event
    semaphore: Callable[[int], threading.Semaphore] = threading.Semaphore
    condition: Callable[[], threading.Condition] = threading.Condition

    def time_ms(self) -> int:
        """Return milliseconds since 1970."""
        return self.time_ns() // 1_000_000


REAL: Final = System()
