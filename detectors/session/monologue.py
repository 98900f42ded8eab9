"""The model talks and does nothing.

Fires: `monologue` when `same` messages since the last action are similar to the newest one. Messages are similar if at
    least `likeness` of their word pairs are the same; one counts in full if its numbers are also the same, three
    quarters if it was truncated, and half if its numbers differ.
    `same_sentence` when `sentence` model turns since the last action say the same but for spaces and capitals, in a
    session that has acted before: a sentence, as a short text such as `ok` may answer somebody. A turn counts half if
    it has many more output tokens than text, as it may have called a tool that is not guarded.
    `idle_talk` when there are `talk` messages in a row, with any content, in a session that has acted before: agents
    that thank each other, or that a hook sends back to work. One counts half if it came `quick_s` or more after the one
    before it, as a person may have answered, or if its turn has many more output tokens than text, as it may have
    called a tool that is not guarded.
    `empty_turns` when `empty` turns in a row have neither text nor a call, in a session whose turns have texts, or with
    `large_context` input tokens each. It is critical only if none of them had output tokens, as others may have called
    tools that are not guarded; or if they used `condensed` tokens and the context of none is larger than that of the
    first, so that no result was added to it: the session condenses its context again and again.
    `talk_by_command` when `commands` in a row of them, in separate model turns, are command lines that only print a
    sentence: `echo` of fixed words to the terminal, or only comments; before the first action of the session, only from
    the third number on. `chanting` when one message repeats a passage `chants` times in a row, on the first, second and
    third such message of the last ten; five times as often, and fifty times, count as further messages. A message is a
    model turn with its text, or a call or command line that only says or thinks something.
Quiet: after any action in between; after a pause of `pause_s` between two messages, a message of a person, or a prompt
    that says something new: a person was asked. A tool that sends its text to somebody, or has any other argument: it
    acts. Tables, code and lists, which repeat words in differing passages. An `echo` together with other commands, into
    a file or a pipe, of a variable, or of fewer than six words (`echo done`), which reports progress. The same command
    line repeated (see `repetition`). For `same_sentence`: what a harness says of its work on the context.
Misses: the same content in other words fewer than `talk` times; empty turns of producers that never report a text,
    with little context; of texts whose producer does not count repetitions, those after the recorded beginning.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar, TypeAlias
from zlib import crc32

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.severity_counts import (
    ASCENDING,
    SEVERITIES,
    Many,
    ManyCounts,
)
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence, seconds
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Reading
from haltline.schemas.repeated_passage import repeated_passage
from haltline.schemas.stored import Stored

# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_MODEL_TURN, _STARTED, _SHELL = Kind.MODEL_TURN, Kind.SESSION_STARTED, Reading.SHELL

_TURN, _WHOLE, _CUT, _NUMBERS, _SKETCH, _SENTENCE, _HALVES = range(4, 11)
"""Positions in an entry: the number of the message, the digest of its text, whether it was truncated, a checksum of its
numbers, a sketch of its words, a digest of the sentence that a model turn says, and what that turn counts, in halves.
Entries of earlier releases lack the last two."""

_MAX_MESSAGES = 12
_RECENT_TURNS = 10
_READ_CHARS = 600
_SKETCH_SIZE = 16
_SAME_NUMBERS, _WAS_CUT, _OTHER_NUMBERS = 1.0, 0.75, 0.5

_CHANT_CHARS = 4096
"""Characters of a text that are searched for repetitions here, where its producer has not counted them."""
_MANY, _FAR_TOO_MANY = 5, 50
"""These multiples of `chants` raise the severity by one each."""

_TALKS = words_of("tools that only talk")
_TO_SOMEBODY = frozenset(tools.arguments("recipient"))
_TEXTS = tools.arguments("said")
_WORDS_OF = frozenset(_TEXTS)
_OTHER_TOKENS = 64
"""A turn with so many output tokens more than half its text's bytes has done more than talk."""
_PERSONS = frozenset(("user", "human", "customer"))
_CUT_MARKS = ("…[+", "[cut")
_VARYING = expression_of("what varies in a text")
_DIGITS = re.compile(r"\d+")
_LAST_PART = re.compile(r"__|[./:]")
_MAX_SPOKEN_CHARS = 4096
_SENTENCE_WORDS = 6
"""Fewer words, as in `echo done`, only report progress."""
_NOTICE = expression_of("a notice of a shortened context")
"""What harnesses say, in a turn of the model, of their own work on its context."""
_WORD = re.compile(r"(?<![\w$/-])[A-Za-z]+(?![\w/])")
_ECHO = (
    r"""echo(?:[ \t]+(?:"(?:[^"$`\\]|\\.)*+"|'[^']*+'|[^\s"'$`\\|&;<>()#*?~{\[][^\s"'$`\\|&;<>()*?{\[]*+))*+[ \t]*+"""
)
_SPOKEN = re.compile(rf"\A(?:\s*+(?:(?:{_ECHO}|#[^\n]*+)(?:\Z|(?:;|&&|\n)\s*+))++\Z)")


