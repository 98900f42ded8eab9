"""The number of false stops that a budget allows, by the exact binomial bound, and the steps that keep it. Pure."""

from collections.abc import Mapping, Sequence
from math import ceil, exp, lgamma, log, log1p
from typing import Final

CONFIDENCE: Final = 0.95
"""The one-sided confidence: of 20 such bounds, at most one is expected to be below the true share."""
_HALVINGS: Final = 60

Stopped = Mapping[str, Sequence[frozenset[str]]]
"""By rule: the sessions that each of its steps stops, from the strictest to the loosest, which stops none. Each step
stops a subset of the one before."""


def upper_bound(stops: int, sessions: int) -> float:
    """Return the largest share of stops consistent with `stops` of `sessions` (Clopper-Pearson). 1 without sessions."""
    if not 0 <= stops <= sessions:
        raise ValueError(f"stops: expected 0 to {sessions}, got {stops}")
    if stops == sessions:
        return 1.0
    low, high = stops / sessions, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        if _at_most(stops, sessions, share) > 1 - CONFIDENCE:
            low = share
        else:
            high = share
    return high


def sessions_needed(budget: float) -> int:
    """Return the least number of sessions that, without any stop, keep a budget (a share between 0 and 1)."""
    return ceil(log(1 - CONFIDENCE) / log1p(-budget))


def most_stops(budget: float, sessions: int) -> int:
    """Return the most stops in this many sessions that keep a budget; -1 if not even zero stops do."""
    most, more = -1, sessions  # if all are stopped, the bound is 1, above every budget
    while more - most > 1:
        middle = (most + more) // 2
        if upper_bound(middle, sessions) <= budget:
            most = middle
        else:
            more = middle
    return most


def choose(wrong: Stopped, right: Stopped, most: int) -> dict[str, int]:
    """Return, by rule, the strictest step such that all rules together stop at most `most` sessions wrongly.

    Among alternatives, the one that loses fewer runaways. No rule could be one step stricter alone.
    """
    chosen = dict.fromkeys(wrong, 0)
    while len(_together(wrong, chosen)) > most:
        before = len(_together(wrong, chosen)), len(_together(right, chosen))
        moves = []
        for rule, steps in wrong.items():
            for step in range(chosen[rule] + 1, len(steps)):
                fewer = len(steps[chosen[rule]]) - len(steps[step])
                if fewer:
                    moved = chosen | {rule: step}
                    gone = before[0] - len(_together(wrong, moved))
                    lost = before[1] - len(_together(right, moved))
                    moves.append((lost / (gone + fewer), -gone, step, rule))
        *_, step, rule = min(moves)
        chosen[rule] = step
    for rule in sorted(chosen, key=lambda name: (-len(right[name][0]), name)):
        # Steps that a later move of another rule made unnecessary are taken back.
        chosen[rule] = next(s for s in range(len(wrong[rule])) if len(_together(wrong, chosen | {rule: s})) <= most)
    return chosen


def _together(stopped: Stopped, chosen: Mapping[str, int]) -> frozenset[str]:
    return frozenset().union(*(stopped[rule][step] for rule, step in chosen.items()))


def _at_most(stops: int, sessions: int, share: float) -> float:
    """Return the probability of at most this many stops."""
    whole, yes, no = lgamma(sessions + 1), log(share), log1p(-share)
    return sum(
        exp(whole - lgamma(k + 1) - lgamma(sessions - k + 1) + k * yes + (sessions - k) * no) for k in range(stops + 1)
    )
