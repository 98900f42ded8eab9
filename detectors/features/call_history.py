"""What a session remembers of the calls it made lately: what came of each, and what was new since.

A call is stale when the same call had the same result before: it returned nothing new. It counts in full when
nothing new was learned since the last time, a quarter when something was, and not at all when something was
changed: a test that is run again after an edit is work. What is done once more straight after the model's context
was condensed counts in full, whatever came in between: the same round begins again. Identical calls of one model turn
are one.
"""

import re
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct, field

from haltline.detectors.features.call import Again, Known
from haltline.detectors.features.error_normalization import Normalization, failing
from haltline.detectors.features.fingerprint import clean_result, clean_waiting, digest
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.tool_classifier import CHANGING
from haltline.schemas.events import Effect

# Looked up at every event: from their class, members take ten times as long.
_WRITE, _MUTATE, _NETWORK, _READ = Effect.WRITE, Effect.MUTATE, Effect.NETWORK, Effect.READ

MAX_ONCE = 16
"""Different calls made once that are remembered; the oldest are forgotten first."""
MAX_CALLS = 16
"""Different calls made again that are remembered; the one not made for the longest time is forgotten first."""
MAX_ROWS = 16
"""Repetitions that are remembered of each."""
MAX_TRAIL = 32
"""Calls that are remembered in their order."""
MAX_POINTS = 96
_MAX_RESULTS = 4
MIN_ANSWER_CHARS = 80
"""A longer result is more than a receipt."""
_SPACING_MS = 60_000
"""Who does nothing for so long before it makes the same call again is waiting for something."""
_AT_ONCE_MS = 100
"""Attempts that come so close together are of one model turn, in a session that tells no results."""
_SIZE_BYTES = 4
"""So much may the sizes of two outputs of a program differ, when both begin alike: timings vary."""

FULL, AFTER_NEWS, AFTER_CHANGE = 4, 1, 0
"""How much a repetition counts, in quarters."""
QUARTERS = 4
"""Where a row has it."""
STALE, ONCE, RECEIPT, BLIND, NEWS, CHANGE, WAIT, NOTHING = "s", "o", "r", "b", "n", "c", "w", "e"
VARIES = "v"
"""Made again and again, and the results differ only in what looks random."""
"""What a call was, as the last letter of its entry in the trail: stale; stale for the first time, as when something is
looked up again that was forgotten; stale with a result that says little, since it is only the answer of a call
that changes something, or may; repeated, and nobody tells with what result."""
POINTS = {STALE: 3, ONCE: 1, NEWS: -2, CHANGE: -6}
"""What each adds to the points of a session that goes in circles, in thirds; the others add nothing."""

_MIN_VARIED = 3
"""So many random results of one call are no news any more."""
_LONG = re.compile(r"(?<![\w+/=-])[\w+/=-]{16,}")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")

TALK = frozenset(("think", "say", "note", "plan", "reflect", "sequentialthinking", "sequential_thinking", "thought"))
_PENDING = re.compile(
    r"\b(?:pending|queued|in[ _-]progress|not (?:yet )?(?:ready|finished|completed?|started)|not yet available"
    r"|still (?:running|waiting|processing|building|starting)|connection refused|temporarily unavailable"
    r"|try again (?:later|in)|please wait|service unavailable)\b"
    r"|(?:status|state|phase|progress)\W{1,5}(?:running|starting|building|creating|waiting|scheduled|updating|deploying"
    r"|processing|provisioning|initiali[sz]ing|unfinished|incomplete|unknown|\d+ ?%)"
    r"|^\W*(?:running|waiting|starting|building|processing|provisioning)\W*$",
    re.IGNORECASE,
)
_PENDING_CHARS = 400


class Sort(StrEnum):
    """What a call does, for how often it may be repeated."""

    READ = "read"
    """Looks, or runs a program that changes nothing by what it is; or is not known, and answers at length."""
    IDEMPOTENT = "idempotent"
    """Writes: doing it again leaves the same."""
    MUTATING = "mutating"
    """Changes what others rely on, or sends something."""
    DESTRUCTIVE = "destructive"
    UNKNOWN = "unknown"
    """A tool of which nothing is known: it may well step through something."""


