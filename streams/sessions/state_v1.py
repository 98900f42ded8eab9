"""States as releases before version 2 wrote them: JSON with the name of each field.

Read once for each key, the first time that a newer release needs it. Goes when no such state can be in a changelog.
"""

from functools import cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from haltline.detectors import ALL
from haltline.detectors.cross_session import ACROSS
from haltline.detectors.features.novelty import template_of
from haltline.streams.engine.core import SessionState
from haltline.streams.engine.cross_session import ScopeState

VERSION: Final = 1

_S = TypeVar("_S", SessionState, ScopeState)
_CHECKSUMS: Final = ("calls", "exact_calls", "pairs", "results", "beginnings")


def state_of(kind: type[_S], fields: dict[str, Any]) -> _S:
    """The state of these fields. Raises ValidationError, ValueError, LookupError, TypeError, AttributeError."""
    fields = fields | {"v": VERSION + 1, "seen": bytes.fromhex(fields.get("seen", ""))}
    novelty = fields.get("calls", {}).get("novelty")
    if novelty is not None:
        for name in _CHECKSUMS:
            numbers = novelty.get(name, [])
            novelty[name] = b"".join(int(number).to_bytes(4, "little") for number in numbers)
        novelty["words"] = " ".join(novelty.get("words", ()))
        templates = novelty.get("templates", {})
        novelty["templates"] = {int(line): template_of(*parts) for line, parts in templates.items()}
    adapters, memories = _adapters()
    state: _S = adapters[kind].validate_python(fields)
    for name, memory in state.detectors.items():
        if name in memories:
            state.detectors[name] = memories[name].validate_python(memory)
    return state


@cache
def _adapters() -> tuple[dict[type, TypeAdapter[Any]], dict[str, TypeAdapter[Any]]]:
    """Of whole states, and of the memories of detectors by their ids; made when the first such state comes."""
    memories = {d.id: TypeAdapter(type(d().start())) for d in (*ALL, *ACROSS)}
    return {kind: TypeAdapter(kind) for kind in (SessionState, ScopeState)}, memories
