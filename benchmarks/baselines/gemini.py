"""Gemini CLI's loop detection, from its published rules: repeated cycles of calls, and chanting.

The third part, a request to a second model after 30 turns, is left out: it needs a model. The first loop is fed back to
the model, the second ends the turn; the agent of a recorded session did not get the first feedback.
"""

import re
from collections import defaultdict, deque
from itertools import pairwise

from benchmarks.baselines.history import Action, Entry, Message, Verdict

LONGEST_CYCLE = 5
TIMES = 5
CHUNK_CHARS = 50
CHUNK_TIMES = 10
MEAN_DISTANCE_CHARS = 250
MAX_PERIODS = 5
HISTORY_CHARS = 5000

_STRUCTURE = re.compile(r"^\s*(?:[*+-]\s|\d+\.\s|\||#+\s|>|[-=*_]{3,}\s*$)|\|[-:| ]{3,}\|", re.MULTILINE)
_FENCE = "```"


class Gemini:
    """`packages/core/src/services/loopDetectionService.ts`, without the check by a model."""

    def __init__(self) -> None:
        self._calls: deque[tuple[str, str]] = deque(maxlen=LONGEST_CYCLE * TIMES)
        self._chant = _Chant()
        self._loops = 0

    def add(self, entry: Entry) -> tuple[Verdict, str] | None:
        """Feedback on the first loop, a stop on every further one."""
        rule = None
        if isinstance(entry, Action):
            self._chant = _Chant()
            self._calls.append((entry.name, entry.args))
            rule = "tool_call_loop" if self._cycles() else None
        elif isinstance(entry, Message) and self._chant.add(entry.text):
            rule = "content_chanting"
        if rule is None:
            return None
        self._loops += 1
        return (Verdict.HINT if self._loops == 1 else Verdict.STOP), rule

    def _cycles(self) -> bool:
        calls = list(self._calls)
        for length in range(1, LONGEST_CYCLE + 1):
            last = calls[-length * TIMES :]
            if len(last) == length * TIMES and last == last[:length] * TIMES:
                return True
        return False


class _Chant:
    """Detects a piece repeated at short distances in a stretch of text without calls."""

    def __init__(self) -> None:
        self._text = ""
        self._dropped = 0
        """The number of characters dropped from the beginning."""
        self._next = 0
        """The position of the next piece, counted from the beginning with dropped characters."""
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._in_code = False

    def add(self, text: str) -> bool:
        """Add text. Return whether it chants. Code, tables, lists and headings reset the detection."""
        fences = text.count(_FENCE)
        if fences or _STRUCTURE.search(text):
            self._text, self._next, self._dropped = "", 0, 0
            self._places.clear()
        was_in_code = self._in_code
        self._in_code ^= fences % 2 == 1
        if was_in_code or self._in_code or fences:
            return False
        self._text += text
        while self._next - self._dropped + CHUNK_CHARS <= len(self._text):
            start = self._next - self._dropped
            piece = self._text[start : start + CHUNK_CHARS]
            self._places[piece].append(self._next)
            self._next += 1
            if self._repeats(self._places[piece]):
                return True
        cut = len(self._text) - HISTORY_CHARS
        if cut > 0:
            self._text = self._text[cut:]
            self._dropped += cut
            for places in self._places.values():
                places[:] = [place for place in places if place >= self._dropped]
        return False

    def _repeats(self, places: list[int]) -> bool:
        last = [place - self._dropped for place in places[-CHUNK_TIMES:]]
        if len(last) < CHUNK_TIMES or (last[-1] - last[0]) / (CHUNK_TIMES - 1) > MEAN_DISTANCE_CHARS:
            return False
        periods = {self._text[a:b] for a, b in pairwise(last)}
        return len(periods) <= MAX_PERIODS
