"""An SVG picture of the outcomes of a sweep, as one line of text, without a library. Pure."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil
from typing import Final

_WIDTH: Final = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 720, 50, 300
_STYLE: Final = "font-family: system-ui, sans-serif; font-size: 12px"
_COLOURS: Final = ("#0b5394", "#b00020", "#38761d", "#7f6000", "#674ea7", "#444444")
_DASHES: Final = ("", 'stroke-dasharray="6 3"', 'stroke-dasharray="2 3"')


def curves(title: str, x_name: str, y_name: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return counts over the values of one setting: a line for each name, from 0 up, with labelled axes."""
    xs = sorted({x for points in lines.values() for x, _ in points}) or [0.0]
    marks = _round_numbers(max((y for points in lines.values() for _, y in points), default=1) or 1)
    span = (xs[-1] - xs[0]) or 1

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + (_RIGHT - _LEFT) * (x - xs[0]) / span, _BOTTOM - (_BOTTOM - _TOP) * y / marks[-1]

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 350" role="img" style="{_STYLE}">',
        f'<rect width="{_WIDTH}" height="350" fill="#fff"/>',
        f'<text x="{_LEFT}" y="26" font-size="15">{escape(title)}</text>',
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="#444"/>',
        f'<text x="{(_LEFT + _RIGHT) / 2:.0f}" y="340" text-anchor="middle">{escape(x_name)}</text>',
        f'<text x="16" y="175" text-anchor="middle" transform="rotate(-90 16 175)">{escape(y_name)}</text>',
    ]
    for mark in marks:
        y = place(xs[0], mark)[1]
        parts.append(f'<text x="52" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#ddd"/>')
    for x in xs:
        parts.append(f'<text x="{place(x, 0)[0]:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    for number, (name, points) in enumerate(lines.items()):
        stroke = f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="2" {_DASHES[number % len(_DASHES)]}'
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (place(x, y) for x, y in sorted(points)))
        y = 60 + 20 * number
        parts.append(f'<polyline points="{path}" fill="none" {stroke}/>')
        parts.append(f'<path d="M{_RIGHT + 20} {y}h30" {stroke}/>')
        parts.append(f'<text x="{_RIGHT + 56}" y="{y + 4}">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def _round_numbers(most: float) -> list[float]:
    """Return 0 to at least `most` in at most six steps of 1, 2 or 5 times a power of ten, none below 1."""
    step = next(s * 10**power for power in range(16) for s in (1, 2, 5) if s * 10**power * 6 >= most)
    return [float(step * number) for number in range(ceil(most / step) + 1)]
