"""The detectors' memories in a state: one that was read stays encoded until its detector needs it."""

from contextlib import suppress
from typing import Any, Final

from msgspec import MsgspecError, Raw, msgpack

from haltline.detectors import ALL
from haltline.detectors.cross_session import ACROSS

_DECODE: Final[dict[str, Any]] = {d.id: msgpack.Decoder(type(d().start())).decode for d in (*ALL, *ACROSS)}
"""By built-in detector, whose memories have classes. Other packages' detectors read plain values."""
_decode_any: Final = msgpack.Decoder().decode


def opened(memories: dict[str, Any], name: str) -> Any:
    """Return the memory of this detector, decoded; None if it has none.

    Raises:
        msgspec.MsgspecError: it has another shape. It is removed, so that the detector starts again.

    """
    try:
        return _decoded(memories, name)
    except MsgspecError:
        del memories[name]
        raise


def looked_at(memories: dict[str, Any], name: str) -> Any:
    """Return the memory like `opened`; None if it has another shape, which is left for `opened` to report."""
    with suppress(MsgspecError):
        return _decoded(memories, name)


def _decoded(memories: dict[str, Any], name: str) -> Any:
    memory = memories.get(name)
    if type(memory) is Raw:
        memory = memories[name] = _DECODE.get(name, _decode_any)(memory)
    return memory