class CallHistory(Struct):
    """The calls of one session. Plain JSON values: part of its state."""

    once: dict[str, list[int | str]] = field(default_factory=dict)
    """`[result, done, time_ms, index, event_id, offset, variant]` by fingerprint, of calls made once: of most."""
    calls: dict[str, Known] = field(default_factory=dict)
    """By fingerprint, of calls made again."""
    trail: list[str] = field(default_factory=list)
    """Fingerprint and what it was (one letter), of each of the last calls, in the order of their results."""
    resulted: bool = False
    """The session tells results: without them attempts are all there is."""
    proposes: bool = False
    """The session tells what it is about to do, so a result alone is one whose beginning is late or lost."""
    news: int = 0
    """Index of the last action that returned something new or changed something."""
    changed: int = 0
    waited: int = 0
    points: int = 0
    """How much what was known outweighs what was new, in thirds; never below nothing."""

    def look(self, act: Observed) -> Again | None:
        """What is known of this call; None when it is new, or one of several that were made at once."""
        counted_already = not act.is_result and (self.resulted or not act.is_attempt)
        if counted_already or (act.failed and _is_nothing(act)):
            return None
        fingerprint, _, variant = act.fingerprint.partition(".")
        known = self.calls.get(fingerprint)
        if known is None:
            once = self.once.get(fingerprint)
            if once is None or self._is_nameless(act):
                return None
            known = Known([str(once[0])], [[*once[2:6], FULL]], int(once[1]), str(once[6]))
        if act.index <= known.done or self._is_nameless(act) or _is_of_one_turn(act, known):
            return None
        if variant != known.variant and act.changes:
            return Again(known, False, AFTER_CHANGE, False, False, [_result(act)], CHANGE)
        results = [_result(act)]
        stale = results[0] in known.results
        last = int(known.rows[-1][1])
        if not stale and not act.steps_through:
            waiting = act.waits or self.waited > last or _is_pending(act)
            results.append(_plain_result(act, clean_waiting if waiting else clean_result, waiting=waiting))
            stale = results[1] != "" and any(_alike(results[1], other) for other in known.results)
        quarters = FULL
        if self.news > last:
            quarters = AFTER_CHANGE if self.changed > last else AFTER_NEWS
        if quarters != AFTER_CHANGE and act.may_have_changed_since(last):
            quarters = AFTER_CHANGE
        begins_again = stale and act.was_condensed_between(last, act.index)
        if begins_again:
            quarters = FULL  # whatever was learned or done since is forgotten
        waits = (
            act.waits or self.waited > last or (stale and (_is_spaced(act, known) or _is_pending(act) or act.backs_off))
        )
        blind = results[0] == "" or results[0][0] == "?"
        mark = STALE if len(known.rows) > 1 or begins_again else ONCE
        if waits:
            mark = WAIT
        elif blind:
            mark = BLIND
        elif act.changes and not act.failed and sort_of(act) is not Sort.READ:
            mark = RECEIPT
        varies = not (stale or waits or blind) and quarters != AFTER_CHANGE and known.shape != ""
        return Again(
            known, stale, quarters, waits, blind, results, mark, varies and _same_shape(_shape(act), known.shape)
        )

    def rows(self, fingerprint: str) -> list[list[int | float | str]]:
        """The times that a call was made since something new came of it, as far as they are remembered."""
        known = self.calls.get(fingerprint)
        if known is not None:
            return known.rows
        once = self.once.get(fingerprint)
        return [] if once is None else [[*once[2:6], FULL]]

    def note(self, act: Observed, actions: int) -> None:
        """Takes in a call after the detectors saw it; `actions`: attempts of the session so far."""
        again = None
        if not act.is_result:
            self.proposes = True
            if self.resulted:
                return
            again = act.again
        elif self.resulted:
            again = act.again
        else:
            self._begin_anew()
        fingerprint, _, variant = act.fingerprint.partition(".")
        if not fingerprint or (act.failed and _is_nothing(act)):
            return
        if act.call is None and self._is_nameless(act):
            self._note_nameless(act, actions)
            return
        if again is not None:
            mark = self._again(act, again, actions)
            again.known.variant = variant
            self.once.pop(fingerprint, None)
            self.calls.pop(fingerprint, None)
            self.calls[fingerprint] = again.known
            if len(self.calls) > MAX_CALLS:
                del self.calls[next(iter(self.calls))]
        elif fingerprint in self.calls or fingerprint in self.once:
            self._at_once(fingerprint, actions)
            return
        else:
            result = _result(act)
            self.once[fingerprint] = [result, actions, act.time_ms, act.index, act.event.event_id, act.offset, variant]
            if len(self.once) > MAX_ONCE:
                del self.once[next(iter(self.once))]
            mark = self._learned(act, result)
        if act.waits:
            self.waited = max(self.waited, act.index)
        self._add_to_trail(fingerprint, mark)

    def note_refused(self) -> None:
        """Takes in that a call was refused: it tells that results are told, and nothing of the call."""
        if not self.resulted:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Attempts were counted for want of results."""
        self.resulted = True
        self.once, self.calls, self.trail, self.points = {}, {}, [], 0

    def _add_to_trail(self, fingerprint: str, mark: str) -> None:
        if mark in POINTS:
            self.points = min(MAX_POINTS, max(0, self.points + POINTS[mark]))
        trail = self.trail
        trail.append(fingerprint + mark)
        if len(trail) > MAX_TRAIL:
            del trail[0]

    def _note_nameless(self, act: Observed, actions: int) -> None:
        """Notes a result of nobody knows what: its tool may tell that something was changed."""
        if act.tool.effect in CHANGING and not act.failed:
            self.changed = self.news = max(self.news, actions + 1)  # after whatever was attempted

    def _again(self, act: Observed, again: Again, actions: int) -> str:
        """Notes a call that was made before; what it was."""
        known = again.known
        row: list[int | float | str] = [act.time_ms, act.index, act.event.event_id, act.offset, FULL]
        known.done = actions
        if not again.stale:
            known.results += [result for result in again.results if result]
            del known.results[:-_MAX_RESULTS]
            before = known.varied if again.varies else [known.rows[-1][:QUARTERS]]
            known.shape, known.varied = _shape(act), [*before, row[:QUARTERS]][-MAX_ROWS:]
            known.rows, known.idle, known.idle_ms = [row], 0, 0
            if len(known.varied) >= _MIN_VARIED:
                return VARIES
            return self._learned(act, again.results[0])
        row[QUARTERS] = again.quarters
        if again.quarters == FULL:
            known.idle += 1
            known.idle_ms += max(0, act.time_ms - int(known.rows[-1][0]))
        elif again.quarters == AFTER_CHANGE:
            known.idle = known.idle_ms = 0
        known.rows.append(row)
        del known.rows[:-MAX_ROWS]
        return again.mark

    def _at_once(self, fingerprint: str, actions: int) -> None:
        """Notes one more of several identical calls that were made at once."""
        known = self.calls.get(fingerprint)
        if known is not None:
            known.done = max(known.done, actions)
        else:
            once = self.once[fingerprint]
            once[1] = max(int(once[1]), actions)

    def _is_nameless(self, act: Observed) -> bool:
        """Whether it is a result that came without its beginning, so that nobody knows of what."""
        return act.is_result and self.proposes and act.call is None and act.args is None and not act.event.targets

    def _learned(self, act: Observed, result: str) -> str:
        """What a call was that is not stale."""
        index = act.index
        if act.changes and _is_change(act):
            self.changed = self.news = index if index > self.news else self.news
            return CHANGE
        if result == "empty" or act.action in TALK:
            return WAIT if act.waits else NOTHING
        if _did_nothing(act):
            return NOTHING
        if index > self.news:  # noqa: PLR1730 - for nearly every result: max() takes five times as long
            self.news = index
        return NEWS


def sort_of(act: Observed) -> Sort:
    """What the call does."""
    if act.losses:
        return Sort.DESTRUCTIVE
    effect = act.effect
    if effect is _WRITE or (act.runs and act.changes):
        return Sort.IDEMPOTENT
    if effect is _MUTATE or effect is _NETWORK:
        return Sort.MUTATING
    if not act.changes or len(act.event.output_head or "") >= MIN_ANSWER_CHARS:
        return Sort.READ
    return Sort.UNKNOWN


def _is_of_one_turn(act: Observed, known: Known) -> bool:
    """Whether the call and the same call before it are of one model turn."""
    if act.is_result:
        return int(known.rows[-1][1]) >= act.step
    return abs(act.time_ms - int(known.rows[-1][0])) < _AT_ONCE_MS


def _is_nothing(act: Observed) -> bool:
    """Whether a call that failed did nothing: it was none, or was broken off since another one of its turn failed."""
    return act.unread or act.cancelled


def _is_change(act: Observed) -> bool:
    """Whether what changes something, or may, is known to do so and was carried out."""
    if act.runs or not act.changed:
        return act.changed
    hint = act.event.effect is not None or (act.call is not None and act.call.effect is not _READ)
    return hint or act.tool.effect is not None


def _did_nothing(act: Observed) -> bool:
    """Whether it was to do something and did not: what it told of that is nothing to go on with.

    A program that failed can tell much, such as which tests do.
    """
    if act.runs:
        return act.failed and not act.got_on and failing(act.event.error or act.event.output_head or "") < 0
    return act.tool.effect in CHANGING and not act.changed


def _result(act: Observed) -> str:
    """What came of the call: equal texts mean the same; `?` or nothing when it is not known."""
    if not act.is_result:
        return ""
    event = act.event
    failed = "!" if act.failed else ""
    if failed and event.error and not act.timed_out:
        return failed + digest(event.error.encode())
    size, head, output_digest = event.output_bytes, event.output_head, event.output_digest
    if size == 0 or head == "":
        return f"{failed}empty"
    if output_digest:
        return f"{failed}{output_digest[-12:]}"
    if head:
        if size is not None and head[0] == "<" and head[-1] == ">" and " " not in head:
            return f"?{size}"  # the name of a type: our agent's side could not read what came back
        return failed + digest(head.encode()) + ("" if size is None else f":{size}")
    return failed or ("" if size is None else f"?{size}")


def _plain_result(act: Observed, clean: Callable[[str], str], *, waiting: bool) -> str:
    """The same without what varies by itself; empty when there is no such form."""
    event = act.event
    if act.failed and not act.timed_out:
        key = act.error_key(Normalization.LOW)
        if key:
            return f"!{digest((clean(key) if waiting else key).encode())}"
    head, size = event.output_head, event.output_bytes
    if not head:
        return ""
    whole = not head.endswith("[cut]") and (size is None or len(head.encode()) >= size)
    if whole:
        return f"~{digest(clean(head).encode())}"
    return f"~{digest(clean(head).encode())}:{size}" if act.runs or waiting else ""


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    text, colon, size = one.partition(":")
    other_text, other_colon, other_size = other.partition(":")
    return bool(colon and other_colon) and text == other_text and abs(int(size) - int(other_size)) <= _SIZE_BYTES


def _shape(act: Observed) -> str:
    """The beginning of a result without what looks random, and its size; empty when nothing of it looks so."""
    event = act.event
    head, size = event.output_head, event.output_bytes
    if act.failed or not head or not size:
        return ""
    text = clean_result(head)
    plain = _LONG.sub(_unless_random, text)
    return "" if plain == text else f"{digest(plain.encode())}:{size}"


def _unless_random(long: re.Match[str]) -> str:
    """A long word as it is, unless it has digits and letters."""
    return "<random>" if _DIGIT.search(long[0]) and _LETTER.search(long[0]) else long[0]


def _same_shape(one: str, other: str) -> bool:
    return one != "" and _alike(one, other)


def _is_spaced(act: Observed, known: Known) -> bool:
    if act.index > int(known.rows[-1][1]) + 1:
        return False
    began_ms = act.call.time_ms if act.call is not None else act.time_ms - int(act.event.duration_ms or 0)
    return began_ms - int(known.rows[-1][0]) >= _SPACING_MS


def _is_pending(act: Observed) -> bool:
    """Whether the result says that something is not finished yet."""
    text = act.event.error or act.event.output_head or ""
    return _PENDING.search(text[:_PENDING_CHARS]) is not None
