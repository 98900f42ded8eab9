import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haltline.schemas import native
from haltline.schemas.events import ActionEvent, Novelty, Task, Usage
from haltline.schemas.wire import InvalidRecord, decode, decode_event

GOLDEN = [path.read_bytes() for path in sorted((Path(__file__).parent / "golden" / "v1").glob("actions.*.json"))]
EVENT: dict[str, Any] = {
    "v": 1, "event_id": "e1", "kind": "action.completed", "session_id": "42", "agent_id": "cleaner",
    "parent_session_id": "41", "root_session_id": "40", "mission_id": "m", "host": "h", "seq": 3,
    "time": 1_750_000_000_000, "call_id": "c", "action": "delete_asset", "args": {"asset_id": "x", "deep": [1, None]},
    "args_digest": "d", "unread_from": 9, "targets": ["asset_id=x"], "effect": "destructive", "loop_key": "k",
    "outcome": "error", "error": "still there", "duration_ms": 3, "output_digest": "o", "output_bytes": 7,
    "output_head": "h", "output_repeats": 3, "output_novelty": {"new_words": 2, "words": 9, "results": 4},
    "await_verdict": False, "dropped": 2,
    "usage": {"input_tokens": 3, "output_tokens": 4, "cost_usd": 0.25, "cpu_ms": 1, "memory_bytes": 5, "file_ops": 6},
    "task": {"goal": "tidy up", "expected_paths": ["src"], "limits": {"cost_usd": 2}},
}  # fmt: skip


def said(read: Callable[[bytes], ActionEvent], value: bytes) -> tuple[str, bytes] | tuple[str, str]:
    """What came of reading: the event with the type of every value, and as it is written again; or the error."""
    try:
        event = read(value)
    except InvalidRecord as error:
        return error.reason, error.detail
    return repr(event), event.to_json()


def assert_alike(value: bytes) -> None:
    assert said(decode_event, value) == said(lambda raw: decode(ActionEvent, raw), value)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
odd = st.sampled_from([
    0, -1, 2**53, 2**53 + 1, 2**63, 2**64, 10**30, -(10**30), 1e15, 1.1e15, 1.0, -0.0, 1e400, "1", "", "true", [[]],
    "x" * 256, "x" * 257, "é" * 512, "x" * 513, "x" * 16_385, "\ud800", "\0", "2025-06-16T12:00:00Z", "2025-06-16",
    "1999-01-01T00:00:00Z", "20250616T120000+0100", 946_684_799_999, 4_102_444_800_000, ["t"] * 1001, nested(199),
    nested(150), {"goal": "x"}, {"limits": {"x": 10**400}}, {"id": "c1"},
])  # fmt: skip
inner_names = st.sampled_from([*Usage.model_fields, *Task.model_fields, *Novelty.model_fields, "x"])
inner = st.dictionaries(inner_names, values | odd, max_size=3)
names = st.sampled_from([*ActionEvent.model_fields, "of_a_later_release"])

PIECES = [b'"', b",", b"0", b"e5", b"NaN", b"\\ud83d", b"{}"]


@settings(max_examples=80)
@given(st.dictionaries(names, values | odd | inner, max_size=3), st.sets(names, max_size=3))
def test_whatever_stands_in_a_field_both_decoders_say_the_same(changed: dict[str, object], left_out: set[str]) -> None:
    fields = {name: value for name, value in (EVENT | changed).items() if name not in left_out}
    assert_alike(json.dumps(fields).encode())
    assert_alike(json.dumps(fields, ensure_ascii=False).encode(errors="surrogatepass"))


@settings(max_examples=80)
@given(st.sampled_from([*GOLDEN, json.dumps(EVENT).encode()]), st.data())
def test_whatever_bytes_are_changed_both_decoders_say_the_same(raw: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw) - 1))
        end = min(len(raw), start + data.draw(st.integers(0, 3)))
        put_in = data.draw(st.binary(max_size=3) | st.sampled_from(PIECES))
        raw = raw[:start] + put_in + raw[end:] or b" "
    assert_alike(raw)


@given(st.lists(st.sampled_from(list(EVENT.items())), min_size=1, max_size=3), st.data())
def test_of_a_field_that_comes_twice_both_say_the_same(twice: list[tuple[str, Any]], data: st.DataObject) -> None:
    changed = [(name, data.draw(st.just(value) | values | odd)) for name, value in twice]
    more = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in changed).encode()
    whole = json.dumps(EVENT).encode()
    assert_alike(b"{" + more + b"," + whole[1:])
    assert_alike(whole[:-1] + b"," + more + b"}")


@pytest.mark.parametrize("number", ["9" * 5000, "1e400", "-0", "1E2", "0.1e-400", f"{10**22}.5", "01", "+1"])
@pytest.mark.parametrize("name", ["seq", "duration_ms", "time", "args", "of_a_later_release"])
def test_of_a_number_of_any_form_both_decoders_say_the_same(name: str, number: str) -> None:
    written = f'{{"n":{number}}}' if name == "args" else number
    assert_alike(orjson.dumps(EVENT)[:-1] + f',"{name}":{written}}}'.encode())


def test_an_event_of_every_field_but_rare_ones_is_read_by_msgspec() -> None:
    assert set(EVENT) == ActionEvent.model_fields.keys() - {"checkpoint", "kept", "secrets_sent"}
    event = native.read(orjson.dumps(EVENT))
    assert event == ActionEvent.model_validate(EVENT)
    assert isinstance(event, ActionEvent)
    assert event.model_copy(update={"seq": 4}).model_dump() == event.model_dump() | {"seq": 4}
    assert native.read(orjson.dumps(EVENT | {"time": "2025-06-15T15:06:40Z"})) == event


def test_without_msgspec_as_an_agent_is_installed_the_model_reads_everything() -> None:
    raw = json.dumps(EVENT).encode()
    script = """
import sys
sys.modules["msgspec"] = None
from haltline.schemas import wire
assert wire.native is None
sys.stdout.buffer.write(wire.decode_event(sys.stdin.buffer.read()).to_json())
"""
    done = subprocess.run([sys.executable, "-c", script], input=raw, capture_output=True, check=True)
    assert done.stdout == decode_event(raw).to_json()
