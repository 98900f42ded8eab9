"""What `haltline topics grow` waits for."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from haltline.streams.operator.grow import NotGrown, wait_for_leaders

PLACES = [TopicPartition("haltline.2.actions", number) for number in range(2)]
ELECTING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)


class Admin:
    """Answers for the last partition with each of these errors, then with its end."""

    def __init__(self, errors: Iterable[int]) -> None:
        self.errors = [*errors]

    def list_offsets(self, places: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in places}
        *others, last = answers.values()
        for answer in others:
            answer.set_result(None)
        if self.errors:
            last.set_exception(KafkaException(KafkaError(self.errors.pop(0))))
        else:
            last.set_result(None)
        return answers


def test_new_partitions_are_used_once_their_leaders_answer() -> None:
    admin = Admin(ELECTING)
    wait_for_leaders(admin, PLACES)  # type: ignore[arg-type]  # all that is used of it
    assert admin.errors == []
    refused = Admin([KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(NotGrown, match="expected every partition to answer"):
        wait_for_leaders(refused, PLACES)  # type: ignore[arg-type]  # as above
