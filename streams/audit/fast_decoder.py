"""An ordinary action event, without making a model of it: in a fifth of the time. Pure.

What is not ordinary (a task, a checkpoint, a field that no release knows, a number where it is a text, another format)
is left to `haltline.schemas.wire`. So this may say no to a good record, and must never say yes to one that `wire`
refuses, nor give another value than the model would; `tests/streams/audit/test_fast_decoder.py` holds one against
the other.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from haltline.schemas.record import EARLIEST_MS, LATEST_MS
from haltline.schemas.wire import MAX_EVENT_BYTES

# The same bounds as of `haltline.schemas.events`.
_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_Name = Annotated[str, Meta(max_length=512)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Amount = Annotated[float, Meta(ge=0, le=1e15)]


class _Usage(Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_read_tokens: _Count = 0
    cost_usd: _Amount = 0.0
    memory_bytes: _Count = 0
    cpu_ms: _Amount = 0.0
    file_ops: _Count = 0


class OrdinaryEvent(Struct, forbid_unknown_fields=True, gc=False):
    """What an event says, but for a task and a checkpoint: its fields are those of `ActionEvent`."""

    event_id: _Id
    kind: Literal[
        "session.started", "action.proposed", "action.completed", "model.turn", "session.heartbeat", "session.ended"
    ]
    session_id: _Id
    time: Annotated[int, Meta(ge=EARLIEST_MS, lt=LATEST_MS)]
    v: Literal[1] = 1
    agent_id: _Id = "unknown"
    parent_session_id: _Id | None = None
    root_session_id: _Id | None = None
    mission_id: _Id | None = None
    host: _Id | None = None
    seq: _Count | None = None
    call_id: _Id | None = None
    action: _Name = ""
    args: dict[str, Any] | None = None
    args_digest: _Name | None = None
    unread_from: _Count | None = None
    targets: Annotated[list[_Name], Meta(max_length=1000)] = []
    effect: Literal["read", "poll", "write", "network", "exec", "mutate", "destructive"] | None = None
    loop_key: _Name | None = None
    outcome: Literal["ok", "error", "timeout", "refused", "unknown"] | None = None
    error: str | None = None
    duration_ms: _Amount | None = None
    output_digest: _Name | None = None
    output_bytes: _Count | None = None
    output_head: str | None = None
    usage: _Usage | None = None
    dropped: _Count | None = None
    await_verdict: bool = False
    task: None = None


_decode: Final = Decoder(OrdinaryEvent).decode
_BRACKETS: Final = 100  # pydantic gives up at a depth of 200
_FLAT: Final = frozenset((str, int, float, bool, type(None)))
_OF_OTHER_FORMATS: Final = frozenset(("content-type", "ce_specversion"))


def ordinary_event(value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> OrdinaryEvent | None:
    """An event as the model would say it, or None when it has to be read in full."""
    if not value or len(value) > MAX_EVENT_BYTES:
        return None
    if headers and any(name.lower() in _OF_OTHER_FORMATS for name, _ in headers):
        return None
    try:
        event = _decode(value)
    except (DecodeError, UnicodeDecodeError):  # not what is ordinary, or nothing that can be read
        return None
    deep = event.args and not _FLAT.issuperset(map(type, event.args.values()))
    return None if deep and value.count(b"[") + value.count(b"{") > _BRACKETS else event
