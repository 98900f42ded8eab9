"""What is new in a call: words of its result, and operands of its arguments. Sketches of less than 48 KiB a session.

A word is `[A-Za-z_]{3,}` or a run of the digits 0 to 9. Words of a text are counted directly, those of any other value
in its JSON, where escape sequences such as line breaks separate words. Only counts leave this module.

An operand is a run of letters, digits, `_` and `-` of at least three bytes that is not a number of less than four
digits: it may name a file, an id or a host. It is new until a call that named it has ended, and given if an earlier
result or prompt contained it. So a list that is worked off has given operands, and a series that the agent counts up
has new ones that were not given and have digits.

A sketch is two blocked Bloom filters of 1,000 blocks of 64 bits; a word sets up to k = 5 bits of one block. New words
go into the first filter. At 3,000 words it replaces the second, whose words are dropped, and an empty one is started. A
word that is only in the second and comes again is added to the first. So a word is known for at least 3,000 other words
after its last occurrence, and below 6,000 words a session drops none.

A new word counts as known only by a hash collision. For n words in a filter, of which j ~ Poisson(n / 1000) are in the
word's block, with the share 1 - (1 - k/64)^j of its bits set, the probability is about E[(1 - (1 - k/64)^j)^k]: 1 in
2,500 at 1,000 words, 1 in 1,000 at 2,000, 1 in 400 at 3,000; with the second filter as well it is at most 1 in 200. In
750 recorded sessions, with 496,436 new words, 61 were taken for known ones.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable
from functools import cache
from hashlib import shake_128
from string import ascii_letters, digits
from typing import Any, Final
from zlib import crc32

from haltline.interventions.agent.redaction.payload_encoding import whole_of
from haltline.schemas import expressions as re
from haltline.schemas.events import Novelty
from haltline.schemas.record import trusting

MAX_BYTES: Final = 64 * 1024
"""Limit for a result, and for the arguments of a call: the rest is ignored."""
CAPACITY: Final = 3000
"""The minimum number of words remembered."""
MAX_SESSIONS: Final = 1024

_BLOCKS: Final = 1000
_ZERO: Final = array("Q", [0])
_BACKSLASH: Final = ord("\\")  # searching bytes for a number is fast
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS: Final = bytes(code if chr(code) in f"{ascii_letters}_" else 32 for code in range(256))
_DIGITS: Final = bytes(code if chr(code) in digits else 32 for code in range(256))

_OPERANDS: Final = bytes(code if code > 127 or chr(code) in f"{ascii_letters}{digits}_-" else 32 for code in range(256))
_OPERAND_BYTES: Final = 4096
"""Of the arguments of a call: what follows is content rather than the name of an object."""
_MIN_BYTES: Final = 3
_MIN_DIGITS: Final = 4
_MAX_OPERAND_BYTES: Final = 80
_WITHOUT_DIGITS: Final = bytes(32 if chr(code) in digits else code for code in range(256))

_novelty: Final = trusting(Novelty)


def words_of(*values: Any) -> list[bytes]:
    """Return the distinct words of a result that consists of these values, in a fixed order."""
    return _words_of(_joined(values))


def operands_of(*values: Any) -> set[bytes]:
    """Return what may name an object in these values, of a result or the arguments of a call."""
    return _operands_of(_joined(values))


def _joined(values: tuple[Any, ...]) -> bytes:
    data = _bytes_of(values[0]) if len(values) == 1 else b"\n".join(map(_bytes_of, values))
    return data[:MAX_BYTES]


def _words_of(data: bytes) -> list[bytes]:
    # Two passes of `translate` and `split` are faster than a regular expression.
    names = [word for word in dict.fromkeys(data.translate(_LETTERS).split()) if len(word) > 2]
    names += dict.fromkeys(data.translate(_DIGITS).split())
    return names


def _operands_of(data: bytes) -> set[bytes]:
    return {
        operand
        for operand in set(data.translate(_OPERANDS).split())  # most words of a long text occur in it more than once
        if _MIN_DIGITS <= (size := len(operand)) <= _MAX_OPERAND_BYTES
        or (size >= _MIN_BYTES and size < _MIN_DIGITS and not operand.isdigit())
    }


def _bytes_of(value: Any) -> bytes:
    whole = whole_of(value)
    if isinstance(whole.value, str):
        return whole.value[:MAX_BYTES].encode(errors="replace")
    if whole.value is None:
        return b""
    encoded = whole.json()[0][:MAX_BYTES]
    return _ESCAPE.sub(b" ", encoded) if _BACKSLASH in encoded else encoded


@cache
def _masks() -> list[int]:
    """Return the bits that a word sets in its block, by twelve bits of its hash: the same in every process."""
    bits, hashes = [1 << n for n in range(64)], shake_128(b"haltline").digest(4 * 4096)
    numbers = (int.from_bytes(hashes[at : at + 4]) for at in range(0, len(hashes), 4))
    return [
        bits[n & 63] | bits[n >> 6 & 63] | bits[n >> 12 & 63] | bits[n >> 18 & 63] | bits[n >> 24 & 63] for n in numbers
    ]


class _Sketch:
    """Words that were seen, in two filters; see the module."""

    def __init__(self) -> None:
        self._young = _ZERO * 0
        self._old: array[int] | None = None
        """None: `_young` was not full yet."""
        self._held = 0
        """Words in `_young`."""

    def add(self, words: Iterable[bytes]) -> int:
        """Add words. Returns how many are new."""
        young, old, masks, held = self._young or _ZERO * _BLOCKS, self._old, _masks(), self._held
        new = 0
        for word in map(crc32, words):
            block, mask = word % _BLOCKS, masks[word >> 20]
            bits = young[block]
            if bits & mask != mask:
                young[block] = bits | mask
                if old is None or old[block] & mask != mask:
                    new += 1
                held += 1
                if held >= CAPACITY:
                    young, old, held = _ZERO * _BLOCKS, young, 0
        self._young, self._old, self._held = young, old, held
        return new

    def without(self, words: Iterable[bytes]) -> list[bytes]:
        """Return those of the words that were not added."""
        young, old, masks = self._young, self._old, _masks()
        if not young:
            return list(words)
        missing = []
        for word in words:
            number = crc32(word)
            block, mask = number % _BLOCKS, masks[number >> 20]
            if young[block] & mask != mask and (old is None or old[block] & mask != mask):
                missing.append(word)
        return missing


class SeenWords:
    """Words and operands of the results, prompts and arguments of one session. Thread safe."""

    def __init__(self) -> None:
        self._words, self._given, self._used = _Sketch(), _Sketch(), _Sketch()
        self._results = 0
        self._lock = threading.Lock()

    def take(self, *result: Any, args: Any = None) -> Novelty:
        """Count and store what is new in a result, given as these values, of a call with these arguments."""
        arguments, data = _joined((args,)) if args else b"", _joined(result)
        known, words = _words_of(arguments) if arguments else (), _words_of(data)
        named, shown = _operands_of(arguments[:_OPERAND_BYTES]), _operands_of(data)
        with self._lock:
            new_operands = self._used.without(named)
            others: list[bytes] = []
            if new_operands:
                others = self._given.without(new_operands)
                self._used.add(new_operands)
            self._given.add(shown)
            self._words.add(known)
            new, results = self._words.add(words), self._results
            self._results += 1
        counted = sum(operand.translate(_WITHOUT_DIGITS) != operand for operand in others) if others else 0
        return _novelty(
            {
                "new_words": new,
                "words": len(words),
                "results": results,
                "operands": len(new_operands),
                "given": len(new_operands) - len(others),
                "counted": counted,
            }
        )

    def give(self, *prompt: Any) -> None:
        """Store the operands of a prompt: calls that name them take up what the user said."""
        shown = operands_of(*prompt)
        with self._lock:
            self._given.add(shown)

    def after_fork(self) -> None:
        """In a forked child: keep the parent's words."""
        self._lock = threading.Lock()


class SeenBySession:
    """Words by session, for the most recently used sessions. Thread safe."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[str, SeenWords] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, session_id: str) -> SeenWords:
        """Return the words of a session; empty if it was dropped."""
        with self._lock:
            seen = self._sessions.setdefault(session_id, SeenWords())
            self._sessions.move_to_end(session_id)
            if len(self._sessions) > self._max_sessions:
                self._sessions.popitem(last=False)
        return seen
