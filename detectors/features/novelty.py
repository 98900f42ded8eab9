"""A measure of progress: what is new in a session's latest steps, of bounded size, as part of the session's state.

A step is a call with a known result, unless it was refused, waits or only talks. For each step, the measure determines
whether the same call, the same result (with masked numbers, hexadecimal values and ids, and a class of its size) and
its words occurred before, whether it failed, whether it changed something, and whether it named an object that no call
had named before. `VALUES` are computed from that. What the agent's side counts in whole texts (`output_novelty`) is
preferred; without it, the same is estimated from the fields that every event has.

Working off a list is progress: a call of the same shape as one just before, about an object that was not named before,
with an answer that is no error. The object was given by an earlier result or a prompt, or at least the agent does not
count it up.

Texts are read up to a few hundred characters, as far as recordings store them; the rest is known only by digest and
size. A line that begins several results is a template and is ignored; a result that consists of templates is identified
by its digest.

This runs for every result of every session: each text is read once, and the cheapest checks run first.
"""

import struct
from math import log2
from typing import NamedTuple
from zlib import crc32

from msgspec import field

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import texts_of
from haltline.detectors.features.lazy import lazy
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.whole_results import WholeResults, acts_outside, writes_or_acts_outside
from haltline.schemas import expressions as re
from haltline.schemas.record import canonical_json
from haltline.schemas.stored import Stored

WINDOW = 30
"""Number of stored steps."""
PERIODS = 20
"""The longest period at which results are compared with earlier ones."""

_CALL_CHARS, _RESULT_CHARS, _KEY_CHARS, _ERROR_CHARS, _ERROR_KEY_CHARS = 300, 240, 160, 120, 80
_CALLS = 20
"""Number of calls whose share of new words is stored."""
_LONG, _SHORT = 12, 4
"""Numbers of results whose new words are averaged."""
_MOST_NEW = 40
"""More new words of one result count as this many."""
_INFORMS = 10
"""The least new words of a result that count where a list is worked off: "ok" says what there is to say."""
_ALL = 0xFFFFF
_SHAPES, _ALIKE = 4, 2
"""A call is part of a series if of the calls before it, `_ALIKE` of the last `_SHAPES` have its shape."""
_FEW = 3
"""The most new operands of a call that works off a list."""
_WORDS = 400
"""Maximum number of stored words; the oldest are dropped first."""
_WORD_CHARS = 16
"""Longer words are never stored: ids, digests, encoded data."""
_TEMPLATES = 48
"""Number of stored lines, to recognize templates."""
_LINES = 6
"""Lines of a result that may be templates."""
_OFTEN, _ALWAYS = 4, 8
"""Results with the same line: from `_OFTEN` on it is a template if other lines follow, from `_ALWAYS` on in any case.
"""
MAX_BALANCE = 12.0
"""The highest `stale_balance`."""
_key = struct.Struct("<I").pack
_KEY_BYTES = 4
_OF_CALL = 3
_ACTS_OUTSIDE = 2
_BEFORE = (WINDOW - 1) * _KEY_BYTES
"""Of the stored checksums, the bytes that remain when another is added."""
_COUNT_BITS, _COUNT, _LAST = 4, 0xF, 0xFFFF

_DIGITS, _HEX_DIGITS = b"0123456789", b"0123456789abcdefABCDEF"
_ID_DIGITS = 6
"""A text with fewer digits contains no hexadecimal ids."""
_SPACED = bytes(ord(chr(byte).lower()) if chr(byte).isalnum() and byte < 128 else ord(" ") for byte in range(256))
"""Translation of ASCII text: lower-case letters and digits are kept, all else becomes a space."""
_WORD = re.compile(r"[^\W\d]{3,8}|\d{2,6}")
"""A word of other texts, in parts if it is long: not every script separates words."""
# Searched one by one in a lower-case text: this takes a tenth of a pattern's time.
_NEGATIVE = texts_of("signs of a refusal or an error")
_NEGATIVE_WORDS = frozenset(word for cue in _NEGATIVE for word in cue.replace("'t", "").split()[:1])
"""The words that begin these: most texts contain none of them."""
# A host or name is unreachable if the text contains one of these.
_UNREACHABLE = texts_of("signs of an unreachable host")


