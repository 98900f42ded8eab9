"""The codec of states: of a session, or of an agent, target or tree, to and from bytes.

The version names the format; golden states in the tests keep it readable. A state is MessagePack with field names,
compressed by Zstandard with the names in `state_v2.dict`. Version 3, which is written, is this after `_HEAD`; version
2, which is read, is JSON with this in base64: `{"due_ms":0,"v":2,"state":"..."}`. `shown` decodes a state for people.

Which fields can change, and how, is in `schemas/stored.py`.
"""

import struct
import threading
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec
import orjson
import zstandard

from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.memories import looked_at

VERSION: Final = 3
"""The version that is written."""
_BEFORE: Final = 2
"""JSON. Remove what reads it when no such state can be in a changelog."""

State = SessionState | ScopeState

_S = TypeVar("_S", SessionState, ScopeState)
_LEVEL: Final = 1
"""Takes 7 % fewer bytes than -1, and 5 to 20 % more time."""
_MAX_BYTES: Final = 4 * 1024 * 1024
"""The size limit of a state before compression."""
_DAMAGE: Final = (
    orjson.JSONDecodeError,
    msgspec.MsgspecError,
    zstandard.ZstdError,
    AttributeError,
    LookupError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
)
_DICTIONARY: Final = files("haltline.streams.sessions").joinpath("state_v2.dict").read_bytes()


class CorruptState(Exception):
    """Bytes in the changelog are not a state of a known version."""


class UnreadableState(CorruptState):
    """Bytes that no release can have written under their key: a damaged record, not an error of this release."""


class _Zstandard(threading.local):
    """The compressors of each thread: they are not safe for concurrent use."""

    def __init__(self) -> None:
        names = self._names()
        names.precompute_compress(level=_LEVEL)
        self.compress = zstandard.ZstdCompressor(_LEVEL, dict_data=names, write_checksum=True).compress
        self.decompress = zstandard.ZstdDecompressor(dict_data=self._names()).decompress

    @staticmethod
    def _names() -> zstandard.ZstdCompressionDict:
        return zstandard.ZstdCompressionDict(_DICTIONARY, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


_zstandard: Final = _Zstandard()
_pack: Final = msgspec.msgpack.Encoder().encode
_UNPACK: Final[dict[type, Any]] = {kind: msgspec.msgpack.Decoder(kind).decode for kind in (SessionState, ScopeState)}
_unpack_any: Final = msgspec.msgpack.Decoder().decode


class _Json(msgspec.Struct):
    """A state of version 2. `due_ms` is first: see `due_of`."""

    due_ms: int
    v: int
    state: bytes
    """MessagePack, compressed; in base64, as all bytes in JSON."""


_MARK: Final = b'{"due_ms":'
_MAX_DIGITS: Final = 20
_MAGIC: Final = b"\0hs"
"""No JSON begins so, and hardly ever a damaged record."""
_HEAD: Final = struct.Struct(">3sBQ")
"""What is before a compressed state: `_MAGIC`, the version, and `due_ms`."""
_DUE_AT: Final = 4
_of_json: Final = msgspec.json.Decoder(_Json).decode


def encode(state: State) -> bytes:
    """Return the bytes of the state.

    Raises:
        TypeError: it contains what cannot be encoded, or is too large.

    """
    try:
        packed = _pack(state)
    except (ValueError, OverflowError, RecursionError) as error:
        raise TypeError(str(error)) from error
    if len(packed) > _MAX_BYTES:
        raise TypeError(f"expected a state of at most {_MAX_BYTES} bytes, got one of {len(packed)}")
    due_ms = state.due_ms if isinstance(state, SessionState) else 0
    return _HEAD.pack(_MAGIC, VERSION, due_ms) + _zstandard.compress(packed)


def due_of(data: bytes) -> int:
    """Return when an encoded state is due, without decoding it; 0: never, also for invalid bytes."""
    if data.startswith(_MAGIC):
        return int.from_bytes(data[_DUE_AT : _HEAD.size], "big")
    if not data.startswith(_MARK):
        return 0
    digits, comma, _ = data[len(_MARK) : len(_MARK) + _MAX_DIGITS].partition(b",")
    return int(digits) if comma and digits.isdigit() else 0


def decode(data: bytes) -> SessionState:
    """Return the state that `encode` of this release or the one before wrote.

    Detectors' memories stay encoded until they are needed (`memories.opened`): that of a detector that no longer exists
    is kept unchanged, for a release that has it.

    Raises:
        UnreadableState: the bytes are something else; says what.
        CorruptState: another release wrote it; says which version.

    """
    return _decode(SessionState, data)


def decode_scope(data: bytes) -> ScopeState:
    """Return the state of a scope above sessions, like `decode`.

    Raises:
        UnreadableState, CorruptState: as for `decode`.

    """
    return _decode(ScopeState, data)


def shown(state: State) -> dict[str, Any]:
    """Return a state's content by stored names, for people and comparisons; bytes are in hexadecimal."""
    for name in state.detectors:
        looked_at(state.detectors, name)  # with its defaults, which are not written
    document: dict[str, Any] = orjson.loads(orjson.dumps(state, default=_plain, option=orjson.OPT_NON_STR_KEYS))
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return _unpack_any(value)
    if isinstance(value, bytes):
        return value.hex()
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    return {stored: getattr(value, name) for stored, name in names}


def _decode(kind: type[_S], data: bytes) -> _S:
    try:
        if data.startswith(_MAGIC):
            _, version, _ = _HEAD.unpack_from(data)
            if version == VERSION:
                return _unpacked(kind, data[_HEAD.size :])
            raise CorruptState(_unknown(version, data))
        try:
            written = _of_json(data)
        except msgspec.ValidationError:
            pass  # JSON of another version, or no JSON
        else:
            if written.v == _BEFORE:
                return _unpacked(kind, written.state)
        version = orjson.loads(data).get("v")
        problem = _unknown(version, data)
        raise CorruptState(problem) if type(version) is int and version != _BEFORE else UnreadableState(problem)
    except _DAMAGE as error:
        raise UnreadableState(f"expected a state, got {data[:80]!r}: {error}") from error


def _unknown(version: object, data: bytes) -> str:
    return f"state version: expected {_BEFORE} or {VERSION}, got {version!r} in {data[:80]!r}"


def _unpacked(kind: type[_S], packed: bytes) -> _S:
    if not 0 < (size := zstandard.frame_content_size(packed)) <= _MAX_BYTES:
        raise ValueError(f"expected a compressed state of at most {_MAX_BYTES} bytes, got one of {size}")
    state: _S = _UNPACK[kind](_zstandard.decompress(packed))
    for name, memory in state.detectors.items():
        state.detectors[name] = memory.copy()  # otherwise the whole of `packed` would stay in memory
    if isinstance(state, SessionState):
        once = state.calls.recall.once
        for name, entry in once.items():
            once[name] = entry.copy()
    return state
