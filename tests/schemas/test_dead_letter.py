from base64 import b64decode
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.wire import decode

GOLDEN = Path(__file__).parent / "golden" / "v1" / "dead-letter.json"

any_text = st.text(st.characters(codec="utf-8"), max_size=300)
letters = st.builds(
    DeadLetter,
    reason=st.sampled_from(BadRecord),
    detail=any_text,
    topic=any_text,
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    key=st.none() | st.binary(),
    raw=st.none() | st.binary(),
    record_headers=st.lists(st.tuples(any_text | st.just("haltline-reason"), st.none() | st.binary()), max_size=4).map(
        tuple
    ),
)


@given(letter=letters, others=st.lists(st.tuples(st.text().map("x-".__add__), st.binary()), max_size=3))
@settings(max_examples=50)
def test_a_dead_letter_comes_back_from_topic_and_json(letter: DeadLetter, others: list[tuple[str, bytes]]) -> None:
    """Whatever its bytes are; headers of others do not matter."""
    assert DeadLetter.from_record(letter.key, letter.raw, [*others, *letter.headers(), *others]) == letter
    assert decode(DeadLetter, letter.to_json()) == letter


def empty(**fields: Any) -> DeadLetter:
    return DeadLetter(reason=BadRecord.EMPTY, detail="", topic="t", partition=0, offset=0, timestamp_ms=0, **fields)


@pytest.mark.parametrize("name", [name for name, _ in empty().headers()])
def test_a_record_without_the_header_was_not_written_by_haltline(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        DeadLetter.from_record(None, None, [header for header in empty().headers() if header[0] != name])


def test_the_golden_dead_letter_is_read_and_written_again_as_it_was() -> None:
    golden = orjson.loads(GOLDEN.read_bytes())
    headers = [(name, text.encode()) for name, text in golden["headers"].items()]
    value = b64decode(golden["value_base64"])
    letter = DeadLetter.from_record(golden["key"].encode(), value, headers)
    assert letter.reason is BadRecord.NOT_JSON
    assert letter.offset == 2**53 - 1
    assert letter.raw == value
    assert letter.headers() == headers


def test_more_headers_than_fit_are_left_out_from_the_first_that_does_not() -> None:
    theirs = (("a", b"x" * 65_000), ("b", b"x" * 1000), ("c", b"x"))
    headers = empty(record_headers=theirs).headers()
    assert DeadLetter.from_record(None, None, headers).record_headers == theirs[:1]
