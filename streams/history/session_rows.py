"""Summaries of sessions from events and decisions. The result does not depend on their order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from haltline.interventions.levels.default_levels import is_ask
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.streams.history.kept import Kept
from haltline.streams.history.words import lines_of, words_of

Place = tuple[int, int]
"""Partition and offset in `actions`."""

MAX_TARGET_CHARS: Final = 8_000
"""The most characters of a session's searchable targets, each with one for its end: whole targets in alphabetical
order, up to the first that does not fit. So they depend only on the set of targets."""
_MINUTE_MS: Final = 60_000
_UNKNOWN: Final = "unknown"
_BEFORE_TARGETS: Final = "\n\n"
"""The separator of names and targets in `words`, which has no other empty line."""
_PER_USD: Final = 2.0**30


def summable(usd: float) -> float:
    """Return the amount rounded to about a billionth of a US dollar.

    Sums of such amounts, up to 8 million dollars, are exact, in any order of additions and subtractions.
    """
    return round(usd * _PER_USD) / _PER_USD


def add_sessions(kept: Kept, events: Iterable[tuple[ActionEvent, Place]], decisions: Iterable[Decision]) -> None:
    """Add events and decisions to their sessions, and what they spent to its minute."""
    values: dict[str, dict[str, Any]] = {}
    targets: dict[str, set[str]] = defaultdict(set)
    spent: dict[tuple[int, str], float] = {}
    for event, place in events:
        one = _seen(values, event.session_id, event.time)
        one["events"] += 1
        if event.usage is not None and event.usage.cost_usd:
            usd = summable(event.usage.cost_usd)
            one["cost_usd"] += usd
            minute = event.time // _MINUTE_MS, event.session_id
            spent[minute] = spent.get(minute, 0.0) + usd
        one["ended"] = one["ended"] or event.kind is Kind.SESSION_ENDED
        _name(one, event, place)
        targets[event.session_id].update(lines_of(*event.targets))
    for decision in decisions:
        one = _seen(values, decision.session_id, decision.time)
        if is_ask(decision.detector, decision.level):
            one["asks"] += 1
        else:
            one["hardest"] = max(one["hardest"], decision.level.rank)
    for row in kept.rows("sessions", ("session_id", "in", sorted(values))):
        _add(values[row["session_id"]], row)
        targets[row["session_id"]].update(filter(None, row["words"].partition(_BEFORE_TARGETS)[2].split("\n")))
    for one in values.values():
        _put_words(one, targets[one["session_id"]])
        one["named_at"] = orjson.dumps(one["named_at"], option=orjson.OPT_SORT_KEYS).decode()
    kept.put("sessions", [values[name] for name in sorted(values)])
    kept.put(
        "spent",
        [{"minute": minute, "session_id": of, "cost_usd": usd} for (minute, of), usd in sorted(spent.items())],
        sums=("cost_usd",),
    )


def _seen(values: dict[str, dict[str, Any]], session_id: str, time_ms: int) -> dict[str, Any]:
    if session_id not in values:
        values[session_id] = {
            "session_id": session_id,
            "agent_id": _UNKNOWN,
            "mission_id": None,
            "parent_session_id": None,
            "goal": "",
            "named_at": {},
            "first_ms": time_ms,
            "last_ms": time_ms,
            "events": 0,
            "hardest": Level.ALLOW.rank,
            "asks": 0,
            "cost_usd": 0.0,
            "ended": False,
            "targets_until": None,
        }
    one = values[session_id]
    one["first_ms"], one["last_ms"] = min(one["first_ms"], time_ms), max(one["last_ms"], time_ms)
    return one


def _name(one: dict[str, Any], event: ActionEvent, place: Place) -> None:
    """Update the session's names, of which the last counts: by event time, then by position."""
    named = {
        "agent_id": None if event.agent_id == _UNKNOWN else event.agent_id,
        "mission_id": event.mission_id,
        "parent_session_id": event.parent_session_id,
        "goal": event.task.goal if event.task is not None else None,
    }
    at = [event.time, *place]
    for name, value in named.items():
        if value and at > one["named_at"].get(name, []):
            one[name], one["named_at"][name] = value, at


def _add(one: dict[str, Any], known: Mapping[Any, Any]) -> None:
    one["first_ms"] = min(one["first_ms"], known["first_ms"])
    for name in ("last_ms", "hardest", "ended"):
        one[name] = max(one[name], known[name])
    for name in ("events", "asks", "cost_usd"):
        one[name] += known[name]
    for name, at in orjson.loads(known["named_at"]).items():
        if at > one["named_at"].get(name, []):
            one[name], one["named_at"][name] = known[name], at
    one["targets_until"] = known["targets_until"]


def _put_words(one: dict[str, Any], targets: Iterable[str]) -> None:
    kept, chars = list[str](), 0
    for target in sorted(targets):
        # Targets after the first that was left out stay out, even if they are shorter.
        if one["targets_until"] is not None and target >= one["targets_until"]:
            break
        chars += len(target) + 1
        if chars > MAX_TARGET_CHARS:
            one["targets_until"] = target
            break
        kept.append(target)
    agent_id = None if one["agent_id"] == _UNKNOWN else one["agent_id"]
    names = words_of(one["session_id"], one["goal"], agent_id, one["mission_id"])
    one["words"] = names + _BEFORE_TARGETS + "\n".join(kept) if kept else names
