"""The session repeats the same call again and again, without effect.

Fires: `identical_calls` when a call returns the same result as before and its count reaches `medium`, `high` or
    `critical` of its kind (the first, second and third number of a setting), within `window_s` or the last
    `last_actions` actions. A repetition counts in full if nothing was learned since the last time, a quarter if
    something was; the count restarts if something was changed. Calls are the same if they differ only in what varies by
    itself (see `fingerprint`). Calls without known results count half, and four fifths if they run no program, change
    nothing that is known, and nothing was done in between. `repeated_calls` if some of them count less, or nothing is
    known of the tool.
    `no_visible_effect` by `unseen` calls in a row of a tool that may change something, whose long results begin alike:
    a click without effect. `varying_answers` by `varying` repetitions of the same call whose results all differ, but
    only in random-looking parts (same size, and alike except for hex and base64). `same_edit` by `edits` within
    `last_actions` of one tool and file whose arguments differ in numbers only, and by `equal_edits` that do not differ
    at all, whatever was run in between: an edit that has to be repeated did not help.
    `idle_commands` by that many command lines within `last_actions` that do nothing (`:`, `: ls`, a redirect alone),
    whatever is done in between: the agent does not notice that nothing is run.
Quiet: another result, which is progress: a pager, a stepper, a counter; a test that is repeated after an edit (for
    errors that edits do not fix, see `error_repetition`); edits that failed; results that the agent's side replaces by
    a placeholder, such as an image; calls that wait for something (see `polling`); identical calls of one model turn,
    which count as one. Acts that others see, such as messages: see `duplicate_acts`.
Misses: calls that are worded differently each time; results that vary in a way that looks like progress; repetitions
    with more than `last_actions` other calls between them, or with a change between each and the next.
"""

from functools import lru_cache
from typing import Annotated, ClassVar, TypeAlias

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.features.call import Again
from haltline.detectors.features.call_history import (
    AFTER_CHANGE,
    FULL,
    MAX_ROWS,
    MIN_ANSWER_CHARS,
    QUARTERS,
    Sort,
    sort_of,
)
from haltline.detectors.features.fingerprint import clean_result, digest
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.tool_classifier import UNKNOWN, short_name
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.severity_counts import ASCENDING, ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, Entry, entry, evidence, is_near, seconds
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding
from haltline.schemas.record import canonical_json
from haltline.schemas.stored import Stored
from haltline.schemas.tool_names import words

_Count = Annotated[int, Field(ge=2, le=MAX_ROWS), Stricter.LOWER]
Counts: TypeAlias = Annotated[tuple[_Count, _Count, _Count], ASCENDING]
"""Thresholds of medium, high and critical findings: repetitions."""


_KEY = 4
_BLIND, _BLIND_IN_A_ROW = 0.5, 0.8
"""The weights of calls without known results."""
_STEPS = re.compile(r"scroll|next|prev|page|step|press|key|more|forward|back|continue|advance", re.IGNORECASE)
"""Tools that are called repeatedly to advance."""
_MOVES = words_of("verbs of games and controls")
"""So are these, if a word of their name is one of them; `up` or `left` is not enough: `look_up`."""
_STEP_WORDS = expression_of("a command steps through something")
"""Input to a debugger or a pager to advance."""
_PREPARES = re.compile(r"\A(?:\w+[_-])?(?:(?:re)?(?:start|connect)|reset|login)(?:[_-]\w+)?(?:\s|\Z)", re.IGNORECASE)
"""Calls that start a try."""
_PRINTS = re.compile(r"\A\s*+(?:echo|printf)\s[^|&;<>`$()\n]*+\Z")
_EDITS = re.compile(r"edit|replace|patch|write", re.IGNORECASE)
_NOTES = re.compile(r"to-?_?dos?(?:$|[_A-Z])|scratchpad", re.IGNORECASE)
"""Tools by which the agent records its plans; they change nothing else."""
_NUMBERS = re.compile(rb"\d+(?:\.\d+)?")


class RepetitionState(Stored):
    """The last repetitions and edits."""

    nearness: float = 0.0
    shown: str = ""
    """Digest of the beginning of the last repeated call's result."""
    unseen: list[Entry] = field(default_factory=list)
    """That call, and the same calls just before it whose results began in the same way."""
    edits: list[Entry] = field(default_factory=list)
    """The last edits, each with a digest without its numbers, and one with them."""
    idle: list[Entry] = field(default_factory=list)
    """The last command lines that do nothing."""


