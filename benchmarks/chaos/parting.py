"""The first changelog record from which a state differs from that of the pure core."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.chaos.expected import State
from benchmarks.chaos.history import PartitionHistory, Written, state_name
from benchmarks.chaos.verify import UNREADABLE
from haltline.streams.engine.core import Position
from haltline.streams.runtime.changelog import CLAIM_KEY
from haltline.streams.sessions import state_codec


class Parted(NamedTuple):
    """The place where one state in the log differs from the expected one."""

    partition: int
    offset: int
    """The changelog offset of the first record that differs, or of the last one when records are missing."""
    how: str


@dataclass
class _Compared:
    written: Written
    shown: dict[str, Any]
    differs: bool | None = None
    """None: the core has not processed this place."""


class Parting:
    """Compares each record of some states with the core's state at the same source offset."""

    def __init__(
        self,
        changelog: Iterable[PartitionHistory],
        names: Collection[str],
        read: Callable[[bytes, bytes], dict[str, Any]],
        comparable: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._comparable = comparable
        self._of: dict[str, list[_Compared]] = {}
        self._at: dict[tuple[str, str, int], list[_Compared]] = {}
        for history in changelog:
            for written in history.written:
                record = written.record
                name = _name(record.key)
                if record.key is None or record.value is None or name not in names:
                    continue
                shown = read(record.key, record.value)
                compared = _Compared(written, shown, differs=True if UNREADABLE in shown else None)
                self._of.setdefault(name, []).append(compared)
                for topic, offset in shown.get("offsets", {}).items():
                    self._at.setdefault((name, topic, offset), []).append(compared)

    def observe(self, name: str, at: Position, state: State) -> None:
        """Compare with the core's state after a record. A recreated topic has two records at one place."""
        records = [one for one in self._at.get((name, at.topic, at.offset), ()) if one.differs is not False]
        expected = self._content(state_codec.shown(state)) if records else {}
        for compared in records:
            compared.differs = self._content(compared.shown) != expected

    def first(self, name: str) -> Parted | None:
        """Return where a state first differs; None when the changelog has no record of it."""
        records = self._of.get(name)
        if not records:
            return None
        wrong = next((one for one in records if one.differs and one.written.counts), None)
        if wrong is not None:
            return _parted(wrong, "differs from here on")
        last = max((number for number, one in enumerate(records) if one.written.counts), default=-1)
        if last + 1 < len(records):
            return _parted(records[last + 1], "late from here on: does not count")
        return _parted(records[-1], "nothing behind it")

    def _content(self, state: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in self._comparable(state).items() if key != "offsets"}


def _parted(one: _Compared, how: str) -> Parted:
    return Parted(one.written.record.partition, one.written.record.offset, how)


def _name(key: bytes | None) -> str:
    """Return the name of a state's key; empty for other keys."""
    return state_name(key) if key is not None and not key.startswith(CLAIM_KEY) else ""
