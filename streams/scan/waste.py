"""The usage of a session after the first decision to stop it. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import orjson

from haltline.detectors.features.call_changes import changes
from haltline.detectors.features.tool_classifier import Classifier, text_of
from haltline.interventions.levels.default_levels import is_ask
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.streams.engine.core import Core
from haltline.streams.engine.local_fleet import Fleet, decisions_of
from haltline.streams.scan.results import Scanned, Shown, Waste

IDLE_MS: Final = 5 * 60 * 1000
"""The longest pause between two events that counts as time spent, in milliseconds."""
NEW_WORDS: Final = 10
"""The least number of new words in a result that is progress; at least half of its words must be new. See
docs/quality.md."""
_AROUND = 6
_CHARS = 160


def judged(core: Core, classifier: Classifier, events: Sequence[ActionEvent], into: Scanned) -> Scanned:
    """Run the events of one session, including its subagents', through the core, and add the results to `into`.

    After a decision to stop, later events count as waste until the next prompt or progress; from there, the session is
    evaluated from a new state.
    """
    fleet = Fleet(core)
    boundaries = _boundaries(events, classifier)
    hints: Counter[str] = Counter()
    asks: list[str] = []
    waste_until = -1
    for at, event in enumerate(events):
        if at in boundaries and at <= waste_until:  # the recorded session continued: evaluate it from a new state
            fleet.sessions.pop(event.session_id, None)
            waste_until = -1
        decisions = [one for followed in fleet.event(event) for one in decisions_of(followed)]
        for decision in decisions:
            if not decision.detector:
                continue
            if is_ask(decision.detector, decision.level):
                asks.append(decision.reason)
            elif decision.level < Level.PAUSE:
                hints[decision.detector] += 1
            elif at > waste_until:
                waste_until = next((n for n in range(at + 1, len(events)) if n in boundaries), len(events))
                into.waste.append(_waste(decision, events, at, waste_until))
    into.asks, into.hints = list(dict.fromkeys(asks)), dict(hints)
    into.events = len(events)
    into.began_ms, into.ended_ms = (events[0].time, events[-1].time) if events else (0, 0)
    into.tokens, into.cost_usd, into.ms = _spent(events)
    return into


def _boundaries(events: Sequence[ActionEvent], classifier: Classifier) -> set[int]:
    """The indexes of events at which evaluation restarts: a prompt, and the event after progress."""
    found: set[int] = set()
    for at, event in enumerate(events):
        if event.kind is Kind.SESSION_STARTED:
            found.add(at)
        elif is_progress(event, classifier):
            found.add(at + 1)
    return found


def is_progress(event: ActionEvent, classifier: Classifier) -> bool:
    """Whether this is the end of a call that changed something, or whose result is mostly new."""
    if event.kind is not Kind.COMPLETED or event.outcome is Outcome.ERROR:
        return False
    novelty = event.output_novelty
    if novelty is not None and novelty.new_words >= NEW_WORDS and 2 * novelty.new_words >= novelty.words:
        return True
    tool = classifier.tool_of(event.action, event.args)
    return changes(event.effect, tool, text_of(event.args, tool)) and tool.effect is not None


def _waste(decision: Decision, events: Sequence[ActionEvent], at: int, until: int) -> Waste:
    tokens, cost, ms = _spent(events[at : until + 1])
    own = events[at].usage
    if own is not None:  # the step that led to the stop is not waste
        tokens, cost = tokens - own.tokens, cost - own.cost_usd
    return Waste(
        detector=decision.detector,
        level=decision.level.value,
        reason=decision.reason,
        number=at + 1,
        time_ms=events[at].time,
        steps=sum(event.kind in {Kind.PROPOSED, Kind.MODEL_TURN} for event in events[at + 1 : until]),
        tokens=tokens,
        cost_usd=round(max(0.0, cost), 6),
        ms=ms,
        around=list(_shown(events, at)),
    )


def _spent(events: Sequence[ActionEvent]) -> tuple[int, float, int]:
    """Tokens, US dollars and milliseconds, without idle time."""
    used = [event.usage for event in events if event.usage is not None]
    ms = sum(min(IDLE_MS, max(0, later.time - earlier.time)) for earlier, later in pairwise(events))
    return sum(usage.tokens for usage in used), round(sum(usage.cost_usd for usage in used), 6), ms


def _shown(events: Sequence[ActionEvent], at: int) -> Iterator[Shown]:
    for number in range(max(0, at - _AROUND), min(len(events), at + _AROUND + 1)):
        event = events[number]
        if event.kind is Kind.COMPLETED:
            what = event.error or event.output_head or ""
        elif event.args:
            what = ", ".join(f"{name}={_text(value)}" for name, value in event.args.items())
        else:
            what = event.output_head or ""
        outcome = event.outcome.value if event.outcome is not None else ""
        yield Shown(number + 1, event.time, event.action or event.kind.value, " ".join(what.split())[:_CHARS], outcome)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