class Value(NamedTuple):
    """A measured number."""

    name: str
    words: str
    """Its text in a reason; `{}` is the number."""
    rises: bool
    """Whether a higher number means less progress."""
    start: float = 0.0
    """The initial number."""


VALUES = (
    Value("stale_balance", "steps with nothing new outweigh those with something new by {:g}", rises=True),
    Value("results_seen_12", "{:.0f} of the last 12 results begin as earlier ones", rises=True),
    Value("aligned_run", "{:.0f} results in a row are those of an earlier stretch", rises=True),
    Value("negative_20", "{:.0f} of the last 20 results are refusals or errors", rises=True),
    Value("new_failures_20", "{:.0f} of the last 20 steps failed in a new way", rises=True),
    Value("unreachable_20", "{:.0f} of the last 20 steps found a host or name that cannot be reached", rises=True),
    Value("fresh_20", "only {:.0f} of the last 20 steps returned new words without failing", rises=False),
    Value("new_call_words_20", "only {:.0%} of the words in the last 20 calls are new", rises=False, start=1.0),
    Value("unused_20", "only {:.0f} of the last 20 calls named something new", rises=False, start=20.0),
    Value("given_20", "only {:.0f} of the last 20 calls took up something from a result", rises=False, start=20.0),
    Value("new_words_12", "the last 12 results have {:.1f} new words each", rises=False, start=40.0),
    Value("negative_5", "{:.0f} of the last 5 results are refusals or errors", rises=True),
    Value("unused_5", "only {:.0f} of the last 5 calls named something new", rises=False, start=5.0),
    Value("new_words_4", "the last 4 results have {:.1f} new words each", rises=False, start=40.0),
)
"""The measured numbers, in the order in which `Novelty.take` returns them."""


