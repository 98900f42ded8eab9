"""The comparison of two policies on the same sessions, or of several values of a setting. Pure."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.schemas import expressions as re
from haltline.schemas.decisions import Level
from haltline.schemas.policy import Policy
from haltline.streams.policy.loader import BadPolicy, parse_policy
from haltline.streams.replay.backtest import Result
from haltline.streams.replay.label_precision import CONFIRMED, FALSE_ALARM, MISSED, share

APPEARS: Final = "appears"
VANISHES: Final = "vanishes"
MOVES: Final = "moves"
SAME: Final = "same"

_RUNAWAY: Final = frozenset({CONFIRMED, MISSED})
_SWEEP: Final = re.compile(r"\A(rules\.[\w.-]+?\.settings\.\w+)=([^,]+(?:,[^,]+)*)")


def change_of(new: Result, old: Result) -> str:
    """Return how a session's first decision at PAUSE or above changes, approval requests left out.

    Without one in both, it moves if the level differs, or whether a person is asked.
    """
    if (new.level, new.first, new.asks > 0) == (old.level, old.first, old.asks > 0):
        return SAME
    if (new.first is None) is (old.first is None):
        return MOVES
    return VANISHES if new.first is None else APPEARS


@dataclass(frozen=True, slots=True)
class Quality:
    """The agreement of a policy's stops with the operators' labels, by labelled sessions."""

    right: int
    """Runaways (`confirmed` or `missed`) that it stops."""
    wrong: int
    """`false_alarm` sessions that it stops."""
    overlooked: int
    """Runaways that it does not stop."""

    precision: float | None
    """The part of the labelled sessions it stops that are runaways; None: it stops none."""
    recall: float | None
    """The part of the runaways that it stops; None: none is known."""


def quality_of(results: Sequence[Result]) -> Quality | None:
    """Return the quality by the operators' labels; None: no session has one."""
    labelled = [r for r in results if r.label in _RUNAWAY or r.label == FALSE_ALARM]
    if not labelled:
        return None
    counted = Counter((r.label in _RUNAWAY, r.first is not None) for r in labelled)
    right, wrong, overlooked = counted[True, True], counted[False, True], counted[True, False]
    return Quality(right, wrong, overlooked, share(right, wrong), share(right, overlooked))


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a policy over all sessions."""

    sessions: int
    stopped: int
    nudged: int
    """Sessions nudged, but not stopped."""
    asks: int = 0
    """Sessions with an approval request, stopped or not."""
    stopped_by_label: Mapping[str, int] = field(default_factory=dict)
    cost_prevented_usd: float = 0.0
    """The cost of refused calls, if the policy has prices."""
    cost_after_stop_usd: float = 0.0
    """The recorded cost of stopped sessions after their stop."""
    quality: Quality | None = None


def totals_of(results: Sequence[Result]) -> Totals:
    """Return counts and sums over sessions."""
    stopped = [result for result in results if result.first is not None]
    return Totals(
        sessions=len(results),
        stopped=len(stopped),
        nudged=sum(result.first is None and Level(result.level) >= Level.NUDGE for result in results),
        asks=sum(result.asks > 0 for result in results),
        stopped_by_label=dict(sorted(Counter(result.label or "-" for result in stopped).items())),
        cost_prevented_usd=round(sum(result.cost_prevented_usd for result in results), 6),
        cost_after_stop_usd=round(sum(result.cost_after_stop_usd for result in results), 6),
        quality=quality_of(results),
    )


@dataclass(frozen=True, slots=True)
class Sweep:
    """One setting of one rule, and the values to try."""

    place: str
    values: tuple[Any, ...]

    def policy(self, policy: Policy, value: Any, plugins: Plugins = NO_PLUGINS) -> Policy:
        """Return the policy with this value, checked. Raises BadPolicy."""
        document = policy.model_dump(mode="json", exclude_unset=True)
        rule, _, setting = self.place.removeprefix("rules.").rpartition(".settings.")
        settings = document.setdefault("rules", {}).setdefault(rule, {}).setdefault("settings", {})
        settings[setting] = value
        return parse_policy(json.dumps(document), f"--sweep {self.place}={value}", plugins)

    def run(
        self, policy: Policy, results: Callable[[Policy], Sequence[Result]], plugins: Plugins = NO_PLUGINS
    ) -> list[tuple[Any, Totals]]:
        """Return the totals of each value. Raises BadPolicy before anything is run."""
        policies = [(value, self.policy(policy, value, plugins)) for value in self.values]
        return [(value, totals_of(results(one))) for value, one in policies]


def parse_sweep(text: str) -> Sweep:
    """Parse `rules.NAME.settings.X=2,3,5`; values are JSON, or else text.

    Raises:
        BadPolicy: the text has another form.

    """
    found = _SWEEP.fullmatch(text)
    if found is None:
        raise BadPolicy(f"--sweep: expected rules.NAME.settings.X=2,3,5, got {text!r}")
    return Sweep(found[1], tuple(_value(part.strip()) for part in found[2].split(",")))


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
