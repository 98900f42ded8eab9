"""The format of states before version 2: JSON with the name of each field.

Each key is read once, when a newer release first needs it. Remove this when no such state can be in a changelog.
"""

from typing import Any, Final, TypeVar

import msgspec

from haltline.detectors import ALL
from haltline.detectors.cross_session import ACROSS
from haltline.detectors.features.novelty import template_of
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState

VERSION: Final = 1

_S = TypeVar("_S", SessionState, ScopeState)
_MEMORIES: Final[dict[str, type]] = {d.id: type(d().start()) for d in (*ALL, *ACROSS)}
_CHECKSUMS: Final = ("calls", "exact_calls", "pairs", "results", "beginnings")


def state_of(kind: type[_S], fields: dict[str, Any]) -> _S:
    """Return the state of these fields. Raises ValueError, LookupError, TypeError, AttributeError."""
    fields = fields | {"v": VERSION + 1, "seen": bytes.fromhex(fields.get("seen", ""))}
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
        known = _MEMORIES.get(name)
        state.detectors[name] = memory if known is None else msgspec.convert(memory, known, str_keys=True)
    return state
