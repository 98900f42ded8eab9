"""Parsing of records of the control topic."""

import logging
from typing import Final

from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import EARLIEST_MS

log: Final = logging.getLogger("haltline.agent")


def control_record(key: str, value: bytes) -> ControlRecord | None:
    """Return the entry; an unreadable one (of a newer version?) counts as frozen, the safer choice."""
    try:
        return wire.decode(ControlRecord, value)
    except wire.InvalidRecord as bad:
        entry = frozen(key, "control_entry_unreadable", str(bad))
        if entry is not None:
            log.warning("haltline: the control entry %s cannot be read, and holds as frozen: %s", key, bad)
        return entry


def frozen(key: str, code: str, why: str) -> ControlRecord | None:
    """Return a frozen entry in place of an untrusted one; None: the key is invalid."""
    scope, _, scope_id = key.partition(":")
    if scope not in set(ScopeKind) or not scope_id:
        return None
    return ControlRecord(
        scope=ScopeKind(scope),
        id=scope_id,
        state=ControlState.FROZEN,
        code=code,
        reason=why,
        decision_id=f"{code} {key}",
        since=EARLIEST_MS,
    )
