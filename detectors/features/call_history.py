"""The recent calls of a session: the results of each, and what was new since.

A call is stale when the same call had the same result before: it returned nothing new. It counts in full when nothing
was learned since the last time, a quarter when something was, and not at all when something was changed: repeating a
test after an edit is normal work. A repetition just after the model's context was condensed counts in full, whatever
happened in between, since the same round starts again. Identical calls of one model turn count as one.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Raw, field, msgpack

from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features.call import Again, Known
from haltline.detectors.features.call_changes import CHANGING
from haltline.detectors.features.error_normalization import Normalization, failing
from haltline.detectors.features.fingerprint import clean_result, clean_waiting, digest
from haltline.detectors.features.observation_protocol import Observed
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.stored import Stored

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_WRITE, _MUTATE, _NETWORK, _READ = Effect.WRITE, Effect.MUTATE, Effect.NETWORK, Effect.READ

MAX_ONCE = 16
"""Maximum number of stored calls that were made once; the oldest is dropped first."""
MAX_CALLS = 16
"""Maximum number of stored calls that were repeated; the least recently made is dropped first."""
MAX_ROWS = 16
"""Maximum number of stored repetitions per call."""
MAX_TRAIL = 32
"""Maximum number of calls stored in order."""
MAX_POINTS = 96
_MAX_RESULTS = 4
MIN_ANSWER_CHARS = 80
"""A result of at least this length is more than a receipt."""
_SPACING_MS = 60_000
"""An agent that is idle for this long before it repeats a call is waiting for something."""
_AT_ONCE_MS = 100
"""Attempts at most this far apart are of one model turn, in a session that publishes no results."""
_SIZE_BYTES = 4
"""Tolerance for the sizes of two outputs with the same beginning, since timings vary."""

FULL, AFTER_NEWS, AFTER_CHANGE = 4, 1, 0
"""The weight of a repetition, in quarters."""
QUARTERS = 4
"""Position of the weight in a row."""
STALE, ONCE, RECEIPT, BLIND, NEWS, CHANGE, WAIT, NOTHING = "s", "o", "r", "b", "n", "c", "w", "e"
VARIES = "v"
"""Repeated, and the results differ only in random-looking parts."""
"""The kind of a call, as the last letter of its entry in the trail. ONCE is stale for the first time, such as a
repeated lookup. RECEIPT is stale, but the result is only the answer of a call that changes something, or may. BLIND is
repeated with an unknown result."""
POINTS = {STALE: 3, ONCE: 1, NEWS: -2, CHANGE: -6}
"""The points that each adds to a session that repeats itself, in thirds; the others add none."""

_MIN_VARIED = 3
"""From this many random-looking results of one call on, another one is not new."""
_LONG = re.compile(r"(?<![\w+/=-])[\w+/=-]{16,}")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")

_PENDING = expression_of("a result is pending")
_PENDING_CHARS = 400
_PARTS = re.compile(r"\n|\", ?\"|[}\]],? ?[{\[]|[\[{] ?[\"{]|[\"}] ?[\]}]")
_SEPARATORS = ' \t{}[]",'
_FEW = 2
"""Lines of a result whose order matters."""


class Sort(StrEnum):
    """The kind of a call, which determines how often it may be repeated."""

    READ = "read"
    """Reads, or runs a program that changes nothing; or is unknown, and has a long answer."""
    IDEMPOTENT = "idempotent"
    """Writes: a repetition leaves the same state."""
    MUTATING = "mutating"
    """Changes what others rely on, or sends something."""
    DESTRUCTIVE = "destructive"
    UNKNOWN = "unknown"
    """A tool with unknown effects: it may step through something."""


_pack = msgpack.Encoder().encode
_entry = msgpack.Decoder(tuple[str, int, int, int, str, int, str]).decode


class CallHistory(Stored):
    """The calls of one session. Plain JSON values: part of its state."""

    once: dict[str, Raw] = field(default_factory=dict)
    """By fingerprint, for calls made once: `[result, done, time_ms, index, event_id, offset, variant]`. Encoded: few of
    them are read again, and each object costs time when the state is read and written."""
    calls: dict[str, Known] = field(default_factory=dict)
    """By fingerprint, for repeated calls."""
    trail: list[str] = field(default_factory=list)
    """Fingerprint and kind (one letter) of each recent call, in the order of their results."""
    resulted: bool = False
    """Whether the session publishes results; without them only attempts are counted."""
    proposes: bool = False
    """Whether the session publishes attempts; then a result without one means that the attempt is late or lost."""
    news: int = 0
    """Index of the last action that returned something new or changed something."""
    changed: int = 0
    waited: int = 0
    points: int = 0
    """How much known results outweigh new ones, in thirds; never below 0."""

    def look(self, act: Observed) -> Again | None:
        """The history of this call; None if it is new, or one of several made at the same time."""
        counted_already = not act.is_result and (self.resulted or not act.is_attempt)
        if counted_already or _is_nothing(act):
            return None
        fingerprint, _, variant = act.fingerprint.partition(".")
        known = self._known(fingerprint)
        if known is None or act.index <= known.done or self._is_nameless(act) or _is_of_one_turn(act, known):
            return None
        if variant != known.variant and act.changes:
            return Again(known, False, AFTER_CHANGE, False, False, [_result(act)], CHANGE)
        results = [_result(act)]
        stale = results[0] in known.results
        last = int(known.rows[-1][1])
        if not stale and not act.steps_through:
            waiting = act.waits or self.waited > last or is_pending(act)
            results.append(_plain_result(act, clean_waiting if waiting else clean_result, waiting=waiting))
            stale = results[1] != "" and any(_alike(results[1], other) for other in known.results)
        quarters = FULL
        if self.news > last:
            quarters = AFTER_CHANGE if self.changed > last else AFTER_NEWS
            if not act.runs and act.tool.effect is None and act.changes:
                quarters = AFTER_CHANGE  # a tool of which nothing is known, such as a connection that is opened again
        if quarters != AFTER_CHANGE and act.may_have_changed_since(last):
            quarters = AFTER_CHANGE
        begins_again = stale and act.was_condensed_between(last, act.index)
        if begins_again:
            quarters = FULL  # whatever was learned or done since is no longer in the context
        waits = (
            act.waits or self.waited > last or (stale and (_is_spaced(act, known) or is_pending(act) or act.backs_off))
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
        return Again(known, stale, quarters, waits, blind, results, mark, varies and _alike(_shape(act), known.shape))

    def rows(self, fingerprint: str) -> list[list[int | float | str]]:
        """The stored times that a call was made since its last new result."""
        known = self._known(fingerprint)
        return [] if known is None else known.rows

    def note(self, act: Observed, actions: int) -> None:  # noqa: PLR0912 - one case after another
        """Record a call after the detectors saw it; `actions`: attempts of the session so far."""
        again = None
        if not act.is_result:
            self.proposes = True
            if self.resulted:
                return
            again = act.again
        elif self.resulted:
            again = act.again
        else:
            self._reset()
        fingerprint, _, variant = act.fingerprint.partition(".")
        if not fingerprint or _is_nothing(act):
            return
        if act.call is None and self._is_nameless(act):
            self._note_nameless(act, actions)
            return
        if again is not None:
            mark = self._again(act, again, actions)
            again.known.variant = variant
            if self.calls.pop(fingerprint, None) is None:
                self.once.pop(fingerprint, None)
            self.calls[fingerprint] = again.known
            if len(self.calls) > MAX_CALLS:
                del self.calls[next(iter(self.calls))]
        elif (known := self._known(fingerprint)) is not None:  # one of several identical calls made at the same time
            known.done = max(known.done, actions)
            if fingerprint not in self.calls:
                self._store_once(fingerprint, known)
            return
        else:
            result = _result(act)
            row: list[int | float | str] = [act.time_ms, act.index, act.event.event_id, act.offset, FULL]
            self._store_once(fingerprint, Known([result], [row], actions, variant))
            mark = self._learned(act, result)
        if act.waits:
            self.waited = max(self.waited, act.index)
        self._add_to_trail(fingerprint, mark)

    def note_refused(self) -> None:
        """Record that a call was refused: the session publishes results, but this one says nothing about the call."""
        if not self.resulted:
            self._reset()

    def _reset(self) -> None:
        """Restart: without results, attempts had been counted."""
        self.resulted = True
        self.once, self.calls, self.trail, self.points = {}, {}, [], 0

    def _add_to_trail(self, fingerprint: str, mark: str) -> None:
        if mark in POINTS:
            self.points = min(MAX_POINTS, max(0, self.points + POINTS[mark]))
        trail = self.trail
        trail.append(fingerprint + mark)
        del trail[:-MAX_TRAIL]

    def _note_nameless(self, act: Observed, actions: int) -> None:
        """Record a result without an attempt: its tool may show that something was changed."""
        if act.tool.effect in CHANGING and not act.failed:
            self.changed = self.news = max(self.news, actions + 1)  # after all attempts so far

    def _again(self, act: Observed, again: Again, actions: int) -> str:
        """Record a repeated call, and return its kind."""
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

    def _known(self, fingerprint: str) -> Known | None:
        known = self.calls.get(fingerprint)
        if known is None and (entry := self.once.get(fingerprint)) is not None:
            once = _entry(entry)
            known = Known([once[0]], [[*once[2:6], FULL]], once[1], once[6])
        return known

    def _store_once(self, fingerprint: str, known: Known) -> None:
        """Store a call made once."""
        once = self.once
        once[fingerprint] = Raw(_pack((known.results[0], known.done, *known.rows[0][:QUARTERS], known.variant)))
        if len(once) > MAX_ONCE:
            del once[next(iter(once))]

    def _is_nameless(self, act: Observed) -> bool:
        """Return whether it is a result without an attempt, so that its call is unknown."""
        return act.is_result and self.proposes and act.call is None and act.args is None and not act.event.targets

    def _learned(self, act: Observed, result: str) -> str:
        """The kind of a call that is not stale."""
        index = act.index
        if act.changes and _is_change(act):
            self.changed = self.news = index if index > self.news else self.news
            return CHANGE
        if result == "empty" or tools.thinks(act.action):
            return WAIT if act.waits else NOTHING
        if _did_nothing(act):
            return NOTHING
        if index > self.news:  # noqa: PLR1730 - for nearly every result: max() is a call
            self.news = index
        return NEWS


def sort_of(act: Observed) -> Sort:
    """The kind of a call, by its effects."""
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
    """Return whether this call and the previous same call are of one model turn."""
    if act.is_result:
        return int(known.rows[-1][1]) >= act.step
    return abs(act.time_ms - int(known.rows[-1][0])) < _AT_ONCE_MS


def _is_nothing(act: Observed) -> bool:
    """Return whether a result says nothing: its call was unparsable, or cancelled, or it is a placeholder.

    A call is cancelled if another one of its turn failed. What a placeholder stands for may have changed.
    """
    return (act.unread or act.cancelled) if act.failed else act.is_result and act.shows_placeholder


def _is_change(act: Observed) -> bool:
    """Return whether a call that changes something, or may, is known to do so and was executed."""
    if act.runs or not act.changed:
        return act.changed
    hint = act.event.effect is not None or (act.call is not None and act.call.effect is not _READ)
    return hint or act.tool.effect is not None


def _did_nothing(act: Observed) -> bool:
    """Return whether it was to do something and did not, so that its result is not new.

    A failed program can still report much, such as which tests fail.
    """
    if act.runs:
        return act.failed and not act.got_on and failing(act.event.error or act.event.output_head or "") < 0
    return act.tool.effect in CHANGING and not act.changed


def _result(act: Observed) -> str:
    """A key of the call's result, equal for equal results; `?` and a size, or empty, if it is unknown."""
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
            return f"?{size}"  # the name of a type: the agent's side could not read the result
        return failed + digest(head.encode()) + ("" if size is None else f":{size}")
    return failed or ("" if size is None else f"?{size}")


