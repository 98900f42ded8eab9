"""The session goes round in circles: the same few calls in turn, each with the result that it had before.

Fires: `cycle` when the last calls are `medium`, `high` or `critical` rounds of the same 2 to `max_period` calls, in
    whatever order within a round (so parallel calls of a model turn may come as they like), and all rounds
    after the first returned nothing new; where they may have changed something, or nobody tells their results, it
    takes twice as many. `going_in_circles` when calls that tell nothing new outweigh the rest, for cycles with
    something else in between: each adds a point, a third the first time; one that tells something new takes
    two thirds, one that changes something takes two; from `circles` points on.
    `replay` when the last `replay` calls repeat, in the same order, what was done 6 to 15 calls before, each with
    the result that it had then; those that may have changed something, or whose results differ only in what looks
    random, count half. It is critical only from one and a half rounds on: once, what was forgotten is looked up again.
Quiet: another result of any call in a round; one call alone (see `repetition`); waiting (see `polling`); looking
    up once more what was seen before.
Misses: rounds of more than 15 calls, and of more than `max_period` with something else in between; rounds whose calls
    are worded anew each time.
"""

from typing import Annotated, ClassVar

from msgspec import Struct
from pydantic import Field

from haltline.detectors.features.call_history import BLIND, MAX_TRAIL, ONCE, POINTS, RECEIPT, STALE, VARIES, CallHistory
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.severity_counts import severity_of, thresholds_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds
from haltline.detectors.session.repetition import Counts
from haltline.schemas.findings import Finding, Severity

_OLD = (STALE, ONCE, RECEIPT, BLIND, VARIES)
_WEAK = (RECEIPT, BLIND, VARIES)
_MAX_REPLAY_PERIOD = 15


class State(Struct):
    """The last round."""

    nearness: float = 0.0


@settings
class Cycle(Detector[State]):
    """So many rounds of the same calls, or so much more of what is known than of what is new."""

    id: ClassVar[str] = "cycle"
    sees: ClassVar[Trait] = Trait.AGAIN
    recalls: ClassVar[bool] = True

    rounds: Counts = (2, 3, 3)
    """Rounds of the same calls from which on it is medium, high, critical."""
    max_period: Annotated[int, Field(ge=2, le=MAX_TRAIL // 3), Stricter.HIGHER] = 5
    """Calls in a round, at the most."""
    circles: Counts = (4, 6, 8)
    """As `rounds`, for calls that come in any order; so many times as many are known as are new."""
    replay: Counts = (8, 10, 12)
    """Calls in a row that repeat a longer round in its order from which on it is medium, high, critical."""

    def concerns(self, act: Observation) -> bool:
        """Calls that were made before, and had the same result then."""
        again = act.again
        return again is not None and (again.stale or again.varies) and not again.waits

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Looks for rounds that end with this call."""
        again, recall = act.again, act.calls.recall
        if again is None:
            return None
        mark = VARIES if again.varies else again.mark
        trail = [*recall.trail, act.fingerprint.partition(".")[0] + mark]
        period, rounds = self._rounds(trail)
        points = max(0, recall.points + POINTS.get(mark, 0)) / 3
        state.nearness = min(1.0, max(rounds / self.rounds[0] if rounds > 1 else 0.0, points / self.circles[0]))
        round_severity, circle_severity = severity_of(rounds, self.rounds), severity_of(points, self.circles)
        if round_severity is not None and (circle_severity is None or round_severity >= circle_severity):
            rows = _rows(recall, act, trail[-period * rounds :])
            what = f"{rounds} rounds of the same {period} calls with the same results in {seconds(rows)}s"
            reason, also = f"{what}, the last {act.subject:.120}", self.thresholds("max_period")
            events = evidence(act, rows)
            return self.counted("cycle", rounds, self.rounds, reason, events, also=also, rounds=rounds, period=period)
        replayed, calls, once = _replay(trail, self.max_period + 1)
        replay_severity = severity_of(calls, self.replay)
        if replay_severity is Severity.CRITICAL and once:
            replay_severity = Severity.HIGH
        if replay_severity is not None and (circle_severity is None or replay_severity > circle_severity):
            return self.finding(
                "replay",
                replay_severity,
                f"the last {replayed} calls repeat earlier ones in the same order with the same results, the last"
                f" {act.subject:.120}",
                evidence(act, _rows(recall, act, trail[-replayed:])),
                confidence=min(1.0, calls / self.replay[2]),
                values={"calls": replayed, "counted": calls},
                thresholds=thresholds_of(self.replay),
            )
        if circle_severity is None:
            return None
        stale, calls = sum(name[-1] in _OLD for name in trail), len(trail)
        what = (
            f"{stale} of the last {calls} calls returned nothing new ({points:.1f} points, limit {self.circles[0]:g})"
        )
        reason, events = f"{what}, such as {act.subject:.120}", evidence(act, _rows(recall, act, trail))
        most = round(points, 2)
        return self.counted(
            "going_in_circles", points, self.circles, reason, events, points=most, stale=stale, calls=calls
        )

    def _rounds(self, trail: list[str]) -> tuple[int, int]:
        """The period with which the most calls are in rounds, and how many rounds there are."""
        best = (0, 1)
        for period in range(2, self.max_period + 1):
            if len(trail) < 2 * period:
                break
            newest = sorted(name[:-1] for name in trail[-period:])
            if newest[0] == newest[-1]:
                continue
            rounds, end = 1, len(trail) - period
            while end >= period and all(name[-1] in _OLD for name in trail[end : end + period]):
                if sorted(name[:-1] for name in trail[end - period : end]) != newest:
                    break
                rounds, end = rounds + 1, end - period
            if rounds > 1 and any(name[-1] in _WEAK for name in trail[-period:]):
                rounds = (rounds + 1) // 2
            if rounds > 1 and rounds * period > best[0] * best[1]:
                best = (period, rounds)
        return best


def _replay(trail: list[str], shortest: int) -> tuple[int, float, bool]:
    """How many calls in a row repeat those of a round before, in its order; as how many they count; if only once."""
    best, counted, once = 0, 0.0, True
    names = [name[:-1] for name in trail]
    for period in range(shortest, min(_MAX_REPLAY_PERIOD, len(trail) - 1) + 1):
        newest = names[-period:]
        if any(newest == newest[:part] * (period // part) for part in range(1, period // 2 + 1)):
            continue  # rounds of fewer calls
        halves, calls = 0, 0
        for at in range(len(trail) - 1, period - 1, -1):
            if names[at] != names[at - period] or trail[at][-1] not in _OLD:
                break
            calls += 1
            halves += 1 if trail[at][-1] in _WEAK else 2
        if halves / 2 > counted:
            best, counted, once = calls, halves / 2, calls < 1.5 * period
    return best, counted, once


def _rows(recall: CallHistory, act: Observation, trail: list[str]) -> list[Entry]:
    """The calls of the trail that are still remembered, this one last."""
    rows = [row for name in {name[:-1] for name in trail} for row in recall.rows(name)]
    rows.sort(key=lambda row: int(row[INDEX]))
    return [*rows[-len(trail) + 1 :], entry(act)]
