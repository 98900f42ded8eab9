"""An agent whose session was killed starts a new one, which is killed too: it continues despite the kills.

Fires: `respawned` when several sessions of an agent were killed one after the other within `window_s`, each started
    after the one before was killed: high from `generations` killed sessions on, critical from one more on.
Quiet: sessions that ran at the same time and were killed together; a session that an operator released; a new session
    that works normally; an agent id shared by many sessions of which some are killed: if less than half of the sessions
    of that time are in the chain, they are not considered related.
Misses: an agent that changes its id; sessions whose first event was not received.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.cross_session.base import SESSION, CrossSessionPattern, evidence, remembered, went_on
from haltline.detectors.framework.base import settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import TIME_MS, Entry, seconds
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.signals import Signal, SignalKind, SignalScope

_MAX_STARTS = 256
_MAX_KILLS = 64


@dataclass
class RespawnState:
    """Start times of the agent's last sessions, and the killed ones in order of arrival."""

    started_ms: dict[str, int] = field(default_factory=dict)
    killed: list[Entry] = field(default_factory=list)


@settings
class Respawn(CrossSessionPattern[RespawnState]):
    """A chain of killed sessions."""

    id: ClassVar[str] = "respawn"
    scope: ClassVar[SignalScope] = SignalScope.AGENT
    consumes: ClassVar[frozenset[SignalKind]] = frozenset({SignalKind.STARTED, SignalKind.KILLED, SignalKind.RELEASED})

    generations: Annotated[int, Field(ge=2, le=32), Stricter.LOWER] = 2
    """Sessions killed one after the other."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 3600.0
    """Seconds of event time from the first of these kills to the last."""

    def observe(self, state: RespawnState, signal: Signal) -> Finding | None:
        """Record a start, kill or release; evaluate the chain after a kill."""
        if signal.kind == SignalKind.STARTED:
            state.started_ms.setdefault(signal.session_id, signal.time)
            if len(state.started_ms) > _MAX_STARTS:
                del state.started_ms[next(iter(state.started_ms))]
            return None
        state.killed = [entry for entry in state.killed if entry[SESSION] != signal.session_id]
        if signal.kind == SignalKind.RELEASED:
            return None
        last = remembered(signal)
        state.killed.append(last)
        del state.killed[:-_MAX_KILLS]
        chain = self._chain(state)
        if last not in chain or len(chain) < self.generations or 2 * len(chain) < self._begun(state, chain):
            return None
        return self.finding(
            "respawned",
            Severity.CRITICAL if len(chain) > self.generations else Severity.HIGH,
            f"{len(chain)} sessions in {seconds(chain)}s, each started after the previous one was killed",
            evidence(chain, last),
            values={"generations": len(chain), "span_s": seconds(chain)},
            thresholds=self.thresholds("generations", "window_s"),
            session_id=went_on(chain, signal),
        )

    @staticmethod
    def _begun(state: RespawnState, chain: list[Entry]) -> int:
        """The number of the agent's sessions that started between the first and the last of the chain."""
        begun = [state.started_ms[str(e[SESSION])] for e in chain if str(e[SESSION]) in state.started_ms]
        return sum(min(begun) <= started_ms <= int(chain[-1][TIME_MS]) for started_ms in state.started_ms.values())

    def _chain(self, state: RespawnState) -> list[Entry]:
        """The killed sessions that led to the latest kill by event time, the oldest first."""
        last = max(state.killed, key=lambda e: int(e[TIME_MS]))
        chain = [last]
        earliest_ms = int(last[TIME_MS]) - self.window_s * 1000
        for entry in sorted(state.killed, key=lambda e: int(e[TIME_MS]), reverse=True):
            begun_ms = state.started_ms.get(str(chain[-1][SESSION]))
            if entry is not last and begun_ms is not None and earliest_ms <= int(entry[TIME_MS]) <= begun_ms:
                chain.append(entry)
        return chain[::-1]
