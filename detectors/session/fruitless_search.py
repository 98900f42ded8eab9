"""The session searches again and again, differently each time, and finds nothing.

Fires: `fruitless_search` when `medium`, `high` or `critical` lookups in a row found nothing: an empty result, or one
    that begins with a statement of that. The lookups may all differ.
    `blind_guessing` by `guesses` calls of one tool that were executed and got the same short negative answer ("Wrong
    flag!", "Access denied", "Try again"; ignoring numbers, quoted text and words of the call itself), whatever was
    tried. A guess after a change counts half: a program that is fixed and run again is no guess.
    `refused_submissions` by `submissions` calls of a tool that submits an answer or a password and got a negative
    answer, whatever was done in between; the first number is for identical submissions, the others are for any.
    `uniform_answers` by `uniform` different command lines, among the last `last_actions` actions, that query a service
    with the same programs and got the same answer, ignoring numbers and their own words: the session learns nothing
    from them.
    `nothing_new` by `nothing_new` lookups in a row of one kind whose whole results had no new words for the session: a
    tool that searches, whatever is searched for, with no page opened in between; or a tool that reads, or `sed -n`, of
    the same file, whichever part of it.
    `same_answer` by `same_answer` searches in a row, in other words each time, that got the very same long result. Also
    by calls of an unknown tool; but what that does may not show in its results, so that it is never critical.
Quiet: after a lookup that finds something, and after any other call that did something, except thoughts; lookups
    without known results. For guesses: after a call whose result was new; receipts ("ok", "created", "sent"), and any
    other answer that is not negative. For `nothing_new`: results whose producer does not count new words.
Misses: long results that report only at the end that nothing was found; searches that always find something other than
    what is needed; more than `critical` checks in a row that something is absent, which are not distinguished from
    searches; guesses with long answers, with differently worded ones, or with errors (see `error_repetition`).
"""

from functools import lru_cache
from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.detectors.features.error_normalization import ANSI
from haltline.detectors.features.fingerprint import digest
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.severity_counts import ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect, Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Reading
from haltline.schemas.stored import Stored
from haltline.schemas.tool_names import words

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_SHELL, _READ = Reading.SHELL, Effect.READ

