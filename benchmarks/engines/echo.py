"""The lower bound of a decision's latency: each record is sent back unchanged, on another topic."""

import sys
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer

from benchmarks.engines import clients


def main(arguments: Sequence[str] | None = None) -> int:
    args = clients.options(__doc__, "source", "target").parse_args(arguments)
    stopped = clients.stopping()
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
        }
    )
    consumer = Consumer({"bootstrap.servers": args.bootstrap, "group.id": args.group, "auto.offset.reset": "latest"})
    consumer.subscribe([args.source])
    while not stopped.is_set():
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise RuntimeError(f"{args.source}: expected a record, got {error}")
        producer.produce(args.target, key=message.key(), value=message.value())
        producer.poll(0)
    producer.flush(10)
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
