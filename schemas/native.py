"""A fast reader of ordinary events of the `actions` topic, by msgspec.

What msgspec refuses, and what it could read differently (an unknown field, a number in quotes, a checkpoint, deep
nesting), is left to pydantic, so that every error text and every conversion is that of `ActionEvent`. This reader may
reject a good record. It never accepts one that the model rejects, and never gives another value:
`tests/schemas/test_native.py` compares both.

Needs msgspec, which only the processor's installation has: agents read no events.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder
from msgspec.structs import asdict

from haltline.schemas.events import ActionEvent, Effect, Kind, Novelty, Outcome, Task, Usage
from haltline.schemas.record import EARLIEST_MS, LATEST_MS, JsonObject, epoch_ms, trusting

_MAX_BRACKETS: Final = 150
"""With fewer brackets, nothing is nested too deeply: pydantic reads 200 levels, msgspec as many as Python's stack
allows."""

# The same bounds as in `haltline.schemas.events`.
_Id = Annotated[str, Meta(min_length=1, max_length=256)]
_Name = Annotated[str, Meta(max_length=512)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Amount = Annotated[float, Meta(ge=0, le=1e15)]


class UsageFields(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The fields of `Usage`, in its order and with its defaults."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_read_tokens: _Count = 0
    cost_usd: _Amount = 0.0
    memory_bytes: _Count = 0
    cpu_ms: _Amount = 0
    file_ops: _Count = 0


class NoveltyFields(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The fields of `Novelty`."""

    new_words: _Count
    words: _Count
    results: _Count
    operands: _Count | None = None
    given: _Count | None = None
    counted: _Count | None = None


class TaskFields(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The fields of `Task`."""

    goal: Annotated[str, Meta(max_length=16_384)] = ""
    expected_paths: Annotated[list[_Name], Meta(max_length=1000)] = []
    limits: Annotated[dict[_Name, float], Meta(max_length=100)] = {}
    prompts: _Count | None = None


class EventFields(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The fields of `ActionEvent`."""

    v: Literal[1] = 1
    event_id: _Id
    kind: Kind
    session_id: _Id
    agent_id: _Id = "unknown"
    parent_session_id: _Id | None = None
    root_session_id: _Id | None = None
    mission_id: _Id | None = None
    host: _Id | None = None
    seq: _Count | None = None
    time: Annotated[int, Meta(ge=EARLIEST_MS, lt=LATEST_MS)] | str
    call_id: _Id | None = None
    action: _Name = ""
    args: dict[str, Any] | None = None
    args_digest: _Name | None = None
    unread_from: _Count | None = None
    targets: Annotated[list[_Name], Meta(max_length=1000)] = []
    effect: Effect | None = None
    loop_key: _Name | None = None
    outcome: Outcome | None = None
    error: str | None = None
    duration_ms: _Amount | None = None
    output_digest: _Name | None = None
    output_bytes: _Count | None = None
    output_head: str | None = None
    output_novelty: NoveltyFields | None = None
    output_repeats: _Count | None = None
    secrets_sent: None = None
    kept: None = None
    usage: UsageFields | None = None
    task: TaskFields | None = None
    checkpoint: None = None
    dropped: _Count | None = None
    await_verdict: bool = False


_decode: Final = Decoder(EventFields).decode
_event, _usage, _task, _novelty = trusting(ActionEvent), trusting(Usage), trusting(Task), trusting(Novelty)


def fields_of(value: bytes) -> EventFields | None:
    """Decode the fields, as in the model except that the time may be a text; None: the model has to read them."""
    try:
        document = _decode(value)
    except (DecodeError, ValueError, RecursionError):  # ValueError: text that is not UTF-8
        return None
    args = document.args
    return None if args is not None and _may_be_deep(args, value) else document


def fields_of_each(values: Sequence[bytes]) -> list[EventFields | None]:
    """Decode the fields of many events, like `fields_of`, in less time."""
    found: list[EventFields | None] = []
    decoded = map(_decode, values)
    while len(found) < len(values):
        try:
            found.extend(decoded)
        except (DecodeError, ValueError, RecursionError):  # of one; those before it are in the list
            found.append(None)
    return [
        None if event is not None and event.args and _may_be_deep(event.args, value) else event
        for event, value in zip(found, values, strict=True)
    ]


def read(value: bytes) -> ActionEvent | None:
    """Decode the event, equal to the model's result; None: the model has to read it.

    Every field counts as set, as in events from agents.
    """
    document = fields_of(value)
    if document is None:
        return None
    fields = asdict(document)
    if type(document.time) is str:
        try:
            fields["time"] = epoch_ms(document.time)
        except ValueError:  # not a time
            return None
    if document.usage is not None:
        fields["usage"] = _usage(asdict(document.usage))
    if document.output_novelty is not None:
        fields["output_novelty"] = _novelty(asdict(document.output_novelty))
    if document.task is not None:
        fields["task"] = _task(asdict(document.task))
    return _event(fields)


def _may_be_deep(args: JsonObject, value: bytes) -> bool:
    """Return whether arguments may exceed the model's nesting limit. No other field can be nested."""
    for arg in args.values():
        if type(arg) is dict or type(arg) is list:
            return value.count(b"[") + value.count(b"{") > _MAX_BRACKETS
    return False
