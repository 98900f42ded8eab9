"""The checks of topics that were grown: each passes on the expected content, and finds differences."""

from collections.abc import Sequence

import pytest

from benchmarks.chaos import grown
from benchmarks.chaos.expected import Place
from benchmarks.chaos.verify import MISSING, UNEXPECTED
from haltline.schemas.signals import Signal, SignalKind, SignalScope
from haltline.schemas.topics import Topics
from haltline.streams.kafka.topic_sets import COPY, headers_of_copy
from haltline.streams.replay.records import LogRecord

OLDER = Topics("t.")
TOPICS = OLDER.next
HEADERS = [("content-type", b"application/json")]


def record(
    topic: str, offset: int, value: bytes = b"{}", headers: Sequence[tuple[str, bytes | None]] = ()
) -> LogRecord:
    return LogRecord(topic, 0, offset, 1_750_000_000_000, b"s1", value, headers)


def copy_of(original: LogRecord, topic: str, offset: int, value: bytes | None = None) -> LogRecord:
    value = original.value if value is None else value
    return original._replace(topic=topic, offset=offset, value=value, headers=headers_of_copy(original))


def by_place(records: Sequence[LogRecord]) -> dict[Place, LogRecord]:
    return {(r.topic, r.partition, r.offset): r for r in records}


def test_each_record_behind_the_begin_must_be_copied_unchanged() -> None:
    originals = [record(OLDER.actions, offset, b"%d" % offset, HEADERS) for offset in range(4)]
    begin = grown.Grown(begins={(OLDER.actions, 0): 2})
    copies = [copy_of(originals[number], TOPICS.actions, at) for at, number in enumerate((2, 3, 2))]
    own = record(TOPICS.actions, 3, b"of a guard on the new set")
    whole = [*originals, *copies, own]
    assert grown.check_copies(by_place(whole), TOPICS, begin).ok
    lost = grown.check_copies(by_place([r for r in whole if r is not copies[1]]), TOPICS, begin)
    assert [(one.kind, one.place) for one in lost.differences] == [(MISSING, (OLDER.actions, 0, 3))]
    changed = [copy_of(originals[3], TOPICS.actions, 4, b"other")]
    other = grown.check_copies(by_place([*whole, *changed]), TOPICS, begin)
    assert ["other content" in one.text for one in other.differences] == [True]


@pytest.mark.parametrize(("there", "kinds"), [([b"d1", b"d1"], []), ([], [MISSING]), ([b"d1", b"d2"], [UNEXPECTED])])
def test_the_older_set_must_have_the_decisions_of_the_new_one(there: list[bytes], kinds: list[str]) -> None:
    values = [b'{"decision_id":"%s"}' % name for name in (b"d1", b"d0")]
    log = [record(TOPICS.interventions, 0, values[0]), record(OLDER.interventions, 0, values[1])]
    log.append(record(TOPICS.interventions, 1, b'{"decision_id":"d3","mode":"shadow"}'))
    log += [
        record(OLDER.interventions, 1 + at, b'{"decision_id":"%s"}' % name, [(COPY, b"1")])
        for at, name in enumerate(there)
    ]
    assert [one.kind for one in grown.check_heard(by_place(log), TOPICS).differences] == kinds


def test_signals_are_in_the_order_in_which_they_were_processed() -> None:
    def told(topic: str, offset: int, name: str) -> LogRecord:
        signal = Signal(
            signal_id=name, kind=SignalKind.STARTED, scope=SignalScope.AGENT, id="a", agent_id="a", session_id="s",
            event_id=name, time=1_750_000_000_000,
        )  # fmt: skip
        return record(topic, offset, signal.to_json())

    older = [told(OLDER.signals, offset, f"older {offset}") for offset in range(4)]
    direct = told(TOPICS.signals, 0, "direct")
    copies = [copy_of(older[number], TOPICS.signals, at) for at, number in ((1, 1), (2, 2))]
    states = {"agent:a": {"offsets": {OLDER.signals: 1}}}
    ordered = grown.signals_in_order([*older, direct, *copies], TOPICS, states)
    places = [(one.topic, one.offset) for one in ordered]
    assert places == [
        *((OLDER.signals, 0), (OLDER.signals, 1)),  # the copied state includes them
        *((TOPICS.signals, 0), (OLDER.signals, 2)),
        (OLDER.signals, 3),  # lost
    ]
