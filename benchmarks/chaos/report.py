"""The differences after a run, on one screen, by their kinds. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from benchmarks.chaos.verify import Check, Difference

LINES: Final = 40
WIDTH: Final = 160
_EXAMPLES: Final = 2


def of_kinds(differences: Iterable[Difference]) -> list[str]:
    """Return per kind the number of differences and the first of them in full."""
    lines = []
    for kind, found in groupby(sorted(differences, key=lambda one: one.kind), lambda one: one.kind):
        group = list(found)
        lines.append(f"{len(group):,} {kind}")
        lines += [f"  e.g. {difference}" for difference in group[:_EXAMPLES]]
    return lines


def screen(head: str, checks: Sequence[Check], foot: Sequence[str]) -> list[str]:
    """Return the differences in at most LINES lines of at most WIDTH columns; the rest is counted."""
    wrong = [(check, of_kinds(check.differences)) for check in checks if not check.ok]
    good = len(checks) - len(wrong)
    last = [f"ok     {good} other checks"] * bool(good) + [*foot]
    room = LINES - 1 - len(last) - len(wrong)
    shown = [head]
    for (check, lines), share in zip(wrong, _shares([len(lines) for _, lines in wrong], room), strict=True):
        shown.append(f"WRONG  {check.name}: {len(check.differences):,} differ, of {check.found}")
        kept = lines if share == len(lines) else lines[: max(0, share - 1)]
        shown += [f"         {line}" for line in kept]
        if len(kept) < len(lines) and share:
            shown.append(f"         and {len(lines) - len(kept):,} more lines")
    return [clipped(line) for line in [*shown, *last]]


def clipped(line: str) -> str:
    """Return a line cut to the screen's width."""
    line = " ".join(line.splitlines())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """Share out the lines one by one until there is no room."""
    shares = [0] * len(lengths)
    while room > 0 and any(share < length for share, length in zip(shares, lengths, strict=True)):
        for number, length in enumerate(lengths):
            if room > 0 and shares[number] < length:
                shares[number] += 1
                room -= 1
    return shares
