"""The clients, options and shutdown shared by engines on plain confluent-kafka."""

import argparse
import signal
import threading

from confluent_kafka import Consumer


def stopping() -> threading.Event:
    """Return an event that SIGTERM sets."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    return stopped


def committing_consumer(bootstrap: str, group: str) -> Consumer:
    """Return a consumer from the earliest offset, without automatic commits."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": True,
        }
    )


def options(description: str | None, *required: str) -> argparse.ArgumentParser:
    """Return the options for the broker, the group, and further required ones."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("bootstrap", "group", *required):
        parser.add_argument(f"--{name}", required=True)
    return parser


def work_options(description: str | None, *required: str) -> argparse.ArgumentParser:
    """Like `options`, for an engine that counts or detects by rules."""
    parser = options(description, "prefix", *required)
    parser.add_argument("--variant", choices=["count", "detect"], required=True)
    parser.add_argument("--rules", default="", help="of `detect`: only these; none named: every one")
    return parser
