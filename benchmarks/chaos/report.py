"""The differences after a run, on one screen, grouped by place and its owner. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from benchmarks.chaos.expected import Place
from benchmarks.chaos.owners import Owner, Owners
from benchmarks.chaos.parting import Parted
from benchmarks.chaos.verify import Check, Difference

LINES: Final = 40
WIDTH: Final = 160
_EXAMPLES: Final = 2

_T = TypeVar("_T")
_K = TypeVar("_K", int, str, tuple[str, int])


class Compared(NamedTuple):
    """A check and the lines that show its differences."""

    check: Check
    lines: Sequence[str] = ()

    @classmethod
    def by_kind(cls, check: Check) -> "Compared":
        """Show the differences by kind, with examples."""
        return cls(check, of_kinds(check.differences))


def of_states(
    differences: Iterable[Difference],
    partition_of: Callable[[str], int],
    parted: Mapping[str, Parted | None],
    owners: Owners,
) -> list[str]:
    """Return per changelog partition the number of states, the first offset that differs, and its owner then."""
    lines = []
    for partition, group in _by(differences, lambda difference: partition_of(difference.about)):
        places = [place for one in group if (place := parted.get(one.about)) is not None]
        where = "no record of them"
        if places:
            first = min(places, key=lambda place: place.offset)
            owner = _owned_by(owners.at_offset(partition, first.offset))
            where = f"from offset {first.offset} on ({first.how}), {owner}"
        lines.append(f"changelog partition {partition}: {len(group):,}, {where}; {_kinds(group)}")
    return lines


def of_evidence(
    differences: Iterable[Difference],
    place_of: Callable[[Difference], Place | None],
    owner_of: Callable[[Place], Owner | None],
) -> list[str]:
    """Return per source partition the number of differences, their range of offsets, and the owner at the first."""
    placed: list[tuple[Place, Difference]] = []
    lost: list[Difference] = []
    for difference in differences:
        place = place_of(difference)
        if place is None:
            lost.append(difference)
        else:
            placed.append((place, difference))
    lines = []
    for (topic, partition), found in _by(placed, lambda one: one[0][:2]):
        places = sorted(place for place, _ in found)
        group = [difference for _, difference in found]
        lines.append(
            f"{topic} partition {partition}: {len(group):,}, offsets {places[0][2]} to {places[-1][2]}, "
            f"{_owned_by(owner_of(places[0]))}; {_kinds(group)}"
        )
    if lost:
        lines.append(f"of no known place: {len(lost):,}; {_kinds(lost)}")
    return lines


def of_kinds(differences: Iterable[Difference]) -> list[str]:
    """Return per kind the number of differences and the first of them in full."""
    lines = []
    for kind, group in _by(differences, lambda difference: difference.kind):
        lines.append(f"{len(group):,} {kind}")
        lines += [f"  e.g. {difference}" for difference in group[:_EXAMPLES]]
    return lines


def screen(head: str, compared: Sequence[Compared], foot: Sequence[str]) -> list[str]:
    """Return the differences in at most LINES lines of at most WIDTH columns; the rest is counted."""
    wrong = [one for one in compared if not one.check.ok]
    good = len(compared) - len(wrong)
    last = [f"ok     {good} other checks"] * bool(good) + [*foot]
    room = LINES - 1 - len(last) - len(wrong)
    shown = [head]
    for one, lines in zip(wrong, _shares([len(one.lines) for one in wrong], room), strict=True):
        shown.append(f"WRONG  {one.check.name}: {len(one.check.differences):,} differ, of {one.check.found}")
        kept = one.lines if lines == len(one.lines) else one.lines[: max(0, lines - 1)]
        shown += [f"         {line}" for line in kept]
        if len(kept) < len(one.lines) and lines:
            shown.append(f"         and {len(one.lines) - len(kept):,} more lines")
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


def _by(items: Iterable[_T], key: Callable[[_T], _K]) -> list[tuple[_K, list[_T]]]:
    ordered = sorted(items, key=key)
    return [(value, list(group)) for value, group in groupby(ordered, key)]


def _kinds(differences: Sequence[Difference]) -> str:
    """Return an example and the number of each kind, most frequent first."""
    counts = Counter(difference.kind for difference in differences)
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    return f"e.g. {differences[0].about}; {said}"


def _owned_by(owner: Owner | None) -> str:
    return "owner not known" if owner is None else f"owner {owner}"
