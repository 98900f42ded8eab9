"""The usage of a session after it would have been held. Pure."""

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
from haltline.streams.engine.local_fleet import decisions_of
from haltline.streams.replay.live_play import LivePlay
from haltline.streams.scan.results import MAX_TOKENS, Scanned, Shown, Waste

IDLE_MS: Final = 5 * 60 * 1000
"""The longest pause between two events that counts as time spent, in milliseconds."""
NEW_WORDS: Final = 10
"""The least number of new words in a result that is progress; at least half of its words must be new. See
docs/quality.md."""
_AROUND = 6
_CHARS = 160


def judged(core: Core, classifier: Classifier, events: Sequence[ActionEvent], into: Scanned) -> Scanned:
    """Play the events of one session, including its subagents', as a guard would have let them happen.

    From where it is held or killed, later events count as waste until the next prompt or progress; from there, as the
    recorded session went on, it is judged anew.
    """
    play = LivePlay(core)
    boundaries = _boundaries(events, classifier)
    hints: Counter[str] = Counter()
    asks: list[str] = []
    refused: list[str] = []
    waste_until = -1
    stop: Decision | None = None
    for at, event in enumerate(events):
        if at in boundaries and at <= waste_until:
            play.forget(event.session_id)
            waste_until, stop = -1, None
        for decision in (one for followed in play.event(event).followed for one in decisions_of(followed)):
            if not decision.detector or at <= waste_until:
                continue
            if is_ask(decision.detector, decision.level):
                asks.append(decision.reason)
            elif decision.level < Level.PAUSE:
                hints[decision.detector] += 1
            else:
                refused.append(decision.reason)
                stop = decision
        if at > waste_until and stop is not None and play.is_stopped(event.session_id):
            waste_until = next((n for n in range(at + 1, len(events)) if n in boundaries), len(events))
            into.waste.append(_waste(stop, events, at, waste_until))
            refused.remove(stop.reason)
    into.asks, into.refused, into.hints = list(dict.fromkeys(asks)), list(dict.fromkeys(refused)), dict(hints)
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
    return min(sum(usage.tokens for usage in used), MAX_TOKENS), round(sum(usage.cost_usd for usage in used), 6), ms


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
