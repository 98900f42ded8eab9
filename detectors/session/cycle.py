"""The session repeats the same few calls in turn, each with the result that it had before.

Fires: `cycle` when the last calls are `medium`, `high` or `critical` rounds of the same 2 to `max_period` calls, and
    all rounds after the first returned nothing new. The order within a round is ignored, since parallel calls of a
    model turn may arrive in any order. Twice as many rounds are needed if the calls have no known results, or may have
    changed something, unless a look in each round shows the same as before. `calls_in_turn`, if they are two, and none
    may have changed something.
    `going_in_circles`, for cycles with other calls in between, when calls that return nothing new outweigh the rest:
    each adds a point, a third of a point the first time; one that returns something new subtracts two thirds, one that
    changes something subtracts two; from `circles` points on.
    `replay` when the last `replay` calls repeat, in the same order and with the same results, the calls of 6 to 15
    calls before. Calls that may have changed something, or whose results differ only in random-looking parts, count
    half. Critical only from one and a half rounds on: a single replay may look up again what the agent forgot.
Quiet: another result of any call in a round; one call alone (see `repetition`); waiting (see `polling`); a single
    repeated lookup.
Misses: rounds of more than 15 calls, and of more than `max_period` with other calls in between; rounds whose calls are
    worded differently each time.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.features.call_history import BLIND, MAX_TRAIL, ONCE, POINTS, RECEIPT, STALE, VARIES, CallHistory
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, Nearness, settings
from haltline.detectors.framework.severity_counts import severity_of, thresholds_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds
from haltline.detectors.session.repetition import Counts
from haltline.schemas.findings import Finding, Severity

_OLD = (STALE, ONCE, RECEIPT, BLIND, VARIES)
_WEAK = (RECEIPT, BLIND, VARIES)
_PLAIN = (STALE, ONCE)
_LOOKED_AT = {STALE, RECEIPT}
"""The marks of a round in which something may have been changed, and a look shows that nothing was."""
_TWO = 2
_MAX_REPLAY_PERIOD = 15


@settings
class Cycle(Detector[Nearness]):
    """Repeated rounds of the same calls, or many more calls with known results than with new ones."""

    id: ClassVar[str] = "cycle"
    sees: ClassVar[Trait] = Trait.AGAIN
    recalls: ClassVar[bool] = True

    rounds: Counts = (2, 3, 3)
    """Thresholds of medium, high and critical findings: rounds of the same calls."""
    max_period: Annotated[int, Field(ge=2, le=MAX_TRAIL // 3), Stricter.HIGHER] = 5
    """Maximum number of calls in a round."""
    circles: Counts = (4, 6, 8)
    """Thresholds of medium, high and critical findings: the excess of known results over new ones, in any order."""
    replay: Counts = (8, 10, 12)
    """Thresholds of medium, high and critical findings: calls in a row that repeat a longer round in its order."""

    def concerns(self, act: Observation) -> bool:
        """Calls that were made before, and had the same result then."""
        again = act.again
        return again is not None and (again.stale or again.varies) and not again.waits

    def observe(self, state: Nearness, act: Observation) -> Finding | None:
        """Look for rounds that end with this call."""
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
            plain = period == _TWO and all(name[-1] in _PLAIN for name in trail[-period * (rounds - 1) :])
            code = "calls_in_turn" if plain else "cycle"
            return self.counted(code, rounds, self.rounds, reason, events, also=also, rounds=rounds, period=period)
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
        """The period whose rounds cover the most calls, and the number of these rounds."""
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
            marks = {name[-1] for name in trail[-period:]}
            if rounds > 1 and not marks.isdisjoint(_WEAK) and marks != _LOOKED_AT:
                rounds = (rounds + 1) // 2
            if rounds > 1 and rounds * period > best[0] * best[1]:
                best = (period, rounds)
        return best


def _replay(trail: list[str], shortest: int) -> tuple[int, float, bool]:
    """The number of calls in a row that repeat an earlier round in order, their weight, and whether it is only once."""
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
    """The stored calls of the trail, this one last."""
    rows = [row for name in {name[:-1] for name in trail} for row in recall.rows(name)]
    rows.sort(key=lambda row: int(row[INDEX]))
    return [*rows[-len(trail) + 1 :], entry(act)]
