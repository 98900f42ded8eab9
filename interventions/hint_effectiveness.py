"""The effectiveness of hints, by the session's next actions. Pure: from recorded decisions, findings and events.

A hint is a decision below PAUSE that reached the agent (NUDGE, REINFORCE or THROTTLE, with a text for the model). Its
outcome depends on its rule and the session's next `HELPED_ACTIONS` attempts of actions:

- `stopped`: the rule decided something of PAUSE or above;
- `went_on`: else, the rule found the same kind of thing again;
- `helped`: else, all these attempts were made, or the session ended in order before that;
- `unknown`: else, as the session has no later events.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from haltline.interventions.state.intervention_history import HELPED_ACTIONS
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Detection

HINTS: Final = (Level.NUDGE, Level.REINFORCE, Level.THROTTLE)


class HintOutcome(StrEnum):
    """The outcome of a hint."""

    HELPED = "helped"
    WENT_ON = "went_on"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Helped:
    """The hints of one rule, by outcome."""

    rule: str
    counts: Mapping[HintOutcome, int]

    @property
    def share(self) -> float | None:
        """The share of hints that helped, among those with a known outcome; None without any."""
        known = sum(count for became, count in self.counts.items() if became is not HintOutcome.UNKNOWN)
        return self.counts.get(HintOutcome.HELPED, 0) / known if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        share = None if self.share is None else round(self.share, 4)
        counts = {became.value: self.counts.get(became, 0) for became in HintOutcome}
        return {"rule": self.rule, "hints": sum(counts.values()), **counts, "share_helped": share}


def is_hint(decision: Decision) -> bool:
    """Return whether the agent was to receive it, and could continue."""
    return decision.level in HINTS and bool(decision.message) and bool(decision.detector)


def hint_outcome(
    hint: Decision, decisions: Iterable[Decision], detections: Iterable[Detection], events: Sequence[ActionEvent]
) -> HintOutcome:
    """Return the outcome of one hint; the other arguments are of its session, the events in order."""
    place = next((number for number, event in enumerate(events) if event.event_id == hint.event_id), None)
    if place is None:
        return HintOutcome.UNKNOWN
    later, attempts, ended = set[str](), set[str](), False
    for event in events[place + 1 :]:
        if event.kind in {Kind.PROPOSED, Kind.COMPLETED}:
            call = event.call_id or event.event_id
            if call == hint.call_id:  # the end of the hint's own call
                continue
            attempts.add(call)
            if len(attempts) > HELPED_ACTIONS:
                break
        ended = event.kind is Kind.SESSION_ENDED
        later.add(event.event_id)
    same = [d for d in decisions if d.detector == hint.detector and d.event_id in later]
    if any((d.would or d.level) >= Level.PAUSE for d in same):
        return HintOutcome.STOPPED
    if any(d.finding.detector == hint.detector and d.event_id in later for d in detections):
        return HintOutcome.WENT_ON
    return HintOutcome.HELPED if ended or len(attempts) >= HELPED_ACTIONS else HintOutcome.UNKNOWN


def by_rule(
    decisions: Iterable[Decision],
    detections: Iterable[Detection],
    events: Mapping[str, Sequence[ActionEvent]],
) -> list[Helped]:
    """Return the hints of each rule by outcome. `events`: those of each session."""
    decided: dict[str, list[Decision]] = {}
    for decision in decisions:
        decided.setdefault(decision.session_id, []).append(decision)
    found: dict[str, list[Detection]] = {}
    for detection in detections:
        found.setdefault(detection.session_id, []).append(detection)
    counts: dict[str, Counter[HintOutcome]] = {}
    for session_id, all_of in decided.items():
        for hint in filter(is_hint, all_of):
            became = hint_outcome(hint, all_of, found.get(session_id, ()), events.get(session_id, ()))
            counts.setdefault(hint.detector, Counter())[became] += 1
    return [Helped(rule, counts[rule]) for rule in sorted(counts)]
