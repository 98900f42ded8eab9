"""A state that a worker had kept and cannot read: the text of its dead letter, and what keeps its bytes."""

from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.streams.sessions.state_cache import SCOPE_KEY

UNKNOWN_OFFSET = -1


def letter_of(key: bytes, partition: int, why: str, *, changelog: str, control: str, now_ms: int) -> DeadLetter:
    """The letter for the bytes, with whose state it was, where it stood, and what to do."""
    whose = key.removeprefix(SCOPE_KEY).decode(errors="replace")
    whose = whose.replace(":", " ", 1) if key.startswith(SCOPE_KEY) else f"session {whose}"
    detail = (
        f"{whose}, partition {partition} of {changelog}: its state cannot be read, and it begins anew: what was "
        f"counted of it is forgotten, what is in force for it in {control} stays. To do: if it has to be stopped and "
        f"does not stand there, kill it (haltline kill); see that only workers may write {changelog} "
        f"(haltline topics acls). {why}"
    )
    return DeadLetter(
        reason=BadRecord.UNREADABLE_STATE,
        detail=detail[:2000],
        topic=changelog,
        partition=partition,
        offset=UNKNOWN_OFFSET,
        timestamp_ms=now_ms,
    )
