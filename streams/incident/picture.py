"""A session's timeline, and curves, as SVG pictures: some lines of text, without a library. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import ceil
from typing import Final, NamedTuple

WIDTH: Final = 960
_LEFT: Final = 110
_LANE: Final = 34
_STYLE: Final = "font-family: system-ui, sans-serif; font-size: 12px"

Shape = str
"""`tick`, `dot`, `diamond` or `cross`: kinds differ in shape too, not in colour alone."""


class Mark(NamedTuple):
    """Something that happened."""

    lane: str
    time_ms: int
    shape: Shape
    colour: str
    what: str
    """Shown where the pointer is."""


def timeline(lanes: Sequence[str], marks: Sequence[Mark], stop_ms: int | None = None) -> str:
    """Marks over time, a lane for each kind; a line where the session was stopped."""
    begin = min((mark.time_ms for mark in marks), default=0)
    end = max((mark.time_ms for mark in marks), default=1)
    span = max(1, end - begin)

    def x(time_ms: int) -> float:
        return _LEFT + (WIDTH - _LEFT - 20) * (min(max(time_ms, begin), end) - begin) / span

    height = _LANE * len(lanes) + 46
    label = 'role="img" aria-label="timeline of the session"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {label} style="{_STYLE}">']
    for number, lane in enumerate(lanes):
        y = 24 + _LANE * number
        parts.append(f'<text x="8" y="{y + 4}" fill="#444">{escape(lane)}</text>')
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{WIDTH - 20}" y2="{y}" stroke="#ddd"/>')
    if stop_ms is not None:
        at = x(stop_ms)
        parts.append(
            f'<line x1="{at:.1f}" y1="8" x2="{at:.1f}" y2="{height - 30}" stroke="#b00020" stroke-dasharray="4 3"/>'
        )
        parts.append(f'<text x="{at + 4:.1f}" y="12" fill="#b00020">stopped</text>')
    parts += [_mark(mark, x(mark.time_ms), 24 + _LANE * lanes.index(mark.lane)) for mark in marks if mark.lane in lanes]
    clock = _clock(span)
    for number in range(5):
        time_ms = begin + span * number // 4
        anchor = "start" if number == 0 else "end" if number == 4 else "middle"
        parts.append(
            f'<text x="{x(time_ms):.1f}" y="{height - 8}" fill="#444" text-anchor="{anchor}">'
            f"{clock(datetime.fromtimestamp(time_ms / 1000, UTC))}</text>"
        )
    return "".join([*parts, "</svg>"])


def curves(title: str, x_name: str, y_name: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Counts over the values of one setting: a line for each name, from 0 up, with both axes named and marked."""
    xs = sorted({x for points in lines.values() for x, _ in points}) or [0.0]
    marks = _round_numbers(max((y for points in lines.values() for _, y in points), default=1) or 1)
    top = marks[-1]
    span = (xs[-1] - xs[0]) or 1
    right, bottom = WIDTH - 240, 300

    def place(x: float, y: float) -> tuple[float, float]:
        return 60 + (right - 60) * (x - xs[0]) / span, bottom - (bottom - 50) * y / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 350" role="img" style="{_STYLE}">',
        f'<rect width="{WIDTH}" height="350" fill="#fff"/>',
        f'<text x="60" y="26" font-size="15">{escape(title)}</text>',
        f'<line x1="60" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="#444"/>',
        f'<line x1="60" y1="50" x2="60" y2="{bottom}" stroke="#444"/>',
        f'<text x="{(60 + right) / 2:.0f}" y="340" text-anchor="middle">{escape(x_name)}</text>',
        f'<text x="16" y="175" text-anchor="middle" transform="rotate(-90 16 175)">{escape(y_name)}</text>',
    ]
    for mark in marks:
        y = place(xs[0], mark)[1]
        parts.append(f'<text x="52" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
        if mark:
            parts.append(f'<line x1="60" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
    for x in xs:
        parts.append(f'<text x="{place(x, 0)[0]:.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour, dashes = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (place(x, y) for x, y in sorted(points)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" {dashes}/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in (place(*p) for p in points)]
        y = 60 + 20 * number
        parts.append(f'<line x1="{right + 20}" y1="{y}" x2="{right + 50}" y2="{y}" stroke="{colour}" {dashes}/>')
        parts.append(f'<text x="{right + 56}" y="{y + 4}">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def _round_numbers(most: float) -> list[float]:
    """From 0 to `most` or beyond in at most six steps of 1, 2 or 5 times a power of ten, none below 1."""
    step = next(s * 10**power for power in range(16) for s in (1, 2, 5) if s * 10**power * 6 >= most)
    return [float(step * number) for number in range(ceil(most / step) + 1)]


def _clock(span_ms: int) -> Callable[[datetime], str]:
    """How times are written, so that those of one picture differ."""
    if span_ms < 10_000:
        return lambda moment: f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
    return lambda moment: f"{moment:%H:%M:%S}" if span_ms < 86_400_000 else f"{moment:%Y-%m-%d %H:%M}"


_COLOURS: Final = ("#0b5394", "#b00020", "#38761d", "#7f6000", "#674ea7", "#444444")
_DASHES: Final = ("", 'stroke-dasharray="6 3"', 'stroke-dasharray="2 3"')


def _mark(mark: Mark, x: float, y: float) -> str:
    shapes = {
        "tick": f'<line x1="{x:.1f}" y1="{y - 7}" x2="{x:.1f}" y2="{y + 7}" stroke="{mark.colour}" stroke-width="2">',
        "dot": f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{mark.colour}">',
        "diamond": f'<path d="M{x:.1f} {y - 8}l8 8l-8 8l-8-8z" fill="{mark.colour}">',
        "cross": f'<path d="M{x - 6:.1f} {y - 6}l12 12m0-12l-12 12" stroke="{mark.colour}" stroke-width="3">',
    }
    shape = shapes[mark.shape]
    return f"{shape}<title>{escape(mark.what)}</title></{shape[1 : shape.index(' ')]}>"