_Count = Annotated[int, Field(ge=2, le=_MAX_MESSAGES), Stricter.LOWER]
Counts: TypeAlias = Annotated[tuple[_Count, _Count, _Count], ASCENDING]


class MonologueState(Stored):
    """The messages since the last action."""

    messages: list[Entry] = field(default_factory=list)
    turns: int = 0
    """Messages with a text since the last action."""
    idle: float = 0.0
    """The same, as `idle_talk` counts them."""
    empty: list[Entry] = field(default_factory=list)
    """The last of the empty turns in a row."""
    empties: int = 0
    """Their number."""
    empty_tokens: int = 0
    """What they used."""
    empty_output: bool = False
    """Some of them had output tokens."""
    empty_context: int = 0
    """Input tokens of the first of them."""
    empty_grew: bool = False
    """A later one had more."""
    has_texts: bool = False
    """The producer reports texts of turns."""
    acts: int = 0
    """Actions before the last message."""
    talked: int = 0
    """Calls that only said something: these are attempts, but not actions."""
    spoken: list[Entry] = field(default_factory=list)
    """The last command lines since the last action that only print text."""
    all_turns: int = 0
    last_ms: int = 0
    chants: list[Entry] = field(default_factory=list)
    nearness: float = 0.0


@settings
class Monologue(Detector[MonologueState]):
    """Messages without an action in between, or repetitions within one of them."""

    id: ClassVar[str] = "monologue"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.MODEL_TURN, Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.ATTEMPT | Trait.TURN | Trait.TASK

    same: Counts = (3, 4, 10)
    """Thresholds of medium, high and critical findings: similar messages."""
    sentence: Many = 3
    """Model turns that are the same sentence."""
    talk: ManyCounts = (8, 12, 16)
    """Thresholds of medium, high and critical findings: messages of any kind."""
    empty: ManyCounts = (10, 15, 20)
    """Thresholds of medium, high and critical findings: turns with neither text nor call."""
    large_context: Annotated[int, Field(ge=1, le=10_000_000), Stricter.LOWER] = 50_000
    """Input tokens of a turn from which on it counts as empty even if the session's turns never have texts."""
    condensed: Annotated[int, Field(ge=1, le=100_000_000), Stricter.LOWER] = 2_000_000
    """Tokens of empty turns in a row whose context does not grow, from which on they are critical."""
    commands: ManyCounts = (2, 3, 4)
    """Thresholds of medium, high and critical findings: command lines that only print text."""
    chants: Many = 10
    """Repetitions of a passage in one message."""
    likeness: Annotated[float, Field(ge=0.3, le=1), Stricter.LOWER] = 0.8
    """Share of the word pairs of two messages that are in both."""
    pause_s: Annotated[float, Field(gt=0, le=86_400), Stricter.HIGHER] = 120.0
    """Seconds. After a longer pause between two messages a person was asked, and counting restarts."""
    quick_s: Annotated[float, Field(gt=0, le=86_400), Stricter.HIGHER] = 15.0
    """Seconds. A message that comes later after the one before it counts half as idle talk."""

    def concerns(self, act: Observation) -> bool:
        """Model turns, calls that only talk, and prompts."""
        if act.kind is _MODEL_TURN or act.kind is _STARTED:
            return True
        if not act.is_attempt:
            return False
        return _is_spoken(act) if act.runs else _only_talks(act)

    def observe(self, state: MonologueState, act: Observation) -> Finding | None:
        """Compare the message with those before it."""
        if act.kind is _STARTED:
            _restart(state)
            return None
        state.talked += act.is_attempt
        acts = act.index - state.talked
        gap_ms = act.time_ms - state.last_ms
        state.last_ms = max(state.last_ms, act.time_ms)
        if gap_ms > self.pause_s * 1000 or acts != state.acts or _is_person(act):
            state.acts, gap_ms = acts, 0
            _restart(state)
            if _is_person(act):
                return None
        if not act.is_attempt and not (act.event.output_head or act.event.output_digest):
            return self._empty(state, act)
        _end_empty(state)
        state.has_texts |= not act.is_attempt
        state.turns += 1
        state.all_turns += 1
        state.idle += 0.5 if gap_ms > self.quick_s * 1000 or _does_more(act) else 1.0
        text = _text(act)
        message = _row(act, text, state.all_turns)
        if act.runs and any(message[_WHOLE] == other[_WHOLE] for other in state.messages):
            return None  # see `repetition`
        weights = [self._alike(other, message) for other in state.messages]
        alike = [m for m, weight in zip(state.messages, weights, strict=True) if weight]
        counted = 1 + sum(weights)
        state.messages.append(message)
        del state.messages[:-_MAX_MESSAGES]
        state.nearness = min(1.0, max(counted / self.same[0], state.idle / self.talk[0] if acts else 0.0))
        found = [self._chanting(state, act, text, message), self._monologue(act, [*alike, message], counted)]
        if acts > 0:
            found += [self._idle(state, act), self._same_sentence(state, act, message)]
        if act.runs:
            state.spoken = [*state.spoken, message[: _TURN + 1]][-_MAX_MESSAGES:]
            found.append(self._by_command(state, act))
        return worst_of(found)

    def near(self, state: MonologueState) -> float:
        """The last message's count, relative to the first that is a finding; not used for `chanting`."""
        return state.nearness if state.turns > 1 else 0.0

    def _alike(self, one: Entry, other: Entry) -> float:
        """The weight with which two messages count as the same; 0: they differ."""
        if one[_WHOLE] and one[_WHOLE] == other[_WHOLE]:
            return _SAME_NUMBERS
        if _likeness(str(one[_SKETCH]), str(other[_SKETCH])) < self.likeness:
            return 0.0
        if one[_NUMBERS] != other[_NUMBERS]:
            return _OTHER_NUMBERS
        return _WAS_CUT if one[_CUT] or other[_CUT] else _SAME_NUMBERS

    def _monologue(self, act: Observation, alike: Sequence[Entry], counted: float) -> Finding | None:
        if counted < self.same[0]:
            return None
        messages, also = len(alike), self.thresholds("likeness", "pause_s")
        weighed = "" if counted == messages else f", counted as {counted:g}"
        reason = f"{messages} similar messages in {seconds(alike)}s with no action in between{weighed}"
        events = evidence(act, alike)
        return self.counted(
            "monologue", counted, self.same, reason, events, also=also, messages=messages, counted=counted
        )

    def _same_sentence(self, state: MonologueState, act: Observation, message: Entry) -> Finding | None:
        """Count the model turns that say the same sentence."""
        sentence = str(message[_SENTENCE])
        same = [m for m in state.messages if sentence and m[_SENTENCE:_HALVES] == [sentence]]
        turns = sum(int(m[_HALVES]) for m in same) / 2
        if turns < self.sentence:
            return None
        reason = f"{len(same)} times the same sentence in {seconds(same)}s with no action in between"
        events, counts = evidence(act, same), (self.sentence, self.sentence, self.sentence)
        return self.counted("same_sentence", turns, counts, reason, events, messages=len(same), counted=turns)

    def _idle(self, state: MonologueState, act: Observation) -> Finding | None:
        if state.idle < self.talk[0]:
            return None
        counted = "" if state.idle == state.turns else f", counted as {state.idle:g}"
        reason = f"{state.turns} messages with no action in between{counted}"
        events, also = evidence(act, state.messages), self.thresholds("pause_s", "quick_s")
        return self.counted("idle_talk", state.idle, self.talk, reason, events, also=also, messages=state.turns)

    def _empty(self, state: MonologueState, act: Observation) -> Finding | None:
        """Count a turn with neither text nor call."""
        usage = act.usage
        context = usage.input_tokens + usage.cache_read_tokens if usage is not None else 0
        if not state.has_texts and context < self.large_context:
            return None
        state.empties += 1
        state.empty_context = state.empty_context or context
        state.empty_grew |= context > state.empty_context
        if usage is not None:
            state.empty_tokens += usage.tokens
            state.empty_output |= usage.output_tokens > 0
        state.empty = [*state.empty, entry(act)][-_MAX_MESSAGES:]
        turns, (first, high, critical) = state.empties, self.empty
        if turns < first:
            return None
        severity = Severity.MEDIUM if turns < high else Severity.HIGH
        if (turns >= critical and not state.empty_output) or (
            not state.empty_grew and state.empty_tokens >= self.condensed
        ):
            severity = Severity.CRITICAL
        return self.finding(
            "empty_turns",
            severity,
            f"{turns} model turns in a row with neither text nor call, which used {state.empty_tokens} tokens",
            evidence(act, state.empty),
            confidence=min(1.0, turns / critical),
            values={"turns": turns, "tokens": state.empty_tokens},
            thresholds={
                "medium": first,
                "high": high,
                "critical": critical,
                "large_context": self.large_context,
                "condensed": self.condensed,
            },
        )

    def _by_command(self, state: MonologueState, act: Observation) -> Finding | None:
        spoken, also = len(state.spoken), self.thresholds("pause_s")
        if state.acts == 0 and spoken < self.commands[2]:
            return None
        what = f"{spoken} command lines with no action in between that only print text"
        reason, events = f"{what}, such as {act.head!r:.120}", evidence(act, state.spoken)
        return self.counted("talk_by_command", spoken, self.commands, reason, events, also=also, commands=spoken)

    def _chanting(self, state: MonologueState, act: Observation, text: str, message: Entry) -> Finding | None:
        repeats, size = act.event.output_repeats, act.event.output_bytes or len(text)
        look = repeats is None or repeats >= self.chants
        passage, seen = repeated_passage(text[:_CHANT_CHARS], size) if look else ("", 0)
        repeats = seen if repeats is None else repeats
        if repeats < self.chants:
            return None
        turn = int(message[_TURN])
        state.chants = [c for c in state.chants if turn - int(c[_TURN]) < _RECENT_TURNS]
        state.chants.append(message[: _TURN + 1])
        del state.chants[:-3]
        more = (repeats >= _MANY * self.chants) + (repeats >= _FAR_TOO_MANY * self.chants)
        steps = min(3, len(state.chants) + more)
        return self.finding(
            "chanting",
            SEVERITIES[steps - 1],
            f"about {repeats} times {passage!r:.80} in one message; such messages: {len(state.chants)}",
            evidence(act, state.chants),
            confidence=min(1.0, repeats / (2 * self.chants)),
            values={"repeats": repeats, "messages": len(state.chants)},
            thresholds={"chants": self.chants, "last_messages": _RECENT_TURNS},
        )


