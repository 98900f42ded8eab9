import operator
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import orjson
import pytest
from confluent_kafka import KafkaError, Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.ordered import OrderedName
from haltline.schemas.partitioner import partition_of
from haltline.schemas.record import EARLIEST_MS, LATEST_MS, rfc3339
from haltline.schemas.wire import InvalidRecord, decode_event
from haltline.streams.local.embedded_broker import PARTITIONS, EmbeddedBroker
from tests.builders import cases

NOON_MS = 1_750_075_200_000  # 2025-06-16T12:00:00Z


def read_time(value: object) -> int:
    event = {"event_id": "e", "kind": "session.heartbeat", "session_id": "s", "time": value}
    return decode_event(orjson.dumps(event)).time


@cases(
    "value, time_ms",
    {
        "epoch milliseconds": (NOON_MS, NOON_MS),
        "UTC as Z": ("2025-06-16T12:00:00Z", NOON_MS),
        "west by half an hour": ("2025-06-16T06:30:00-05:30", NOON_MS),
        "milliseconds": ("2025-06-16T12:00:00.250Z", NOON_MS + 250),
        "microseconds are rounded": ("2025-06-16T12:00:00.250999Z", NOON_MS + 251),
        "nanoseconds": ("2025-06-16T12:00:00.123456789Z", NOON_MS + 123),
        "the earliest": ("2000-01-01T00:00:00Z", EARLIEST_MS),
        "the latest": ("2099-12-31T23:59:59.999Z", LATEST_MS - 1),
    },
)
def test_a_time_is_read(value: object, time_ms: int) -> None:
    assert read_time(value) == time_ms


@cases(
    "value, text",
    {
        "the year 9999 and beyond it in UTC": ("9999-12-31T23:59:59-23:59", "2000 to 2100"),
        "the first moment of 2100": (LATEST_MS, "2000 to 2100"),
        "seconds for milliseconds": (1_750_075_200, "2000 to 2100"),
        "no offset": ("2025-06-16T12:00:00", "with an offset"),
        "no time at all": ("yesterday", "yesterday"),
        "milliseconds as text": (str(NOON_MS), str(NOON_MS)),
        "the 30th of February": ("2025-02-30T12:00:00Z", "expected an RFC 3339 time"),
        "a boolean": (True, "got True"),
        "a float": (1_750_075_200_000.0, "whole epoch milliseconds"),
    },
)
def test_a_time_is_refused_and_the_message_says_what_came(value: object, text: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        read_time(value)
    assert caught.value.reason is BadRecord.INVALID
    assert caught.value.detail.startswith("time: ")
    assert text in caught.value.detail


@given(time_ms=st.integers(EARLIEST_MS, LATEST_MS - 1), offset_minutes=st.integers(-23 * 60, 23 * 60))
def test_a_moment_is_the_same_in_every_offset_and_as_people_read_it(time_ms: int, offset_minutes: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    there = moment.astimezone(timezone(timedelta(minutes=offset_minutes)))
    assert read_time(there.isoformat(timespec="milliseconds")) == time_ms
    assert rfc3339(time_ms).endswith("Z")
    assert read_time(rfc3339(time_ms)) == time_ms


ORDERS: dict[type[OrderedName], list[str]] = {
    Severity: ["low", "medium", "high", "critical"],
    Level: ["ALLOW", "NUDGE", "REINFORCE", "THROTTLE", "PAUSE", "BLOCK", "ROLLBACK", "KILL"],
    Mode: ["shadow", "warn", "enforce"],
    Effect: ["read", "poll", "write", "network", "exec", "mutate", "destructive"],
}
of_every_order = pytest.mark.parametrize("names", ORDERS, ids=lambda names: names.__name__)


@of_every_order
def test_members_are_in_the_documented_order_and_every_comparison_goes_by_it(names: type[OrderedName]) -> None:
    members = list(names)
    assert [member.value for member in members] == ORDERS[names]
    for lower, higher in pairwise(names):
        assert lower < higher >= lower
        assert higher > lower <= higher
        assert not higher < lower
        assert not lower >= higher
    assert (max(reversed(members)), min(reversed(members))) == (members[-1], members[0])
    by_alphabet = sorted(members, key=str)
    assert by_alphabet != members == sorted(by_alphabet)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize("other", ["medium", Level.NUDGE, Effect.READ], ids=["a text", "a level", "an effect"])
def test_a_severity_is_not_compared_with(other: str, compare: Callable[[str, str], bool]) -> None:
    for one, another in ((Severity.LOW, other), (other, Severity.LOW)):
        with pytest.raises(TypeError, match="compared"):
            compare(one, another)


ODD = ["ü", "日本語", "\U0001f600", "a\u0301", " ", "\0", "\0\0\0\0", "\n", "-1", '"', "\x7f", "\u0080"]
_random = random.Random(7)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_:"
OF_EVERY_LENGTH = ["".join(_random.choices(LETTERS, k=length)) for length in range(1, 41) for _ in range(8)]
KEYS = [*ODD, *OF_EVERY_LENGTH, "s" * 256]


def partitions_of_librdkafka(keys: list[str]) -> dict[str, int]:
    """The partition on which librdkafka put a record of each key."""
    found: dict[str, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key, partition = message.key(), message.partition()
        assert key is not None
        assert partition is not None
        found[key.decode() if isinstance(key, bytes) else key] = partition

    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
        for key in keys:
            producer.produce("t", key=key.encode(), value=b"x", on_delivery=delivered)
        assert producer.flush(30) == 0
    return found


def test_a_record_is_where_we_say_when_librdkafka_produces_it() -> None:
    expected = {key: partition_of(key, PARTITIONS) for key in KEYS}
    assert set(expected.values()) == set(range(PARTITIONS))
    assert partitions_of_librdkafka(KEYS) == expected
