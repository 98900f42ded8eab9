"""An SVG picture of a session's timeline, as one line of text, without a library. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from haltline.schemas.record import rfc3339

_WIDTH: Final = 960
_LEFT: Final = 110
_LANE: Final = 38
_MAX_WIDTH: Final = 8_000
_PER_MARK: Final = 14
"""The width for each mark of the fullest lane, in pixels."""
_BESIDE: Final = (0, -9, 9)
"""The vertical positions of simultaneous marks in a lane, in pixels below its middle."""
_SHORTEST_WAIT_MS: Final = 30_000
_MAX_WAITS: Final = 12
_WAIT_SHARE: Final = 0.06
"""The width of a wait, as a part of the width that is to scale. The console's session story uses the same."""
_CLOCK: Final = 130
"""The least distance of two times below the lanes, in pixels."""
_STYLE: Final = "font-family: system-ui, sans-serif; font-size: 12px"
_SHAPES: Final = {
    "tick": '<path d="M0 -7v14" stroke="{0}" stroke-width="2">',
    "dot": '<path d="M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z" fill="{0}">',
    "diamond": '<path d="M0 -8l8 8l-8 8l-8-8z" fill="{0}">',
    "cross": '<path d="M-6 -6l12 12m0-12l-12 12" stroke="{0}" stroke-width="3">',
}
"""By name: kinds of marks differ in shape too, not only in colour."""


class Mark(NamedTuple):
    """A mark: something that happened."""

    lane: str
    time_ms: int
    shape: str
    """One of `tick`, `dot`, `diamond` and `cross`."""
    colour: str
    what: str
    """The tooltip."""


def timeline(lanes: Sequence[str], marks: Sequence[Mark], stop_ms: int | None = None) -> str:
    """Return the marks over time, a lane for each kind, with a line at the stop. More marks make it wider.

    Distances are to scale, except for long waits without marks, which are grey and say how long they are.
    """
    shown = sorted(marks, key=lambda mark: mark.time_ms)
    fullest = max(Counter(mark.lane for mark in shown).values(), default=0)
    width, height = min(_MAX_WIDTH, max(_WIDTH, _LEFT + _PER_MARK * fullest)), _LANE * len(lanes) + 46
    places, waits = _scaled([mark.time_ms for mark in shown] + ([] if stop_ms is None else [stop_ms]))
    at = {time_ms: _LEFT + (width - 20 - _LEFT) * place for time_ms, place in places.items()}
    counts = ", ".join(f"{lane} {sum(mark.lane == lane for mark in shown)}" for lane in lanes)
    label = f'role="img" aria-label="timeline of the session: {escape(counts)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="{_STYLE}" {label}>']
    for begin, end in waits:
        parts.append(f'<path d="M{at[begin]:.1f} 8H{at[end]:.1f}V{height - 30}H{at[begin]:.1f}z" fill="#eee">')
        parts.append(f"<title>no records for {_duration(end - begin)}: not to scale</title></path>")
        middle = f'x="{(at[begin] + at[end]) / 2:.1f}" text-anchor="middle"'
        parts.append(f'<text {middle} y="{height - 34}" fill="#444">{_duration(end - begin)}</text>')
    middles = {lane: 24 + _LANE * number for number, lane in enumerate(lanes)}
    for lane, y in middles.items():
        parts.append(f'<text x="8" y="{y + 4}" fill="#444">{escape(lane)}</text>')
        parts.append(f'<path d="M{_LEFT} {y}H{width - 20}" stroke="#ddd"/>')
    same, free = Counter[tuple[str, int]](), 0.0
    for mark in shown:
        x, y = at[mark.time_ms], middles[mark.lane] + _BESIDE[same[mark.lane, mark.time_ms] % len(_BESIDE)]
        same[mark.lane, mark.time_ms] += 1
        parts.append(f'<g transform="translate({x:.1f} {y})">{_SHAPES[mark.shape].format(mark.colour)}')
        parts.append(f"<title>{escape(f'{rfc3339(mark.time_ms)}  {mark.what}')}</title></path></g>")
        left = min(x, width - _CLOCK)
        if left >= free:
            parts.append(f'<text x="{left:.1f}" y="{height - 8}" fill="#444">{_clock(mark.time_ms)}</text>')
            free = left + _CLOCK
    if stop_ms is not None:
        parts.append(f'<path d="M{at[stop_ms]:.1f} 8V{height - 30}" stroke="#b00020" stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{at[stop_ms] - 4:.1f}" y="12" fill="#b00020" text-anchor="end">stopped</text>')
    return "".join([*parts, "</svg>"])


def _scaled(times_ms: Iterable[int]) -> tuple[dict[int, float], list[tuple[int, int]]]:
    """Return the place of each time, from 0 to 1, and the waits, which are not to scale.

    A wait is at least half a minute long, and longer than a third of the rest.
    """
    times = sorted(set(times_ms))
    gaps = list(pairwise(times))
    rest, waits = sum(end - begin for begin, end in gaps), set[tuple[int, int]]()
    for begin, end in sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_MAX_WAITS]:
        length = end - begin
        if length < _SHORTEST_WAIT_MS or not rest - length or length <= (rest - length) / 3:
            break
        waits.add((begin, end))
        rest -= length
    lengths = (rest * _WAIT_SHARE if gap in waits else gap[1] - gap[0] for gap in gaps)
    places = list(accumulate(lengths, initial=0.0))
    return {time_ms: place / (places[-1] or 1) for time_ms, place in zip(times, places, strict=False)}, sorted(waits)


def _clock(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%m-%d %H:%M:%S}"


def _duration(ms: int) -> str:
    for length, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * length:
            return f"{ms / length:.0f} {name}"
    return f"{ms / 1000:.0f} s"