_MAX_ROWS = 16
_READ_CHARS = 120
_NOTHING = expression_of("a search found nothing", re.IGNORECASE)
_NOTHING_BEGINS = "nNfFeE"
"""The letters with which a match can begin."""
_LOOKS = expression_of("a command line searches")
_NO_CHARS = 400
"""A longer answer contains more information than a refusal."""
_NO = expression_of("an answer is negative", re.IGNORECASE)
_NO_CUES = texts_of("signs of a negative answer")
"""Every negative answer contains one of these, except those that end with "no"."""
_MARKS = "".join(chr(code) for code in range(128) if not (chr(code).isalnum() or chr(code) == "_"))
_VARYING = re.compile(r"(?<!\w)'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|[0-9]+|\W+")
_MAX_ANSWERS = 4
_MAX_SEEN = 32
_HALVES = 4
"""Position in an entry: the weight of all guesses up to it, in halves."""
_SUBMITS = expression_of("a tool submits an answer", re.IGNORECASE)
"""Tools that submit one thing that is right or wrong; not answers to questions, as each question is another one."""
_SAME = 4
"""Position in an entry of a submission or a lookup: a digest of its arguments."""
_ANSWER, _SIZE, _CALL = range(4, 7)
"""Positions in a command line's entry: its programs and answer, the answer's size, and a digest of the line."""
_QUERY = 5
"""Position in an entry of calls with the same long result, after a digest of it (`_ANSWER`): the call's fingerprint."""
_LONG_BYTES = 200
_PROGRAMS = re.compile(r"(?:^|[|;&(]\s*)(?:\w+=\S*\s+)*([\w./+-]+)")
_MAX_PROGRAMS = 3
_LEAST_CHARS = 8
"""A shorter answer is a receipt; so is one that reports success, since the same step for many things is normal work."""
_CLIENTS = re.compile(r"\b(?:curl|wget|httpie|https?|ncat|netcat|nc|telnet|openssl|socat|smbclient|ldapsearch|dig)\b")
"""Programs that query a service; with others, the same answer may mean that the same was done for another thing."""
_CLIENT_HINTS = texts_of("signs of a client")
"""Every command line with one of these programs contains one of these."""
_RECEIPT = expression_of("an answer is a receipt", re.IGNORECASE)
_METER = re.compile(r"^[ \t]*(?:% Total|Dload).*$|(?<![ \d.:kMG-])[ \d.:kMG-]*--:--:--[ \d.:kMG-]*", re.MULTILINE)
"""The progress output of `curl`, before or after the answer."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ID = re.compile(r"(?<![\w%.+=~-])(?=[\w%.+=~-]*\d)[\w%.+=~-]{20,}")
"""An id, a digest or encoded data, which differ each time."""
_NEAR_SIZE = 0.03
"""Relative difference below which sizes of answers count as equal."""
_OLD_SHARE = 10
"""A result has nothing new if less than one in so many of its words is new to the session."""
_SLICE = re.compile(r"\A\s*(?:cd\s+[^\s;&|]+\s*(?:&&|;)\s*)?(?:nl\s[^;&|]*\|\s*)?sed\s+-n\s")
_KIND_CHARS = 400
_NUMBER = re.compile(r"\d+")


class FruitlessSearchState(Stored):
    """The last lookups in a row without results, and the last guesses."""

    count: int = 0
    rows: list[Entry] = field(default_factory=list)
    answers: dict[str, list[Entry]] = field(default_factory=dict)
    """The guesses by their answer, each with the weight of all up to it."""
    seen: list[str] = field(default_factory=list)
    """Recent results of other calls."""
    changed: bool = False
    """Whether something was changed since the last guess."""
    submissions: list[Entry] = field(default_factory=list)
    """The last refused submissions."""
    uniform: list[Entry] = field(default_factory=list)
    """The last answered command lines."""
    kind: str = ""
    """The kind of the last lookups, without their differing parts."""
    old: list[Entry] = field(default_factory=list)
    """The last of those in a row that had nothing new."""
    olds: int = 0
    """Their number."""
    answered: list[Entry] = field(default_factory=list)
    """The last calls in a row of one tool with the same long result, each with a digest of both and of the call."""


@settings
class FruitlessSearch(Detector[FruitlessSearchState]):
    """Lookups in a row that found nothing, or guesses with the same answer."""

    id: ClassVar[str] = "fruitless_search"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.RESULT
    recalls: ClassVar[bool] = True

    looks: ManyCounts = (10, 16, 30)
    """Thresholds of medium, high and critical findings: lookups in a row without results."""
    guesses: ManyCounts = (4, 6, 8)
    """Thresholds of medium, high and critical findings: calls with the same short negative answer."""

    submissions: ManyCounts = (2, 3, 3)
    """Thresholds of medium (identical ones), high and critical (any) findings: refused submissions."""
    uniform: ManyCounts = (7, 10, 12)
    """Thresholds of medium, high and critical findings: different command lines with the same answer."""
    nothing_new: ManyCounts = (6, 9, 12)
    """Thresholds of medium, high and critical findings: lookups of one kind in a row without a new word."""
    same_answer: ManyCounts = (3, 4, 5)
    """Thresholds of medium, high and critical findings: different searches in a row with the same long result."""
    last_actions: Annotated[int, Field(ge=2, le=1_000), Stricter.HIGHER] = 24
    """Actions. Submissions, and command lines with the same answer, count within this many of the last actions."""

    def observe(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        """Count a lookup without results or a guess, or reset the counts; a thought does neither."""
        if tools.thinks(act.action):
            return None
        found = self._submitted(state, act) or self._guess(state, act) or self._uniform(state, act)
        old, none = self._nothing_new(state, act), self._nothing_found(state, act)
        # Most calls run a program: these have no such answer, and can only end a row of others.
        same = self._same_answer(state, act) if state.answered or not act.runs else None
        return worst_of((found, old, none, same)) if old or none or same else found

    def _nothing_found(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        if not (_is_empty(act) and _is_look(act)):
            if state.count:
                state.count, state.rows = 0, []
            return None
        state.count += 1
        state.rows.append(entry(act))
        del state.rows[:-_MAX_ROWS]
        looks, rows = state.count, state.rows
        if looks < self.looks[0]:
            return None
        what = f"{looks} lookups in a row found nothing, the last {len(rows)} in {seconds(rows)}s"
        reason = f"{what}, such as {act.subject:.120}"
        return self.counted("fruitless_search", looks, self.looks, reason, evidence(act, rows), looks=looks)

    def _guess(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        """Count a call with a short negative answer; any other call may bring a new result."""
        no = _no(act)
        if not no:
            if act.changes and (act.runs or act.tool.effect is not None) and not act.failed:
                state.changed = True
            elif state.answers and _is_news(state, act):
                state.answers = {}
            return None
        before = state.answers.pop(no, [])
        halves = 2 if not before else int(before[-1][_HALVES]) + (1 if state.changed else 2)
        rows = state.answers[no] = [*before, entry(act, halves)][-_MAX_ROWS:]
        state.changed = False
        if len(state.answers) > _MAX_ANSWERS:
            del state.answers[next(iter(state.answers))]
        guesses = halves / 2
        if guesses < self.guesses[0]:
            return None
        what = f"{len(rows)} calls received the same negative answer in {seconds(rows)}s"
        reason = f"{what}, such as {act.subject:.120}"
        return self.counted("blind_guessing", guesses, self.guesses, reason, evidence(act, rows), guesses=guesses)

    def _submitted(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        """Count a submission that was refused."""
        if act.refused or not _submits(act.action):
            return None
        answer = act.event.error or act.event.output_head
        if not _says_no(answer):
            if answer and not act.failed:
                state.submissions = []
            return None
        near = [e for e in state.submissions if act.index - int(e[INDEX]) < self.last_actions]
        rows = state.submissions = [*near, entry(act, act.fingerprint)][-_MAX_ROWS:]
        same = [e for e in rows if e[_SAME] == act.fingerprint]
        first, high, critical = self.submissions
        if len(same) < first and len(rows) < high:
            return None
        return self.finding(
            "refused_submissions",
            Severity.CRITICAL if len(rows) >= critical else Severity.HIGH if len(rows) >= high else Severity.MEDIUM,
            f"{len(rows)} submissions refused in {seconds(rows)}s, {len(same)} of them this one: {act.subject:.120}",
            evidence(act, rows),
            confidence=min(1.0, len(rows) / critical),
            values={"submissions": len(rows), "same": len(same)},
            thresholds={"medium": first, "high": high, "critical": critical, "last_actions": self.last_actions},
        )

    def _uniform(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        """Count a command line with the same answer as earlier ones."""
        answer = _answer(act)
        if not answer:
            return None
        size, oldest = act.event.output_bytes or 0, act.index - self.last_actions
        others = [e for e in state.uniform if int(e[INDEX]) > oldest and e[_CALL] != act.fingerprint]
        state.uniform = [*others, entry(act, answer, size, act.fingerprint)]
        near = max(2, _NEAR_SIZE * size)
        rows = [e for e in state.uniform if e[_ANSWER] == answer and abs(int(e[_SIZE]) - size) <= near]
        calls = len(rows)
        if calls < self.uniform[0]:
            return None
        reason = f"{calls} different calls had the same answer in {seconds(rows)}s, such as {act.subject:.120}"
        events, also = evidence(act, rows[-_MAX_ROWS:]), self.thresholds("last_actions")
        return self.counted("uniform_answers", calls, self.uniform, reason, events, also=also, calls=calls)

    def _nothing_new(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        """Count a lookup whose whole result has nothing new; any other call but talk ends the row."""
        novelty = act.event.output_novelty
        if novelty is None:
            return None
        kind = _kind_of_lookup(act) if novelty.new_words * _OLD_SHARE < novelty.words or not novelty.words else ""
        if not kind or kind != state.kind:
            state.kind = kind
            if state.olds:
                state.old, state.olds = [], 0
            if not kind:
                return None
        if state.old and state.old[-1][_SAME] == act.fingerprint and not _searches(act.action):
            return None  # see `repetition` and `polling`
        state.olds += 1
        rows = state.old = [*state.old, entry(act, act.fingerprint)][-_MAX_ROWS:]
        looks = state.olds
        if looks < self.nothing_new[0]:
            return None
        reason = (
            f"{looks} lookups in a row, worded or cut differently, had nothing new in them, such as {act.subject:.120}"
        )
        return self.counted("nothing_new", looks, self.nothing_new, reason, evidence(act, rows), looks=looks)

    def _same_answer(self, state: FruitlessSearchState, act: Observation) -> Finding | None:
        """Count a call with the result that other calls of its tool had just before; any other call ends it."""
        answer = _long_answer(act)
        if not answer or (state.answered and state.answered[-1][_ANSWER] != answer):
            state.answered = []
        if not answer or any(e[_QUERY] == act.fingerprint or int(e[INDEX]) >= act.step for e in state.answered):
            return None  # see `repetition`; and calls of one model turn are asked without knowing the answer
        rows = state.answered = [*state.answered, entry(act, answer, act.fingerprint)][-_MAX_ROWS:]
        calls = len(rows)
        if calls < self.same_answer[0]:
            return None
        reason = f"{calls} different calls in a row had the same result in {seconds(rows)}s, such as {act.subject:.120}"
        counts = self.same_answer
        found = self.counted("same_answer", calls, counts, reason, evidence(act, rows), calls=calls)
        if found is not None and found.severity is Severity.CRITICAL and act.tool.effect is None:
            return found.model_copy(update={"severity": Severity.HIGH})
        return found

    def near(self, state: FruitlessSearchState) -> float:
        """The lookups in a row or the guesses, relative to the first count that is a finding."""
        halves = max((int(rows[-1][_HALVES]) for rows in state.answers.values()), default=0)
        return min(1.0, max(state.count / self.looks[0], halves / 2 / self.guesses[0]))


@lru_cache(maxsize=1024)
def _submits(action: str) -> bool:
    return _SUBMITS.search(action) is not None


def _is_empty(act: Observation) -> bool:
    """Return whether the call found nothing, as far as its result is known."""
    event = act.event
    if act.failed and (event.error or "").strip() and not act.runs:
        return False  # an error, not an empty result
    if event.output_bytes == 0:
        return True
    head = event.output_head
    if head is None or ((first := head[:1]).isalpha() and first not in _NOTHING_BEGINS):
        return False
    return _NOTHING.match(head, 0, _READ_CHARS) is not None


def _kind_of_lookup(act: Observation) -> str:
    """What a lookup has in common with others of its kind; empty if it is none."""
    if act.failed or act.refused or act.waits:
        return ""
    if act.runs:
        return _NUMBER.sub("#", act.text) if _SLICE.match(act.text) is not None and not act.changes else ""
    if _searches(act.action):
        return act.action
    if act.tool.effect is not _READ or not act.args:
        return ""
    texts = [f"{name}={value}" for name, value in act.args.items() if isinstance(value, str) and value]
    return f"{act.action} {' '.join(texts)}"[:_KIND_CHARS] if texts else ""


@lru_cache(maxsize=1024)
def _searches(action: str) -> bool:
    """Return whether a tool only searches, by its name."""
    return any(word.endswith("search") for word in words(action))


def _is_look(act: Observation) -> bool:
    if act.refused:
        return False
    if act.runs:
        return act.tool.reading is _SHELL and _LOOKS.match(act.text) is not None and not act.changes
    return act.tool.effect is _READ


def _no(act: Observation) -> str:
    """The tool and its masked answer, if that is short and negative; empty for any other answer."""
    head, size = act.event.output_head, act.event.output_bytes
    if act.failed or act.waits or not head or len(head) > _NO_CHARS or (size or 0) > _NO_CHARS:
        return ""
    if not _says_no(head):
        return ""
    return f"{act.action} {_without_own_words(act, head)}"


def _says_no(text: str | None) -> bool:
    if text is None or len(text) > _NO_CHARS or not _may_say_no(text):
        return False
    return _NO.search(ANSI.sub("", text).strip()) is not None


def _may_say_no(text: str) -> bool:
    """Return whether the text may be negative: with false positives, in a tenth of the pattern's time."""
    if not text.isascii() or "\x1b" in text:
        return True
    low = text.lower()
    return holds_one(low, _NO_CUES) or low.rstrip(_MARKS).endswith("no")


