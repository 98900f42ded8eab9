"""An SVG picture of a session's timeline, as one line of text, without a library. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from math import ceil
from typing import Final, NamedTuple

_WIDTH: Final = 960
_LEFT: Final = 110
_LANE: Final = 38
_STEPS: Final = (8.0, 60.0)
"""The least and the largest distance of two marks, in pixels."""
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
    """Return the marks in the order of their times, a lane for each kind, with a line at the stop.

    Each mark has the same room, whatever the time between two of them.
    """
    shown = sorted(marks, key=lambda mark: mark.time_ms)
    step = min(max((_WIDTH - _LEFT) / (len(shown) + 1), _STEPS[0]), _STEPS[1])
    width, height = max(_WIDTH, _LEFT + round(step * (len(shown) + 1))), _LANE * len(lanes) + 46
    counts = ", ".join(f"{lane} {sum(mark.lane == lane for mark in shown)}" for lane in lanes)
    label = f'role="img" aria-label="timeline of the session: {escape(counts)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="{_STYLE}" {label}>']
    middles = {lane: 24 + _LANE * number for number, lane in enumerate(lanes)}
    for lane, y in middles.items():
        parts.append(f'<text x="8" y="{y + 4}" fill="#444">{escape(lane)}</text>')
        parts.append(f'<path d="M{_LEFT} {y}H{width}" stroke="#ddd"/>')
    every = ceil(_CLOCK / step)
    for number, mark in enumerate(shown):
        x = _LEFT + step * (number + 0.5)
        shape = _SHAPES[mark.shape].format(mark.colour)
        parts.append(f'<g transform="translate({x:.1f} {middles[mark.lane]})">{shape}')
        parts.append(f"<title>{escape(f'{_clock(mark.time_ms)}  {mark.what}')}</title></path></g>")
        if number % every == 0:
            parts.append(f'<text x="{x:.1f}" y="{height - 8}" fill="#444">{_clock(mark.time_ms)}</text>')
    if stop_ms is not None:
        x = _LEFT + step * sum(mark.time_ms <= stop_ms for mark in shown)
        parts.append(f'<path d="M{x:.1f} 8V{height - 30}" stroke="#b00020" stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{x - 4:.1f}" y="12" fill="#b00020" text-anchor="end">stopped</text>')
    return "".join([*parts, "</svg>"])


def _clock(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%m-%d %H:%M:%S}"
