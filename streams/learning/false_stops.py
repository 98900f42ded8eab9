"""How many wrong stops a budget allows, by the exact binomial bound, and which step of each rule keeps it. Pure."""

from collections.abc import Mapping, Sequence
from math import ceil, exp, lgamma, log, log1p
from typing import Final

CONFIDENCE: Final = 0.95
"""One-sided: of 20 such bounds, at most one is expected to be below the true share."""
_HALVINGS: Final = 60

Stopped = Mapping[str, Sequence[frozenset[str]]]
"""By rule: the sessions that each of its steps stops, from the strictest to the loosest, which stops none. Each step
stops some of those of the one before."""


def upper_bound(stops: int, sessions: int) -> float:
    """The largest share of stops that `stops` of `sessions` leave possible (Clopper-Pearson). Of no sessions 1."""
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
    """The fewest sessions which, with no stop among them, keep a budget (a share between 0 and 1)."""
    return ceil(log(1 - CONFIDENCE) / log1p(-budget))


def most_stops(budget: float, sessions: int) -> int:
    """The most stops in so many sessions that keep a budget; -1: with so few sessions not even none does."""
    most, more = -1, sessions  # of all of them the bound is 1, above every budget
    while more - most > 1:
        middle = (most + more) // 2
        if upper_bound(middle, sessions) <= budget:
            most = middle
        else:
            more = middle
    return most


def choose(wrong: Stopped, right: Stopped, most: int) -> dict[str, int]:
    """By rule: the strictest step with which all rules together stop at most `most` sessions wrongly.

    Of two ways, the one on which fewer runaways are lost. No rule could be one step stricter by itself.
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
        # What a later move of another rule removed as well need not be removed here.
        chosen[rule] = next(s for s in range(len(wrong[rule])) if len(_together(wrong, chosen | {rule: s})) <= most)
    return chosen


def _together(stopped: Stopped, chosen: Mapping[str, int]) -> frozenset[str]:
    return frozenset().union(*(stopped[rule][step] for rule, step in chosen.items()))


def _at_most(stops: int, sessions: int, share: float) -> float:
    """How likely so many stops or fewer are."""
    whole, yes, no = lgamma(sessions + 1), log(share), log1p(-share)
    return sum(
        exp(whole - lgamma(k + 1) - lgamma(sessions - k + 1) + k * yes + (sessions - k) * no) for k in range(stops + 1)
    )
