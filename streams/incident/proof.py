"""The part of the audit's hash chains that covers one session, and its check without the table. Pure.

Rows of other sessions in between are digests only: they do not reveal their content, and a changed, removed or added
row would still change the hash at the next signed statement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from haltline.streams.audit.chain import ERASED, Head, chain_hash, head_before, record_digest
from haltline.streams.audit.signing import is_genuine

Json = dict[str, Any]

LINK: Final = ("sink", "topic", "partition", "offset", "prev_offset", "record_digest", "chain_hash", "kind")
"""The kept columns of each row of a chain."""


@dataclass(slots=True)
class Proved:
    """The result of a check: counts and problems."""

    records: int = 0
    """The session's records that match their digests."""
    links: int = 0
    signed: int = 0
    """Signed statements that cover these chains, checked with the public key."""
    unsigned: int = 0
    """Records after which no statement was signed, or whose signature was not checked because there is no key."""
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def prove(
    links: Sequence[Mapping[str, Any]],
    checkpoints: Iterable[Mapping[str, Any]],
    rows: Iterable[Mapping[str, Any]],
    key: Ed25519PublicKey | None = None,
) -> Proved:
    """Check chains, the session's own records in them, and the statements over them.

    `links` are parts of chains, each in offset order, from the row before the session's first one on, unless that is
    the first of its partition; `rows` are the session's records as rows of the audit.
    """
    found = Proved(links=len(links))
    by_place: dict[tuple[str, int], dict[int, Mapping[str, Any]]] = {}
    before: Mapping[str, Any] | None = None
    for link in links:
        place = (link["topic"], link["partition"])
        if place in by_place and (before is None or (before["topic"], before["partition"]) != place):
            found.problems.append(f"{_name(link)}: its partition has a second chain")
        by_place.setdefault(place, {})[link["offset"]] = link
        _follows(link, before, found.problems)
        before = link
    anchors = {place: next(iter(part.values())) for place, part in by_place.items()}
    seen: set[tuple[str, int, int]] = set()
    ends = _signed(checkpoints, by_place, key, found)
    for row in rows:
        found.records += 1
        place = (row["topic"], row["partition"])
        here = by_place.get(place, {}).get(row["offset"])
        if (*place, row["offset"]) in seen:
            found.problems.append(f"{_name(row)}: it comes twice")
        seen.add((*place, row["offset"]))
        if here is None:
            found.problems.append(f"{_name(row)}: it is in no chain")
        elif here is anchors[place] and here["prev_offset"] is not None:
            found.problems.append(f"{_name(row)}: expected the hash before it, got none: nothing proves it")
        elif here["kind"] == ERASED:
            found.problems.append(f"{_name(row)}: its content was erased, and here it is")
        elif record_digest(row) != here["record_digest"]:
            found.problems.append(f"{_name(row)}: it is not the record that was written to the audit")
        if row["offset"] > ends.get(place, -1):
            found.unsigned += 1
    return found


def _follows(link: Mapping[str, Any], before: Mapping[str, Any] | None, problems: list[str]) -> None:
    same = before is not None and (before["topic"], before["partition"]) == (link["topic"], link["partition"])
    if not same or before is None:
        # The first is the row before the session's, of which only the hash counts; or there is no earlier row.
        if link["prev_offset"] is None and chain_hash(link, link["record_digest"], None) != link["chain_hash"]:
            problems.append(f"{_name(link)}: its hash does not follow from it, and it says that it is the first")
        return
    head = head_before(link, Head(before["offset"], before["chain_hash"]), before["kind"])
    if link["prev_offset"] != head.offset:
        problems.append(f"{_name(link)}: rows between offset {head.offset} and it were removed or added")
    elif chain_hash(link, link["record_digest"], head) != link["chain_hash"]:
        problems.append(f"{_name(link)}: its hash does not follow from it and the row before it")


def _signed(
    checkpoints: Iterable[Mapping[str, Any]],
    by_place: Mapping[tuple[str, int], Mapping[int, Mapping[str, Any]]],
    key: Ed25519PublicKey | None,
    found: Proved,
) -> dict[tuple[str, int], int]:
    """Return the last offset covered by a statement, by partition."""
    ends: dict[tuple[str, int], int] = {}
    for checkpoint in checkpoints:
        place = (str(checkpoint["topic"]), int(checkpoint["partition"]))
        name = f"{place[0]}[{place[1]}] at offset {checkpoint['offset']}"
        here = by_place.get(place, {}).get(int(checkpoint["offset"]))
        if here is None or here["chain_hash"] != checkpoint["chain_hash"]:
            found.problems.append(f"{name}: a statement was signed of another hash")
        elif key is not None:
            if is_genuine(checkpoint, key):
                found.signed += 1
                ends[place] = max(ends.get(place, -1), int(checkpoint["offset"]))
            else:
                found.problems.append(f"{name}: a statement was not signed with this key")
    return ends


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}[{row['partition']}] at offset {row['offset']}"
