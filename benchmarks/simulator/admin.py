"""A simulated confluent-kafka AdminClient with the methods that the product uses."""

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from benchmarks.simulator.broker import CLUSTER_ID, Broker
from benchmarks.simulator.process import Process

_LATEST = -1
_BROKER = 1


def metadata_of(broker: Broker, topic: str | None = None) -> Any:
    """Return the metadata that `list_topics` returns."""
    if topic not in broker.described:
        broker.described[topic] = _described(broker, topic)
    return broker.described[topic]


def _described(broker: Broker, topic: str | None) -> Any:
    names = list(broker.topics) if topic is None else [topic]
    topics = {}
    for name in names:
        found = broker.topics.get(name)
        topics[name] = SimpleNamespace(
            topic=name,
            error=None if found is not None else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"),
            partitions={} if found is None else {number: _partition(number) for number in range(len(found.logs))},
        )
    return SimpleNamespace(
        topics=topics,
        brokers={_BROKER: SimpleNamespace(id=_BROKER)},
        controller_id=-1 if broker.embedded else _BROKER,
        cluster_id=None if broker.embedded else CLUSTER_ID,
    )


def _partition(number: int) -> Any:
    return SimpleNamespace(id=number, leader=_BROKER, replicas=[_BROKER], error=None)


class SimAdmin:
    """An AdminClient whose calls wait for the response and return completed futures."""

    def __init__(self, config: Mapping[str, Any], *, logger: Any = None, process: Process, broker: Broker) -> None:
        del config, logger
        self._process = process
        self._broker = broker
        self._lives = broker.lives

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the metadata of one topic or all."""
        self._broker.request(timeout if timeout >= 0 else 60.0)
        return metadata_of(self._broker, topic)

    def describe_cluster(self, *, request_timeout: float = 60.0) -> "Future[Any]":
        """Return the id and controller of the cluster."""
        self._broker.request(request_timeout)
        return _done(SimpleNamespace(cluster_id=CLUSTER_ID, controller=SimpleNamespace(id=_BROKER), nodes=[]))

    def describe_topics(self, topics: TopicCollection, *, request_timeout: float = 60.0) -> "dict[str, Future[Any]]":
        """Return by name a topic's id and partitions."""
        names = list(topics.topic_names)
        try:
            self._broker.request(request_timeout)
        except KafkaException as away:
            return {name: _failed(away) for name in names}
        answers: dict[str, Future[Any]] = {}
        for name in names:
            found = self._broker.topics.get(name)
            if found is None:
                answers[name] = _failed(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic")))
            else:
                partitions = [SimpleNamespace(id=number) for number in range(len(found.logs))]
                answers[name] = _done(SimpleNamespace(name=name, topic_id=found.id, partitions=partitions))
        return answers

    def list_offsets(
        self, specs: Mapping[TopicPartition, Any], *, request_timeout: float = 60.0, **_: Any
    ) -> "dict[TopicPartition, Future[Any]]":
        """Return the first or the next offset of each partition."""
        broker, world = self._broker, self._process.world
        try:
            broker.request(request_timeout)
        except KafkaException as away:
            return {place: _failed(away) for place in specs}
        if self._lives != broker.lives and world.chance(0.3):
            # The error of a client that still has the leader epochs from before a crash.
            self._lives = broker.lives
            old = KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH, "an old epoch"))
            return {place: _failed(old) for place in specs}
        answers: dict[TopicPartition, Future[Any]] = {}
        for place, spec in specs.items():
            try:
                log = broker.log(place.topic, place.partition)
            except KafkaException as unknown:
                answers[place] = _failed(unknown)
            else:
                offset = log.high if spec._value == _LATEST else log.start
                answers[place] = _done(SimpleNamespace(offset=offset, timestamp=-1))
        return answers


class _Answer:
    """A completed future without locks."""

    __slots__ = ("_failure", "_result")

    def __init__(self, result: Any, failure: BaseException | None) -> None:
        self._result = result
        self._failure = failure

    def result(self, timeout: float | None = None) -> Any:
        del timeout
        if self._failure is not None:
            raise self._failure
        return self._result


def _done(result: Any) -> "Future[Any]":
    return cast("Future[Any]", _Answer(result, None))


def _failed(failure: BaseException) -> "Future[Any]":
    return cast("Future[Any]", _Answer(None, failure))