@settings
class Repetition(Detector[RepetitionState]):
    """Identical calls with the same result; the counts depend on the kind of call."""

    id: ClassVar[str] = "repetition"
    sees: ClassVar[Trait] = Trait.AGAIN | Trait.BEGUN | Trait.REFUSED | Trait.FAILURE
    recalls: ClassVar[bool] = True

    read: Counts = (3, 4, 4)
    """Calls that read, and programs that change nothing."""
    idempotent: Counts = (3, 4, 5)
    """Calls that may be repeated without harm."""
    mutating: Counts = (3, 4, 5)
    """Calls that change something."""
    destructive: Counts = (2, 3, 3)
    """Calls that destroy something."""
    unknown: Counts = (4, 5, 5)
    """Tools with unknown effects and short answers: some step through something."""
    stepping: ManyCounts = (10, 20, 40)
    """Unknown tools whose names suggest repeated calls, such as `next`; in a row."""
    printing: Counts = (3, 9, 12)
    """Command lines that only print fixed words, such as `echo done`."""
    failing: Counts = (3, 4, 4)
    """Calls of any kind that fail each time."""
    unseen: Counts = (4, 6, 10)
    """Calls in a row whose effect does not show in the beginning of their results."""
    varying: Counts = (6, 8, 12)
    """Repetitions of a call whose results differ in random-looking parts."""
    edits: Counts = (8, 12, 16)
    """Edits of one file that differ in numbers only."""
    equal_edits: Counts = (3, 4, 4)
    """Edits of one file that do not differ."""
    idle_commands: Counts = (3, 5, 6)
    """Command lines that do nothing."""
    window_s: Annotated[float, Field(ge=0, le=2_592_000), Stricter.HIGHER] = 60.0
    """Seconds. Calls within this time count together."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 20
    """Actions. Calls within this many of the session's last actions count together."""

    def concerns(self, act: Observation) -> bool:
        """Calls that were made before with the same result, known or possible; and edits."""
        if act.refused or (act.failed and act.call is not None):
            return True
        if act.is_attempt and (_is_edit(act) or act.does_nothing):
            return True
        if tools.thinks(act.action):
            return False  # see `monologue`
        again = act.again
        return again is not None and not again.waits and (again.stale or again.varies or not act.runs)

    def observe(self, state: RepetitionState, act: Observation) -> Finding | None:
        """Count a repetition, or remove an edit that was not made."""
        if act.call is not None and (act.refused or act.failed):
            attempt = act.call.event_id
            state.edits = [edit for edit in state.edits if edit[EVENT_ID] != attempt]
        if act.refused:
            return None
        found = (self._repeated(state, act), self._begun(state, act) if act.is_attempt else None)
        return max((one for one in found if one is not None), key=lambda one: one.severity, default=None)

    def _repeated(self, state: RepetitionState, act: Observation) -> Finding | None:
        """Count a call that was made before."""
        again = act.again
        if again is None or again.waits or tools.thinks(act.action):
            return None
        if again.varies:
            return self._varied(act, again)
        if again.stale:
            return self._identical(state, act, again)
        return None if act.runs else self._unseen(state, act, again)

    def _begun(self, state: RepetitionState, act: Observation) -> Finding | None:
        """Count an attempt, whatever its result will be."""
        if act.does_nothing:
            return self._idle(state, act)
        return self._edited(state, act) if _is_edit(act) else None

    def _identical(self, state: RepetitionState, act: Observation, again: Again) -> Finding | None:
        newest: Entry = [act.time_ms, act.index, act.event.event_id, act.offset, again.quarters]
        near = [row for row in again.known.rows if is_near(row, act.time_ms, act.index, self)]
        rows = _since_change([*near, newest])
        sort = self._sort(act)
        if _PREPARES.match(act.head if act.runs else act.action) and any(r[QUARTERS] != FULL for r in rows[1:]):
            sort = "stepping"  # for another try each time
        counts: Counts = getattr(self, sort)
        count = (FULL + sum(int(r[QUARTERS]) for r in rows[1:])) / FULL
        if len(rows) > MAX_ROWS:  # more than are stored
            count += max(0, again.known.idle + 2 - len(rows))
        if again.blind:
            count *= _BLIND_IN_A_ROW if _is_in_a_row(act, rows) else _BLIND
        state.nearness = min(1.0, count / counts[0])
        if count < counts[0] or len(rows) < 2:
            return None
        what = f"{len(rows)} times the same {sort} call with the same result in {seconds(rows)}s"
        weighed = "" if count == len(rows) else f", counted as {count:g}"
        return self.counted(
            "repeated_calls" if weighed or sort == Sort.UNKNOWN else "identical_calls",
            count,
            counts,
            f"{what}{weighed}: {act.subject:.200}",
            evidence(act, rows),
            also=self.thresholds("window_s", "last_actions"),
            confidence=min(1.0, count / counts[2]) * (0.6 if again.blind else 1.0),
            calls=len(rows),
            counted=count,
            sort=sort,
            fingerprint=act.fingerprint,
        )

    def _sort(self, act: Observation) -> str:
        """The name of the setting with the counts for this call."""
        if act.failed:
            return "failing"
        if act.runs and _PRINTS.match(act.head) is not None:
            return "printing"
        sort = sort_of(act)
        return "stepping" if sort is Sort.UNKNOWN and _advances(act.action) else sort.value

    def _unseen(self, state: RepetitionState, act: Observation, again: Again) -> Finding | None:
        """Count a call that may have changed something, just after the same call, with a result that begins alike."""
        head, size = act.event.output_head or "", act.event.output_bytes or 0
        last = again.known.rows[-1]
        alike = (
            (act.changes or sort_of(act) is Sort.MUTATING)
            and len(head) >= MIN_ANSWER_CHARS
            and size > len(head)
            and act.index == int(last[INDEX]) + 1
        )
        if not alike or act.failed or _STEPS.search(act.action):
            state.unseen = []
            return None
        shown = f"{act.fingerprint} {digest(clean_result(head).encode())}"
        if shown != state.shown or not state.unseen or state.unseen[-1][INDEX] != last[INDEX]:
            state.shown, state.unseen = shown, [last[: QUARTERS + 1]]
        state.unseen.append(entry(act, FULL))
        del state.unseen[:-MAX_ROWS]
        calls = len(state.unseen)
        if calls < self.unseen[0]:
            return None
        reason = f"{calls} times the same call in a row, with results that begin alike: {act.subject:.200}"
        events, call = evidence(act, state.unseen), act.fingerprint
        return self.counted(
            "no_visible_effect", calls, self.unseen, reason, events, confidence=0.5, calls=calls, fingerprint=call
        )

    def _varied(self, act: Observation, again: Again) -> Finding | None:
        """Count a repetition with another result that looks similar."""
        rows = [*again.known.varied, entry(act)]
        calls = len(rows)
        if calls < self.varying[0] or _STEPS.search(act.action) or _STEP_WORDS.search(act.head):
            return None
        what = f"{calls} times the same call in {seconds(rows)}s, and the results differ only in what looks random"
        reason, events = f"{what}: {act.subject:.200}", evidence(act, rows)
        return self.counted(
            "varying_answers", calls, self.varying, reason, events, calls=calls, fingerprint=act.fingerprint
        )

    def _edited(self, state: RepetitionState, act: Observation) -> Finding | None:
        """Count an edit that may have been made before, unchanged or with other numbers."""
        tool, args = f"{act.action} {act.targets}".encode(), canonical_json(act.args or {})
        newest = entry(act, digest(tool + _NUMBERS.sub(b"#", args)), digest(tool + args))
        oldest = act.index - self.last_actions
        state.edits = [*(e for e in state.edits if int(e[INDEX]) > oldest), newest][-MAX_ROWS:]
        key, whole = newest[_KEY], newest[_KEY:]
        alike = [e for e in state.edits if e[_KEY] == key]
        equal = [e for e in alike if e[_KEY:] == whole]
        return self._same_edit(act, equal, self.equal_edits, "are the same") or self._same_edit(
            act, alike, self.edits, "differ in numbers only"
        )

    def _idle(self, state: RepetitionState, act: Observation) -> Finding | None:
        """Count a command line that does nothing."""
        oldest = act.index - self.last_actions
        state.idle = [*(e for e in state.idle if int(e[INDEX]) > oldest), entry(act)][-MAX_ROWS:]
        lines = len(state.idle)
        if lines < self.idle_commands[0]:
            return None
        reason = f"{lines} command lines that do nothing, the last {act.text[:120]!r}"
        also = self.thresholds("last_actions")
        return self.counted(
            "idle_commands", lines, self.idle_commands, reason, evidence(act, state.idle), also=also, commands=lines
        )

    def _same_edit(self, act: Observation, rows: list[Entry], counts: Counts, how: str) -> Finding | None:
        edits = len(rows)
        if edits < counts[0]:
            return None
        reason, events = f"{edits} edits in {seconds(rows)}s that {how}: {act.subject:.200}", evidence(act, rows)
        return self.counted(
            "same_edit", edits, counts, reason, events, also=self.thresholds("last_actions"), edits=edits
        )