class Novelty(Stored, dict=True):
    """The latest steps of one session. Plain JSON values: part of its state, a few kilobytes."""

    steps: int = 0
    turn: int = 0
    """The step of the last result: the index of its first call."""
    calls: bytes = b""
    """Concatenated checksums of the masked calls of the last `WINDOW` steps, the newest last; the same for the next
    ones.

    One object to search, not many. A false match across two checksums occurs once in 50 million searches.
    """
    exact_calls: bytes = b""
    results: bytes = b""
    """Checksums of the masked results, with a class of their size."""
    beginnings: bytes = b""
    """Checksums of the beginnings of the masked results."""
    shapes: bytes = b""
    """Checksums of the shapes of the last `_SHAPES` calls."""
    new_words: list[int] = field(default_factory=list)
    """New words of the last `_LONG` results, at most `_MOST_NEW` each, without those of lists that are worked off."""
    call_words: list[int] = field(default_factory=list)
    """For the last `_CALLS` calls: percent of their words that were new in the session."""
    aligned: list[int] = field(default_factory=list)
    """By period, from 1: the number of results in a row that begin like the one so many steps before; empty: none."""
    # The last 20 steps, one bit each, the newest lowest.
    seen: int = 0
    negative: int = 0
    new_failure: int = 0
    unreachable: int = 0
    fresh: int = 0
    unused: int = _ALL
    """Whether the call named something that no call had named before; unknown steps count."""
    given: int = _ALL
    """Whether that occurred in an earlier result, and the call did not fail; unknown steps count."""
    balance: float = 0.0
    words: str = ""
    """Recent words of calls and results, the oldest first, separated by spaces."""
    whole: WholeResults = field(default_factory=WholeResults)
    templates: dict[int, int] = field(default_factory=dict)
    """By checksum of a line: the results with it, at most `_ALWAYS`, and 16 bits of the last one's checksum."""

    def for_other_task(self) -> "Novelty":
        """The measure for another task: without steps, but with the known words."""
        return Novelty(words=self.words, templates=self.templates, whole=self.whole.for_other_task())

    @lazy
    def _known(self) -> dict[str, None]:
        """The words for lookup. Not stored: rebuilt when needed."""
        return dict.fromkeys(self.words.split(" ")) if self.words else {}

    def call_of(self, act: Observed) -> list[int]:
        """The data of an attempt that is stored until its result arrives.

        Its two checksums, the percentage of new words, 1 if it edits something or `_ACTS_OUTSIDE`, and its shape.
        """
        text = _call_text(act)
        data = _bytes(text)
        words = _words_of_plain(data) if text.isascii() else _words(text)
        exact = act.event.args_digest or act.fingerprint
        masked = crc32(_masked(data), crc32(_bytes(act.action)))
        edits = int(writes_or_acts_outside(act))
        if edits and acts_outside(act):
            edits = _ACTS_OUTSIDE
        return [masked, crc32(_bytes(exact)), self._new_words(words), edits, _shape_of(act, text)]

    def take(self, act: Observed) -> tuple[float, ...]:  # noqa: PLR0915 - for every result: calls take time
        """Add the result of a call, and return `VALUES` after it."""
        event, call, failed, novelty = act.event, act.call, act.failed, act.event.output_novelty
        known = (call.novelty if call is not None else None) or self.call_of(act)
        masked_call, exact_call, new_in_call = known[:_OF_CALL]
        head, error = (event.output_head or "")[:_RESULT_CHARS], (event.error or "")[:_ERROR_CHARS]
        size = event.output_bytes
        if size is None:
            size = len(head)
        text = (f"{head} {error}" if error else head).lower()
        words = _words(text)
        new_words = self._new_words(words)
        negative = failed or _is_negative(words, text)
        masked_key, exact_key = _key(masked_call), _key(exact_call)
        known_call = masked_key in self.calls
        same_call = known_call and exact_key in self.exact_calls
        shape = known[_OF_CALL + 1] if len(known) > _OF_CALL + 1 else 0
        in_series = shape != 0 and self.shapes.count(_key(shape)) >= _ALIKE
        unused, given, is_listed = new_in_call > 0, new_in_call > 0, False
        creates_unasked = False
        if novelty is not None and novelty.operands is not None:
            unused, given = novelty.operands > 0, bool(novelty.given)
            creates_unasked = not given and len(known) > _OF_CALL and known[_OF_CALL] == _ACTS_OUTSIDE
            if unused and not negative and novelty.operands <= _FEW:
                is_listed = novelty.given == novelty.operands or (in_series and not novelty.counted)
        # For calls that started under an older release, only `changes` is known.
        edited = not failed and (act.changes if len(known) == _OF_CALL else known[_OF_CALL] > 0)
        # A program's effect shows in its words; for other tools that change something, another value is another change.
        edits = not failed and not (known_call if act.runs else same_call) and act.changes
        if creates_unasked:
            edited = edits = False
        # Part of a series: the same call with the next number, and an answer that is not negative.
        goes_on = is_listed or (known_call and not same_call and not negative and size > 0)
        digest = crc32(_bytes(event.output_digest or f"{head}{size}"))
        result, beginning = map(_key, self._keys(act, head, error, size, digest))
        was_seen = result in self.results and not (edits or goes_on)
        began_so = beginning in self.beginnings and not (edits or goes_on)
        together, self.turn = self.turn == act.step, act.step
        self.whole.take(
            act,
            edited=edited,
            together=together,
            same_call=same_call,
            was_seen=was_seen,
            listed=in_series and goes_on,
            given=is_listed and in_series and given,
        )
        if together and (was_seen or (failed and self.negative & 1)):
            return self.values()  # equal results of one turn count once, and so do its failures
        is_fresh = new_words > 30 and not failed and not was_seen
        self.seen = (self.seen << 1 | began_so) & 0xFFF
        self.negative = (self.negative << 1 | negative) & _ALL
        self.new_failure = (self.new_failure << 1 | (failed and not began_so)) & _ALL
        self.unreachable = (self.unreachable << 1 | (negative and holds_one(text, _UNREACHABLE))) & _ALL
        self.fresh = (self.fresh << 1 | is_fresh) & _ALL
        self.unused = (self.unused << 1 | unused) & _ALL
        self.given = (self.given << 1 | (given and not failed)) & _ALL
        new = novelty.new_words if novelty is not None else 0 if was_seen else _MOST_NEW
        if not is_listed or new >= _INFORMS:
            self._add_new_words(new)
        if is_fresh:
            self.balance = max(0.0, self.balance - 2.0)
        elif edits:
            self.balance = max(0.0, self.balance - 0.5)
        elif not goes_on:
            by = 1.0 if was_seen and new_words <= 10 else 0.5 if failed else 0.0
            self.balance = min(MAX_BALANCE, self.balance + by)
        self._align(beginning, began_so=began_so)
        self.steps += 1
        self.call_words.append(new_in_call)
        self._keep(masked_key, exact_key, shape, result, beginning)
        return self.values()

    def values(self) -> tuple[float, ...]:
        """The numbers of `VALUES`, in that order."""
        few, new, call_words = self.steps < 4, self.new_words, self.call_words
        newest = new[-_SHORT:]
        return (
            self.balance,
            self.seen.bit_count(),
            max(self.aligned) if self.aligned else 0,
            self.negative.bit_count(),
            self.new_failure.bit_count(),
            self.unreachable.bit_count(),
            self.fresh.bit_count(),
            1.0 if few else sum(call_words) / len(call_words) / 100,
            self.unused.bit_count(),
            self.given.bit_count(),
            sum(new) / len(new) if new else _MOST_NEW,
            (self.negative & 0x1F).bit_count(),
            (self.unused & 0x1F).bit_count(),
            sum(newest) / len(newest) if newest else _MOST_NEW,
        )

    def _add_new_words(self, count: int) -> None:
        self.new_words.append(min(_MOST_NEW, count))
        if len(self.new_words) > _LONG:
            del self.new_words[0]

    def _keys(self, act: Observed, head: str, error: str, size: int, digest: int) -> tuple[int, int]:
        """Checksums of a masked result: without its templates and with its size, and of its beginning."""
        failed = act.failed
        masked = _bytes(head[:_KEY_CHARS])
        shown = _masked(masked)
        if shown != masked and act.steps_through:  # for a debugger or pager every number counts
            shown = masked
        why = crc32(_masked(_bytes(error[:_ERROR_KEY_CHARS])), failed) if error else int(failed)
        lines = [line for raw in shown.split(b"\n", _LINES) if (line := raw.strip())]
        new_lines = self._without_templates(lines, digest)
        beginning = crc32(shown, why)
        if not new_lines and size and not failed:
            return digest, beginning
        return crc32(b"\n".join(new_lines), why + int(log2(size + 1) * 2)), beginning

    def _without_templates(self, lines: list[bytes], digest: int) -> list[bytes]:
        templates, last = self.templates, digest & _LAST
        often = _ALWAYS if len(lines) == 1 else _OFTEN
        kept_lines: list[bytes] = []
        for line in lines:
            key = crc32(line[:60])
            known = templates.pop(key, 0)
            count = known & _COUNT
            if not count or known >> _COUNT_BITS != last:
                known = last << _COUNT_BITS | (count + 1 if count < _ALWAYS else _ALWAYS)
            templates[key] = known
            if len(templates) > _TEMPLATES:
                del templates[next(iter(templates))]
            if count < often:
                kept_lines.append(line)
        return kept_lines

    def _align(self, beginning: bytes, *, began_so: bool) -> None:
        if not began_so:
            self.aligned = []
            return
        before, runs = checksums(self.beginnings), self.aligned or [0] * PERIODS
        known, (checksum,) = len(before), checksums(beginning)
        self.aligned = [runs[p - 1] + 1 if p <= known and before[-p] == checksum else 0 for p in range(1, PERIODS + 1)]

    def _keep(self, call: bytes, exact_call: bytes, shape: int, result: bytes, beginning: bytes) -> None:
        self.calls = self.calls[-_BEFORE:] + call
        self.exact_calls = self.exact_calls[-_BEFORE:] + exact_call
        self.shapes = self.shapes[-(_SHAPES - 1) * _KEY_BYTES :] + _key(shape)
        self.results = self.results[-_BEFORE:] + result
        self.beginnings = self.beginnings[-_BEFORE:] + beginning
        if len(self.call_words) > _CALLS:
            del self.call_words[0]

    def _new_words(self, words: set[str]) -> int:
        """Percent of the words that were not known; stores them."""
        if not words:
            return 0
        known = self._known
        new = words.difference(known)  # looks up each word: `-` would iterate over all known words
        if new:
            kept = sorted(new)
            if max(map(len, kept)) > _WORD_CHARS:
                kept = [word for word in kept if len(word) <= _WORD_CHARS]
            known.update(dict.fromkeys(kept))
            text = " ".join([self.words, *kept] if self.words else kept)
            if len(known) > _WORDS:
                # The oldest are first in the text, too; in a dict the places of those before them have to be passed.
                *forgotten, text = text.split(" ", len(known) - _WORDS)
                for word in forgotten:
                    del known[word]
            self.words = text
        return 100 * len(new) // len(words)


