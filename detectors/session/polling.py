"""The session asks again and again whether something is done, and it never is.

Fires: `polling` when a call that waits for something was repeated `polls` times without a new result, `dense` times if
    its repetitions are less than `dense_s` apart (medium and high only: it is slowed, with a pause that grows in
    `pause_s` of its values), or for `wait_s` seconds with at least `min_polls`. Clocks and counters in an answer are
    not new. A call waits if it polls by its name or hint, sleeps before it looks, has a
    result that reports something unfinished, follows a sleep, or is repeated after a minute of inactivity. Only waiting
    counts: repetitions with something learned or done in between do not.
Quiet: a poll with a new result, such as a log that grows or a percentage: counting restarts. A sleep alone, which looks
    at nothing: what is looked at after it counts, and see `fruitless_waits`.
Misses: polls of something that changes by itself, such as a clock or a list of processes.
"""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from haltline.detectors.features.call_history import FULL
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, Nearness, settings
from haltline.detectors.framework.severity_counts import SEVERITIES, require_ascending
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import TIME_MS, Entry, entry, evidence
from haltline.schemas.findings import Finding

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0

_Polls = Annotated[int, Field(ge=2, le=100_000), Stricter.LOWER]
_Seconds = Annotated[float, Field(gt=0, le=2_592_000), Stricter.LOWER]


@settings
class Polling(Detector[Nearness]):
    """Many polls, or a long wait, without a new result."""

    id: ClassVar[str] = "polling"
    sees: ClassVar[Trait] = Trait.AGAIN
    recalls: ClassVar[bool] = True

    polls: tuple[_Polls, _Polls, _Polls] = (10, 25, 50)
    """Polls. From the first on the finding is medium, from the second on high, and with each further third minus second
    the pause doubles."""
    dense: tuple[_Polls, _Polls, _Polls] = (8, 12, 20)
    """The same for polls in quick succession, between which nothing can have changed."""
    dense_s: Annotated[float, Field(ge=0, le=86_400), Stricter.HIGHER] = 10.0
    """Seconds. Polls that are less than this apart, on average, are in quick succession."""
    wait_s: tuple[_Seconds, _Seconds, _Seconds] = (600.0, 900.0, 1800.0)
    """Thresholds of medium, high and critical findings: seconds of waiting."""
    min_polls: Annotated[int, Field(ge=2, le=10_000), Stricter.LOWER] = 12
    """The number of polls after which the time counts: a poll every ten minutes may continue for hours."""

    @model_validator(mode="after")
    def _ordered(self) -> "Polling":
        for steps in (self.polls, self.dense, self.wait_s):
            require_ascending(*steps)
        return self

    def concerns(self, act: Observation) -> bool:
        """Calls that wait, were made before, and had the same result then."""
        again = act.again
        return again is not None and again.stale and again.waits and again.quarters == FULL and not act.only_sleeps

    def observe(self, state: Nearness, act: Observation) -> Finding | None:
        """Count a poll, and the time of waiting."""
        again = act.again
        if again is None:
            return None
        known = again.known
        polls = known.idle + 1
        waited_s = (known.idle_ms + max(0, act.time_ms - int(known.rows[-1][TIME_MS]))) / 1000
        counts = self.dense if waited_s < self.dense_s * polls else self.polls
        steps = sum(polls >= step for step in counts[:2])
        if polls >= self.min_polls:
            steps = max(steps, sum(waited_s >= step for step in self.wait_s))
        state.nearness = min(1.0, polls / counts[0])
        if not steps:
            return None
        rows: list[Entry] = [*known.rows, entry(act)]
        return self.finding(
            "polling",
            SEVERITIES[steps - 1],
            f"{polls} polls in {waited_s:.0f}s with nothing new: {act.subject:.200}",
            evidence(act, rows),
            confidence=min(1.0, max(polls / counts[2], waited_s / self.wait_s[2])),
            values={"polls": polls, "waited_s": round(waited_s, 1), "pause_s": _pause_s(polls, counts)},
            thresholds={
                "polls": counts[min(steps, 2) - 1],
                "wait_s": self.wait_s[steps - 1],
                "min_polls": self.min_polls,
            },
        )


def _pause_s(polls: int, counts: tuple[int, int, int]) -> float:
    """The pause before the next poll, in seconds: longer the more polls there were."""
    doublings = max(0, polls - counts[1]) // max(1, counts[2] - counts[1])
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(doublings, 10))