@lru_cache(maxsize=1024)
def _advances(action: str) -> bool:
    return _STEPS.search(action) is not None or not _MOVES.isdisjoint(words(short_name(action)))


def _is_in_a_row(act: Observation, rows: list[Entry]) -> bool:
    """Return whether a call that runs no program, and changes nothing known, was made with no other one in between."""
    in_a_row = int(rows[-1][INDEX]) - int(rows[0][INDEX]) == len(rows) - 1
    return in_a_row and (act.tool.effect is None or act.tool.effect is Effect.READ)


def _is_edit(act: Observation) -> bool:
    """Return whether a tool edits the text of one file, by its name and target."""
    use = act.tool.use
    if not act.args or not (_names_an_edit(act.action) if use is None else use.edits) or not act.changes:
        return False
    return act.targets[0].startswith("path=") or act.targets[0] == UNKNOWN


@lru_cache(maxsize=1024)
def _names_an_edit(action: str) -> bool:
    return _EDITS.search(action) is not None and _NOTES.search(action) is None


def _since_change(rows: list[Entry]) -> list[Entry]:
    """The repetitions since the last change, including the first after it."""
    restarts = [place for place, row in enumerate(rows) if row[QUARTERS] == AFTER_CHANGE]
    return rows[restarts[-1] :] if restarts else rows