def _plain_result(act: Observed, clean: Callable[[str], str], *, waiting: bool) -> str:
    """The key of the masked result; empty if there is none."""
    event = act.event
    if act.failed and not act.timed_out:
        # A wait that its time ended may say how far it got: the numbers in it are progress.
        key = event.error or event.output_head if act.waits else act.error_key(Normalization.LOW)
        if key:
            return f"!{digest((clean(key) if waiting else key).encode())}"
    head, size = event.output_head, event.output_bytes
    if not head:
        return ""
    whole = not head.endswith("[cut]") and (size is None or len(head.encode()) >= size)
    if whole:
        return f"~{digest((clean(head) if act.changes else _sorted(clean(head))).encode())}"
    return f"~{digest(clean(head).encode())}:{size}" if act.runs or waiting else ""


def _sorted(text: str) -> str:
    """The parts of a result in one order: a search that lists the same in another order found nothing new."""
    parts = _PARTS.split(text)
    return "\n".join(sorted(part.strip(_SEPARATORS) for part in parts)) if len(parts) > _FEW else text


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    text, colon, size = one.partition(":")
    other_text, other_colon, other_size = other.partition(":")
    return bool(colon and other_colon) and text == other_text and abs(int(size) - int(other_size)) <= _SIZE_BYTES


def _shape(act: Observed) -> str:
    """The masked beginning of a result, and its size; empty if nothing in it looks random."""
    event = act.event
    head, size = event.output_head, event.output_bytes
    if act.failed or not head or not size:
        return ""
    text = clean_result(head)
    plain = _LONG.sub(_unless_random, text)
    return "" if plain == text else f"{digest(plain.encode())}:{size}"


def _unless_random(long: re.Match[str]) -> str:
    """Mask a long word if it has digits and letters."""
    return "<random>" if _DIGIT.search(long[0]) and _LETTER.search(long[0]) else long[0]


def _is_spaced(act: Observed, known: Known) -> bool:
    if act.index > int(known.rows[-1][1]) + 1:
        return False
    began_ms = act.call.time_ms if act.call is not None else act.time_ms - int(act.event.duration_ms or 0)
    return began_ms - int(known.rows[-1][0]) >= _SPACING_MS


def is_pending(act: Observed) -> bool:
    """Return whether the result says that something is not finished yet."""
    text = act.event.error or act.event.output_head or ""
    return _PENDING.search(text[:_PENDING_CHARS].lower()) is not None
