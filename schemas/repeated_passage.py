"""A passage that a text repeats in a row, as the text of a model that degenerates does.

Code and tables, which repeat words in differing passages, are left out. The agent's side looks for it in whole texts
and sends only the number; the worker looks for it in beginnings of texts, of producers that send no number.
"""

from typing import Final

from haltline.schemas import expressions as re

_MOST_CHARS: Final = 65_536
_LEAST_CHARS: Final = 120
_CHUNK: Final = 24
_MIN_LETTERS: Final = 14
"""Letters in a chunk: rulers, tables and columns of figures are not passages."""
_PLACES: Final = 16
"""The text is looked at in so many places: a run that is shorter than the distance between two may be missed."""
_PERIODS: Final = 8
"""Periods that are tried in each place: a passage can contain shorter repetitions."""
_LEAST_SEEN: Final = 3
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CUT: Final = re.compile(r"\[cut\]\Z|…\[\+\d+\]\Z")


def repeated_passage(text: str, size: int = 0) -> tuple[str, int]:
    """Return the passage that a text repeats in a row, and how often; `("", 0)` if it repeats none three times.

    `size` is that of the whole text, if only its beginning is given: a passage that fills a third of it and is repeated
    to its end is taken to go on.
    """
    text = _CUT.sub("", text[-_MOST_CHARS:])
    missing = max(0, size - len(text)) if size else 0
    if "```" in text:
        text = _CODE.sub(" ", text)
    if "|" in text:
        text = "\n".join(line for line in text.split("\n") if line.count("|") < _LEAST_SEEN - 1)
    plain = " ".join(text.lower().split())
    length = len(plain)
    if length < _LEAST_CHARS:
        return "", 0
    for place in range(_PLACES - 1, 0, -1):  # a text degenerates towards its end
        start = place * length // _PLACES
        chunk = plain[start : start + _CHUNK]
        at = plain.rfind(chunk, 0, start + len(chunk) - 1)
        if at < 0 or sum(map(str.isalpha, chunk)) < _MIN_LETTERS:
            continue
        runs: list[tuple[int, int, int]] = []
        while at >= 0 and len(runs) < _PERIODS:
            first, end = _run(plain, at, start - at)
            runs.append((end - first, start - at, first))
            at = plain.rfind(chunk, 0, at + len(chunk) - 1)
        run, period, first = max(runs, key=lambda one: one[0] - one[1])  # without the first copy: it repeats nothing
        if run < _LEAST_CHARS or run < _LEAST_SEEN * period:
            continue
        goes_on = missing and first + run == length and run * 3 >= length
        return plain[first : first + period], round((run + (missing if goes_on else 0)) / period)
    return "", 0


def _run(text: str, start: int, period: int) -> tuple[int, int]:
    """Return where the repetition of a passage begins and ends, of which two copies begin at `start`."""
    after = zip(text[start:], text[start + period :], strict=False)
    end = next((number for number, (one, other) in enumerate(after) if one != other), len(text) - start - period)
    earlier = zip(reversed(text[:start]), reversed(text[: start + period]), strict=False)
    begun = next((number for number, (one, other) in enumerate(earlier) if one != other), start)
    return start - begun, start + end + period
