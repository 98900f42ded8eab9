"""What is read the quick way is what the model says; what the model refuses is never read the quick way."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.schemas import wire
from haltline.schemas.events import ActionEvent, Kind, Novelty, Outcome, Usage
from haltline.schemas.native import EventFields
from haltline.streams.audit import summary
from haltline.streams.audit.event_columns import ordinary_event
from tests.streams.audit.records import NOW_MS, completed, event

NAMES = set(ActionEvent.model_fields) - {"task", "checkpoint", "secrets_sent"}
FULL: dict[str, Any] = {
    "v": 1, "event_id": "e1", "kind": "action.completed", "session_id": "42", "agent_id": "cleaner",
    "parent_session_id": "41", "root_session_id": "40", "mission_id": "m", "seq": 3, "time": NOW_MS, "call_id": "c",
    "host": "h", "unread_from": 9, "loop_key": "k", "dropped": 2,
    "action": "delete_asset", "args": {"asset_id": "x", "deep": [1, {"a": None}]}, "args_digest": "d",
    "targets": ["asset_id=x"], "effect": "destructive", "outcome": "error", "error": "still there", "duration_ms": 3,
    "output_digest": "o", "output_bytes": 7, "output_head": "h", "await_verdict": False,
    "output_novelty": {"new_words": 2, "words": 9, "results": 4},
    "usage": {"input_tokens": 3, "output_tokens": 4, "cost_usd": 0.25, "cpu_ms": 1, "memory_bytes": 5, "file_ops": 6},
}  # fmt: skip


def read_as(event: ActionEvent | EventFields) -> dict[str, object]:
    columns = {name: getattr(event, name) for name in NAMES} | {"summary": summary.of_event(event)}
    for name, model in (("usage", Usage), ("output_novelty", Novelty)):
        columns[name] = columns[name] and {field: getattr(columns[name], field) for field in model.model_fields}
    return columns


def quickly(raw: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> dict[str, object] | None:
    event = ordinary_event(raw, headers)
    return None if event is None else read_as(event)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(json.dumps(FULL).encode(), id="every field"),
        pytest.param(completed().to_json(), id="what failed"),
        pytest.param(json.dumps({k: v for k, v in FULL.items() if k not in {"usage", "args"}}).encode(), id="few"),
        pytest.param(json.dumps(FULL | {"usage": {}}).encode(), id="no usage"),
        pytest.param(json.dumps(FULL | {"error": "ü€\ud83d\ude00"}).encode(), id="letters beyond ASCII"),
        pytest.param(b'{"seq": 1, "seq": 2,' + json.dumps(FULL).encode()[1:], id="a field twice"),
        *(
            pytest.param(event(kind=kind, outcome=Outcome.OK if kind is Kind.COMPLETED else None).to_json(), id=kind)
            for kind in Kind
        ),
    ],
)
def test_an_ordinary_event_is_read_the_quick_way(raw: bytes) -> None:
    assert quickly(raw) == read_as(wire.decode_event(raw))


@pytest.mark.parametrize("name", ["content-type", "Content-Type", "ce_specversion"])
def test_another_format_is_left_to_the_model(name: str) -> None:
    raw = event().to_json()
    assert quickly(raw, [(name, b"x")]) is None
    assert quickly(raw, [("traceparent", b"x")]) is not None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.text(min_size=1, max_size=600),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
odd = st.sampled_from([0, -1, 2**53, 2**53 + 1, 2**64, 1e15, 1.1e15, 1.0, "1", "", "x" * 256, "x" * 257, "x" * 513])
names = st.sampled_from([*FULL, "task", "checkpoint", "other"])
usage = st.dictionaries(st.sampled_from(["input_tokens", "cost_usd", "cpu_ms", "file_ops", "x"]), values | odd)


@given(st.dictionaries(names, values | odd | usage, max_size=3), st.sets(names, max_size=3))
def test_whatever_stands_in_a_field_it_is_what_the_model_says_or_left_to_it(
    changed: dict[str, object], left_out: set[str]
) -> None:
    fields = {name: value for name, value in (FULL | changed).items() if name not in left_out}
    raw = json.dumps(fields).encode(errors="surrogatepass")
    assert (quick := quickly(raw)) is None or quick == read_as(wire.decode_event(raw))