def checksums(kept: bytes) -> tuple[int, ...]:
    """The checksums in a concatenation."""
    return struct.unpack(f"<{len(kept) // _KEY_BYTES}I", kept)


def _words(text: str) -> set[str]:
    """The words of a text, in lower case."""
    if text.isascii():
        return _words_of_plain(text.encode())
    return set(_WORD.findall(text.lower()))


def _words_of_plain(text: bytes) -> set[str]:
    return set(text.translate(_SPACED).decode().split())


def _call_text(act: Observed) -> str:
    """The text that represents a call, up to `_CALL_CHARS` characters."""
    if act.runs and act.text:
        return act.text[:_CALL_CHARS]
    args = act.args
    if not args:
        return ",".join(act.event.targets)[:_CALL_CHARS]
    return " ".join([_text_of(args[name]) for name in sorted(args)])[:_CALL_CHARS]


def _shape_of(act: Observed, text: str) -> int:
    """A checksum that is equal for calls of one tool and program with the same options and as many words."""
    if not (act.runs and act.text):
        return crc32(_bytes(f"{act.action} {','.join(sorted(act.args or ()))}")) or 1
    words = text.rpartition("&& ")[2].split()
    kept = [word for word in words if word[0] == "-"] if "-" in text else []
    for word in words[:2]:  # the program, and what may be its subcommand
        if word.isalpha():
            kept.append(word)
    return crc32(_bytes(f"{act.action} {' '.join(kept)} {len(words)}")) or 1


def _text_of(value: object) -> str:
    return value[:_CALL_CHARS] if type(value) is str else canonical_json(value)[:_CALL_CHARS].decode("utf-8", "replace")


def _masked(text: bytes) -> bytes:
    """Remove numbers; if the text may contain ids, all hexadecimal digits: in a tenth of a pattern's time."""
    rest = text.translate(None, _DIGITS)
    return rest if len(text) - len(rest) < _ID_DIGITS else text.translate(None, _HEX_DIGITS)


def _is_negative(words: set[str], text: str) -> bool:
    """Return whether a result is a refusal or an error, by its words."""
    if "error" in text or "fail" in text:  # also as part of a word, such as ValueError
        return True
    if words.isdisjoint(_NEGATIVE_WORDS) and text.isascii():  # in other texts, words may be parts
        return False
    return holds_one(text, _NEGATIVE)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