def _answer(act: Observation) -> str:
    """The programs of a command line and its masked answer; empty if that is not informative."""
    head = act.event.output_head
    if not act.runs or act.tool.reading is not _SHELL or act.failed or act.refused or act.waits or not head:
        return ""
    if len(head) < _LEAST_CHARS or not holds_one(act.head, _CLIENT_HINTS):
        return ""
    programs = " ".join(_PROGRAMS.findall(_QUOTED.sub("''", act.head))[:_MAX_PROGRAMS])
    if _CLIENTS.search(programs) is None or _RECEIPT.search(head) is not None:
        return ""
    if "% Total" in head:
        head = _METER.sub("", head[: 4 * _NO_CHARS])
    return f"{programs} {_without_own_words(act, _ID.sub(' ', head[:_NO_CHARS]))}"


def _long_answer(act: Observation) -> str:
    """A digest of a search and its whole result, if that is long; also of a call of an unknown tool. Else empty.

    Files and records may be equal, and are to be read one by one.
    """
    event, effect = act.event, act.tool.effect
    if act.runs or act.failed or act.refused or act.waits:
        return ""
    if effect is not None and not (effect is _READ and _searches(act.action)):
        return ""
    if (event.output_bytes or 0) < _LONG_BYTES or not event.output_digest or act.shows_placeholder:
        return ""
    return f"{act.action} {event.output_digest}"


def _without_own_words(act: Observation, text: str) -> str:
    """A digest of the text's words, without numbers, quoted text and words of the call itself."""
    own = frozenset(_VARYING.split(act.head.lower()))
    words = [word for word in _VARYING.split(ANSI.sub("", text).strip().lower()) if word and word not in own]
    return digest(" ".join(words).encode())


def _is_news(state: FruitlessSearchState, act: Observation) -> bool:
    """Return whether the result differs from all recent ones."""
    text = act.event.error or act.event.output_head or ""
    if not text.strip():
        return False
    shown = digest(f"{act.action} {_VARYING.sub(' ', text[:_NO_CHARS])}".encode())
    if shown in state.seen:
        return False
    state.seen = [*state.seen, shown][-_MAX_SEEN:]
    return True