def _only_talks(act: Observation) -> bool:
    """Return whether a call of a tool only thinks or says something, to nobody in particular."""
    if not _talks(act.action):
        return False
    named = {name for name, value in (act.event.args or {}).items() if value}
    return _TO_SOMEBODY.isdisjoint(named) if tools.thinks(act.action) else _WORDS_OF.issuperset(named)


@lru_cache(maxsize=1024)
def _talks(action: str) -> bool:
    """By the last part of the name: `FileSurfer:say`, but not `delete_message`."""
    return _LAST_PART.split(action.lower())[-1] in _TALKS


def _restart(state: MonologueState) -> None:
    state.turns, state.idle = 0, 0.0
    state.messages.clear()
    state.spoken.clear()
    _end_empty(state)


def _end_empty(state: MonologueState) -> None:
    if state.empties:
        state.empty, state.empties, state.empty_tokens, state.empty_output = [], 0, 0, False
        state.empty_context, state.empty_grew = 0, False


def _does_more(act: Observation) -> bool:
    """Return whether a turn has many more output tokens than text: it may have called a tool that is not guarded."""
    usage = act.usage
    return usage is not None and usage.output_tokens > (act.event.output_bytes or 0) // 2 + _OTHER_TOKENS


def _is_spoken(act: Observation) -> bool:
    """Return whether a command line only prints text, to the terminal."""
    text = act.text
    if act.tool.reading is not _SHELL or len(text) > _MAX_SPOKEN_CHARS or not text.lstrip().startswith(("echo", "#")):
        return False
    return len(_WORD.findall(text)) >= _SENTENCE_WORDS and _SPOKEN.match(text) is not None


