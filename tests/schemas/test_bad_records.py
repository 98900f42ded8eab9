from base64 import b64decode
from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.schemas.control import Batch, Command
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.decisions import Decision
from haltline.schemas.wire import MAX_EVENT_BYTES, InvalidRecord, decode, decode_event

EVENT: dict[str, Any] = {"event_id": "e", "kind": "action.proposed", "session_id": "s", "time": 1_750_000_000_000}


def event(**changes: Any) -> bytes:
    return orjson.dumps(EVENT | changes)


def raw(name: str, text: str) -> bytes:
    """An event with a field written as it is given, which need not be JSON."""
    return orjson.dumps(EVENT)[:-1] + f',"{name}":{text}}}'.encode()


def without(name: str) -> bytes:
    return orjson.dumps({key: value for key, value in EVENT.items() if key != name})


BAD: list[tuple[str, bytes | None, BadRecord, str]] = [
    ("no value at all", None, BadRecord.EMPTY, "got no value"),
    ("not JSON", b"delete everything", BadRecord.NOT_JSON, "Invalid JSON"),
    ("cut in the middle", event()[:-10], BadRecord.NOT_JSON, "EOF"),
    ("a byte order mark before it", b"\xef\xbb\xbf" + event(), BadRecord.NOT_JSON, "line 1 column 1"),
    ("invalid UTF-8 in a text", event().replace(b'"s"', b'"\xff"'), BadRecord.NOT_JSON, "unicode"),
    ("half a surrogate pair", raw("action", r'"\ud800"'), BadRecord.NOT_JSON, "hex escape"),
    ("nested 100,000 deep", b"[" * 100_000, BadRecord.NOT_JSON, "recursion limit"),
    ("NaN for a number", raw("duration_ms", "NaN"), BadRecord.INVALID, "duration_ms: "),
    ("NaN in the arguments", raw("args", '{"a": [NaN]}'), BadRecord.NOT_JSON, "unexpected"),
    ("a number beyond a double", raw("duration_ms", "1e400"), BadRecord.INVALID, "duration_ms: "),
    ("a counter beyond 64 bits", raw("seq", "9" * 30), BadRecord.INVALID, "seq: "),
    ("10 MB of arguments", event(args={"text": "a" * 10_000_000}), BadRecord.TOO_LARGE, str(MAX_EVENT_BYTES)),
    ("an array at the top", b"[" + event() + b"]", BadRecord.INVALID, "the record: "),
    ("an empty object", b"{}", BadRecord.INVALID, "and 3 more"),
    *[(f"no {name}", without(name), BadRecord.INVALID, f"{name}: Field required") for name in EVENT],
    ("an empty event id", event(event_id=""), BadRecord.INVALID, "event_id: "),
    ("a session id of 257 characters", event(session_id="s" * 257), BadRecord.INVALID, "session_id: "),
    ("a number for the session id", event(session_id=42), BadRecord.INVALID, "got 42"),
    ("a kind that is not known", event(kind="action.dreamt"), BadRecord.INVALID, "got 'action.dreamt'"),
    ("the year 9999", event(time="9999-01-01T00:00:00Z"), BadRecord.INVALID, "time: expected a time from 2000 to 2100"),
    ("a negative counter", event(seq=-1), BadRecord.INVALID, "seq: "),
    ("1,001 targets", event(targets=["t"] * 1001), BadRecord.INVALID, "targets: "),
    ("a negative cost", event(usage={"cost_usd": -0.01}), BadRecord.INVALID, "usage.cost_usd: "),
    ("a cost whose sum would be infinite", event(usage={"cost_usd": 1e308}), BadRecord.INVALID, "usage.cost_usd: "),
    ("version 2", event(v=2), BadRecord.UNKNOWN_VERSION, "v: expected 1, got 2"),
    ("version 2 of another shape", b'{"v": 2, "who": "s"}', BadRecord.UNKNOWN_VERSION, "v: expected 1, got 2"),
]


@pytest.mark.parametrize(("value", "reason", "text"), [pytest.param(*case[1:], id=case[0]) for case in BAD])
def test_a_bad_record_has_a_reason_and_says_what_came(value: bytes | None, reason: BadRecord, text: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        decode_event(value)
    assert caught.value.reason is reason
    assert text in caught.value.detail
    assert len(caught.value.detail) <= 2000


def test_a_record_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    room = MAX_EVENT_BYTES - len(event(args={"text": ""}))
    largest = event(args={"text": "a" * room})
    assert decode_event(largest).args == {"text": "a" * room}
    with pytest.raises(InvalidRecord) as caught:
        decode_event(event(args={"text": "a" * (room + 1)}))
    assert caught.value.reason is BadRecord.TOO_LARGE


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "the result was NaN"])
def test_a_text_that_speaks_of_nan_is_read(text: str) -> None:
    assert decode_event(event(args={"text": text})).args == {"text": text}


def test_a_command_has_a_reason_and_a_name_a_batch_a_bound_and_a_confidence_is_from_0_to_1() -> None:
    command = {"command_id": "c", "kind": "reset", "id": "s", "by": "mira", "reason": "why", "time": EVENT["time"]}
    assert decode(Command, orjson.dumps(command)).reason == "why"
    for name in ("by", "reason"):
        for wrong in ({name: ""}, {name: None}):
            with pytest.raises(InvalidRecord, match=f"{name}: "):
                decode(Command, orjson.dumps(command | wrong))
        with pytest.raises(InvalidRecord, match=f"{name}: Field required"):
            decode(Command, orjson.dumps({key: command[key] for key in command if key != name}))
    with pytest.raises(InvalidRecord, match="max_deletes: "):
        decode(Batch, orjson.dumps({"max_deletes": 0, "expires": EVENT["time"]}))
    decision = EVENT | {"decision_id": "d", "level": "KILL", "code": "c", "reason": "r"}
    for confidence in (-0.1, 1.1):
        with pytest.raises(InvalidRecord, match="confidence: "):
            decode(Decision, orjson.dumps(decision | {"confidence": confidence}))


GOLDEN = Path(__file__).parent / "golden" / "v1" / "dead-letter.json"


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
