"""A record of the changelog that cannot be read, of a session that is there for it alone."""

from collections.abc import Iterable
from typing import Final

import orjson

from benchmarks.chaos.expected import LogRecord
from benchmarks.chaos.verify import Check
from haltline.schemas.dead_letter import BadRecord, DeadLetter
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed

SESSION: Final = "damaged"
"""Its own, and its agent's: what becomes of it depends on when it is struck, and is looked at apart."""

_BYTES: Final = b'{"v":1,"session_id":"damaged","events":\xff'


class Damage:
    """Strikes that session again and again; each strike has bytes of its own."""

    def __init__(self, bootstrap: str, topics: Topics, changelog: str) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._changelog = changelog
        self._time_ms = 1_750_000_000_000
        self.struck: list[bytes] = []

    def strike(self) -> None:
        """Writes a record that nobody can read: its owner ends, for somebody else wrote, and finds it when back."""
        damage = _BYTES + b"%d" % len(self.struck)
        produce_confirmed(self._bootstrap, self._changelog, key=SESSION.encode(), value=damage)
        self.struck.append(damage)

    def act(self) -> None:
        """One event of the session, for which its state is read."""
        self._time_ms += 1000
        event = {
            "event_id": f"damaged-{self._time_ms}", "session_id": SESSION, "agent_id": SESSION, "time": self._time_ms,
            "kind": "action.proposed", "call_id": f"c{self._time_ms}", "action": "get_asset",
        }  # fmt: skip
        produce_confirmed(self._bootstrap, self._topics.actions, key=SESSION.encode(), value=orjson.dumps(event))

    def check(self, letters: Iterable[LogRecord]) -> Check:
        """It is kept, unless the session's next state was written over it; and nothing is kept that was none."""
        kept = {letter.value for letter in letters}
        differences = [f"expected no such letter, got {value!r}" for value in kept - set(self.struck)]
        if self.struck and not kept:
            differences.append("expected the bytes of a damage to be kept, got none")
        return Check(
            "damage to a state is kept and ends nobody for good",
            f"{len(kept)} of {len(self.struck)}",
            tuple(differences),
        )


def is_of_state(letter: LogRecord) -> bool:
    """Whether a dead letter is of a state, not of a record of a source."""
    found = DeadLetter.from_record(letter.key, letter.value, letter.headers)
    return found.reason is BadRecord.UNREADABLE_STATE