def _is_person(act: Observation) -> bool:
    return act.event.agent_id.lower() in _PERSONS or act.action.lower().partition(":")[0] in _PERSONS


def _text(act: Observation) -> str:
    if act.event.kind is _MODEL_TURN:
        return act.event.output_head or ""
    if act.runs:
        return act.text
    args = act.event.args or {}
    return next((args[name] for name in _TEXTS if isinstance(args.get(name), str)), "")


def _row(act: Observation, text: str, turn: int) -> Entry:
    event = act.event
    is_turn = event.kind is _MODEL_TURN
    cut = any(mark in text for mark in _CUT_MARKS) or (is_turn and (event.output_bytes or 0) > len(text.encode()))
    plain = _VARYING.sub("", text[:_READ_CHARS].lower())
    whole = (event.output_digest if is_turn else event.args_digest) or ("" if cut else _checksum(text))
    words = _DIGITS.sub("#", plain).split()
    numbers = _checksum(" ".join(_DIGITS.findall(plain)))
    sentence = ""
    if is_turn and len(words) >= _SENTENCE_WORDS and _NOTICE.search(plain) is None:
        is_part = cut or len(text) > _READ_CHARS
        sentence = whole[:64] if is_part else _checksum(" ".join(plain.split()))
    return entry(act, turn, whole[:64], int(cut), numbers, _sketch(words), sentence, 1 if _does_more(act) else 2)


def _sketch(words: list[str]) -> str:
    """The smallest checksums of the word pairs: they allow an estimate of how many pairs two texts share."""
    pairs = map(" ".join, pairwise(words)) if len(words) > 1 else words
    sums = sorted({crc32(pair.encode()) for pair in pairs})[:_SKETCH_SIZE]
    return " ".join(f"{s:08x}" for s in sums)


@lru_cache(maxsize=64)
def _sums(sketch: str) -> frozenset[str]:
    return frozenset(sketch.split())


def _likeness(one: str, other: str) -> float:
    """Estimated share of word pairs that are in both texts."""
    if one == other:
        return 1.0
    mine, theirs = _sums(one), _sums(other)
    size = min(max(len(mine), len(theirs)), _SKETCH_SIZE)
    if mine.isdisjoint(theirs):
        return 0.0
    least = set(sorted(mine | theirs)[:size]) if len(mine) == len(theirs) == _SKETCH_SIZE else mine | theirs
    return len(least & mine & theirs) / len(least)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
