"""The codec of states: of a session, or of an agent, target or tree, to and from bytes.

The version names the format; golden states in the tests keep it readable. The bytes are JSON, so that an older release
recognizes another version: `{"due_ms":0,"v":2,"state":"..."}`, where `state` is MessagePack with field names,
compressed by Zstandard with the names in `state_v2.dict`, in base64. `shown` decodes it for people.

A field with its default value is not written (`omit_defaults`), so a default never changes.
"""

import threading
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec
import orjson
import zstandard

from haltline.detectors.features.novelty import template_of
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState
from haltline.streams.engine.memories import KINDS, looked_at

VERSION: Final = 2
_VERSION_1: Final = 1
"""JSON with the name of each field. Remove `_of_version_1` when no such state can be in a changelog."""

State = SessionState | ScopeState

_S = TypeVar("_S", SessionState, ScopeState)
_LEVEL: Final = -1
"""Level 1 takes a tenth fewer bytes, and twice the time."""
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
)
_DICTIONARY: Final = files("haltline.streams.sessions").joinpath("state_v2.dict").read_bytes()


class CorruptState(Exception):
    """Bytes in the changelog are not a state of a known version."""


class UnreadableState(CorruptState):
    """Bytes that no release can have written under their key: a damaged record, not an error of this release."""


class _Zstandard(threading.local):
    """The compressor of each thread: it is not safe for concurrent use."""

    def __init__(self) -> None:
        names = zstandard.ZstdCompressionDict(_DICTIONARY, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        names.precompute_compress(level=_LEVEL)
        self.compress = zstandard.ZstdCompressor(_LEVEL, dict_data=names, write_checksum=True).compress
        self.decompress = zstandard.ZstdDecompressor(dict_data=names).decompress


_zstandard: Final = _Zstandard()
_pack: Final = msgspec.msgpack.Encoder().encode
_UNPACK: Final[dict[type, Any]] = {kind: msgspec.msgpack.Decoder(kind).decode for kind in (SessionState, ScopeState)}
_CHECKSUMS: Final = ("calls", "exact_calls", "pairs", "results", "beginnings")
_unpack_any: Final = msgspec.msgpack.Decoder().decode


class _Written(msgspec.Struct):
    """A state as JSON. `due_ms` is first: see `timers`."""

    due_ms: int
    v: int
    state: bytes
    """MessagePack, compressed; in base64, as all bytes in JSON."""


_to_json: Final = msgspec.json.Encoder().encode
_of_json: Final = msgspec.json.Decoder(_Written).decode


def encode(state: State) -> bytes:
    """Return the state as JSON of this version.

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
    return _to_json(_Written(due_ms, VERSION, _zstandard.compress(packed)))


def decode(data: bytes) -> SessionState:
    """Return the state that `encode` of this release or an older one wrote.

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
    """Return a state's content by field names, for people and comparisons; bytes are in hexadecimal."""
    for name in state.detectors:
        looked_at(state.detectors, name)  # with its defaults, which are not written
    document: dict[str, Any] = orjson.loads(orjson.dumps(state, default=_plain, option=orjson.OPT_NON_STR_KEYS))
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return _unpack_any(value)
    return value.hex() if isinstance(value, bytes) else msgspec.structs.asdict(value)


def _decode(kind: type[_S], data: bytes) -> _S:
    try:
        try:
            written = _of_json(data)
        except msgspec.ValidationError:
            pass  # JSON of another version, or no JSON
        else:
            if written.v == VERSION:
                return _unpacked(kind, written.state)
        fields = orjson.loads(data)
        version = fields.get("v")
        if version == _VERSION_1:
            return _of_version_1(kind, fields)
        problem = f"state version: expected {VERSION} or less, got {version!r} in {data[:80]!r}"
        raise CorruptState(problem) if type(version) is int and version != VERSION else UnreadableState(problem)
    except _DAMAGE as error:
        raise UnreadableState(f"expected a state, got {data[:80]!r}: {error}") from error


def _unpacked(kind: type[_S], packed: bytes) -> _S:
    if not 0 < (size := zstandard.frame_content_size(packed)) <= _MAX_BYTES:
        raise ValueError(f"expected a compressed state of at most {_MAX_BYTES} bytes, got one of {size}")
    state: _S = _UNPACK[kind](_zstandard.decompress(packed))
    for name, memory in state.detectors.items():
        state.detectors[name] = memory.copy()  # otherwise the whole of `packed` would stay in memory
    return state


def _of_version_1(kind: type[_S], fields: dict[str, Any]) -> _S:
    """Return the state of these fields. Each key is read once, when a newer release first needs it."""
    fields = fields | {"v": VERSION, "seen": bytes.fromhex(fields.get("seen", ""))}
    novelty = fields.get("calls", {}).get("novelty")
    if novelty is not None:
        for name in _CHECKSUMS:
            numbers = novelty.get(name, [])
            novelty[name] = b"".join(int(number).to_bytes(4, "little") for number in numbers)
        novelty["words"] = " ".join(novelty.get("words", ()))
        templates = novelty.get("templates", {})
        novelty["templates"] = {int(line): template_of(*parts) for line, parts in templates.items()}
    memories = fields.pop("detectors", {})
    state: _S = msgspec.convert(fields, kind, str_keys=True)
    for name, memory in memories.items():
        known = KINDS.get(name)
        state.detectors[name] = memory if known is None else msgspec.convert(memory, known, str_keys=True)
    return state
