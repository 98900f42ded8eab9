"""The choice of what a replay reads and compares. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.schemas.topics import Topics
from haltline.streams.replay.record_filter import Filter, chosen
from haltline.streams.replay.records import LogRecord


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is compared; by default all that was decided, in level, code and rule."""

    sessions: frozenset[str] = frozenset()
    """Only these sessions are read and compared. Decisions across sessions, which would need all of them, are not."""
    agents: frozenset[str] = frozenset()
    """Only what was decided about these agents is compared."""
    detectors: frozenset[str] = frozenset()
    """Only what these rules decided is compared."""
    tools: frozenset[str] = frozenset()
    """Only decisions on calls of these tools are compared."""
    where: str | None = None
    """Only decisions on records for which this condition holds are compared."""
    exact: bool = False
    """Whether all fields must be equal."""

    def takes(self, decision: Mapping[str, Any]) -> bool:
        """Return whether a decision is of these sessions, agents and rules."""
        named = (("session_id", self.sessions), ("agent_id", self.agents), ("detector", self.detectors))
        return all(not ids or decision.get(name) in ids for name, ids in named)

    def records(self, topics: Topics) -> Filter | None:
        """Return the filter of records decided on; None: all. Raises ValueError if `where` is no valid condition."""
        return chosen(topics, tools=self.tools, where=self.where) if self.tools or self.where else None

    def leaves_out(self, rule: object) -> bool:
        """Return whether decisions of a rule are left out, because not all sessions are read."""
        return bool(self.sessions) and rule in ACROSS_BY_ID

    def applies(self, record: LogRecord, topics: Topics) -> bool:
        """Return whether a record is read: with `sessions`, only theirs, and no signals."""
        if not self.sessions:
            return True
        return record.topic != topics.signals and (record.key or b"").decode(errors="replace") in self.sessions


ALL: Final = Choice()
