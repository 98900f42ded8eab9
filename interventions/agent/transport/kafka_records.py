"""What the records of the control topic are read as."""

import logging
from typing import Final

from haltline.schemas import wire
from haltline.schemas.control import ControlRecord, ControlState
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import EARLIEST_MS

log: Final = logging.getLogger("haltline.agent")


def control_record(key: str, value: bytes) -> ControlRecord | None:
    """The entry; one that cannot be read (of a newer version?) holds as frozen: better a call too few than too many."""
    try:
        return wire.decode(ControlRecord, value)
    except wire.InvalidRecord as bad:
        entry = frozen(key, "control_entry_unreadable", str(bad))
        if entry is not None:
            log.warning("haltline: the control entry %s cannot be read, and holds as frozen: %s", key, bad)
        return entry


def frozen(key: str, code: str, why: str) -> ControlRecord | None:
    """An entry of ours in place of one that cannot be trusted; None: the key names nothing."""
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
