"""The state of a session, or of an agent, target or tree, as bytes, and back.

The version says who wrote it; golden states in the tests keep it readable.
"""

from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from haltline.detectors import ALL
from haltline.detectors.across import ACROSS
from haltline.streams.across import ScopeState
from haltline.streams.core import SessionState

VERSION = 1

State = SessionState | ScopeState

_S = TypeVar("_S", SessionState, ScopeState)
_SESSION = TypeAdapter(SessionState)
_SCOPE = TypeAdapter(ScopeState)
_MEMORIES: dict[str, TypeAdapter[Any]] = {d.id: TypeAdapter(type(d().start())) for d in (*ALL, *ACROSS)}


class CorruptState(Exception):
    """Bytes in the changelog that are not a state of a version that is known."""


class UnreadableState(CorruptState):
    """Bytes that no release has written under their key: damage to one record, and no fault of this release."""


def encode(state: State) -> bytes:
    """The state as JSON."""
    return orjson.dumps(state)


def decode(data: bytes) -> SessionState:
    """The state that `encode` wrote, of this release or an older one.

    What a detector that is no longer there has left is kept as it is, for the release that knows it.

    Raises:
        UnreadableState: it is something else; says what.
        CorruptState: another release wrote it; says which version.

    """
    return _decode(_SESSION, data)


def decode_scope(data: bytes) -> ScopeState:
    """As `decode`, of what is not one session's.

    Raises:
        UnreadableState, CorruptState: as `decode`.

    """
    return _decode(_SCOPE, data)


def _decode(adapter: TypeAdapter[_S], data: bytes) -> _S:
    try:
        fields = orjson.loads(data)
        version = fields.get("v")
        if version != VERSION:
            said = f"state version: expected {VERSION}, got {version!r} in {data[:80]!r}"
            raise CorruptState(said) if type(version) is int else UnreadableState(said)
        state = adapter.validate_python(fields)
        if isinstance(state, SessionState):
            state.__dict__ = {"due_ms": state.due_ms, **vars(state)}  # is written in this order; see `streams.due`
        for detector_id in state.detectors:
            memory = _MEMORIES.get(detector_id)
            if memory is not None:
                state.detectors[detector_id] = memory.validate_python(state.detectors[detector_id])
    except (orjson.JSONDecodeError, ValidationError, AttributeError) as error:
        raise UnreadableState(f"expected a state, got {data[:80]!r}: {error}") from error
    return state
