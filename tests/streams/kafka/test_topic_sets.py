"""Copies of records between sets of topics: their headers, and what states and readers take them for."""

from haltline.schemas.topics import Topics
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.kafka.topic_sets import COPY, ORIGIN, Origin, headers_of_copy, is_copy, origin_of

FIRST = Topics()
SECOND = FIRST.next
THIRD = SECOND.next


def _record(topics: Topics, headers: tuple[tuple[str, bytes | None], ...] = ()) -> LogRecord:
    return LogRecord(topics.actions, 2, 17, 0, b"s1", b"{}", headers)


def test_a_record_keeps_its_first_place_through_all_sets() -> None:
    once = headers_of_copy(_record(FIRST, (("own", b"x"),)))
    assert once == (("own", b"x"), (ORIGIN, b"haltline.actions 2 17"))
    twice = headers_of_copy(_record(SECOND, once), SECOND.older_names)
    assert origin_of(twice, THIRD.older_names) == Origin("haltline.actions", 2, 17)
    assert origin_of(headers_of_copy(_record(SECOND)), THIRD.older_names) == Origin("haltline.2.actions", 2, 17)


def test_a_producer_cannot_choose_its_place() -> None:
    forged = ((ORIGIN, b"haltline.actions 0 999999"),)
    assert headers_of_copy(_record(FIRST, forged)) == ((ORIGIN, b"haltline.actions 2 17"),)
    assert origin_of(forged, FIRST.older_names) is None
    for value in (None, b"", b"haltline.actions", b"haltline.actions 1 -5", b"other 1 5", b"\xff 1 5"):
        assert origin_of(((ORIGIN, value),), SECOND.older_names) is None


def test_readers_of_all_sets_take_each_record_once() -> None:
    older, bridged, copied = SECOND.older_names, headers_of_copy(_record(FIRST)), ((COPY, b"1"),)
    assert is_copy(SECOND.actions, bridged, older)
    assert is_copy(FIRST.interventions, copied, older)
    assert not is_copy(FIRST.actions, (), older)
    assert not is_copy(SECOND.interventions, copied, older)
    assert not is_copy(SECOND.actions, bridged, frozenset())
