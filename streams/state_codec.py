"""A session's state as bytes, and back. The version says who wrote it; golden states in the tests keep it readable."""

from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from haltline.detectors import ALL
from haltline.streams.core import SessionState

VERSION = 1

_STATE = TypeAdapter(SessionState)
_DETECTOR_STATES: dict[str, TypeAdapter[Any]] = {d.id: TypeAdapter(type(d().start())) for d in ALL}


class CorruptState(Exception):
    """Bytes in the changelog that are not a session's state of a version that is known."""


def encode(state: SessionState) -> bytes:
    """The state as JSON."""
    return orjson.dumps(state)


def decode(data: bytes) -> SessionState:
    """The state that `encode` wrote, of this release or an older one.

    What a detector that is no longer there has left is kept as it is, for the release that knows it.

    Raises:
        CorruptState: it is something else; says what.

    """
    try:
        fields = orjson.loads(data)
        if fields.get("v") != VERSION:
            raise CorruptState(f"state version: wanted {VERSION}, got {fields.get('v')!r} in {data[:80]!r}")
        state = _STATE.validate_python(fields)
        for detector_id, adapter in _DETECTOR_STATES.items():
            if detector_id in state.detectors:
                state.detectors[detector_id] = adapter.validate_python(state.detectors[detector_id])
    except (orjson.JSONDecodeError, ValidationError, AttributeError) as error:
        raise CorruptState(f"wanted a session's state, got {data[:80]!r}: {error}") from error
    return state
