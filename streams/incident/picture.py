"""SVG pictures of a session's timeline and of curves, as lines of text, without a library. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

WIDTH: Final = 960
_LEFT: Final = 110
_LANE: Final = 38
_MAX_WIDTH: Final = 8_000
_PER_MARK: Final = 14
"""The width per mark, in pixels."""
_BESIDE: Final = (0, -9, 9)
"""The vertical positions of simultaneous marks in a lane, in pixels below its middle."""
_LEAST_CHARS: Final = 6
_SHORTEST_WAIT_MS: Final = 30_000
_MAX_WAITS: Final = 12
_WAIT_SHARE: Final = 0.06
"""The width of a wait, as a part of the width that is to scale. The console's session story uses the same."""
_STYLE: Final = "font-family: system-ui, sans-serif; font-size: 12px"

Shape = str
"""`tick`, `dot`, `diamond` or `cross`: kinds differ in shape too, not only in colour."""


class Mark(NamedTuple):
    """A mark: something that happened."""

    lane: str
    time_ms: int
    shape: Shape
    colour: str
    what: str
    """The tooltip."""
    begun_ms: int | None = None
    """For a result: when its call began."""
    text: str = ""
    """The label beside it, if there is room."""


class Wait(NamedTuple):
    """A time without marks, not drawn to scale."""

    from_ms: int
    to_ms: int


def waits_in(times_ms: Iterable[int]) -> list[Wait]:
    """Return the waits that would leave little room: at least half a minute, and more than a third of the rest."""
    times = sorted(set(times_ms))
    rest = times[-1] - times[0] if times else 0
    found: list[Wait] = []
    for wait in sorted((Wait(*pair) for pair in pairwise(times)), key=lambda one: one.from_ms - one.to_ms):
        length = wait.to_ms - wait.from_ms
        others = rest - length
        if len(found) == _MAX_WAITS or length < _SHORTEST_WAIT_MS or others <= 0 or length <= others / 3:
            break
        found.append(wait)
        rest = others
    return sorted(found)


class _Scale:
    """The mapping of times to positions: to scale, except for waits, which all have the same width."""

    def __init__(self, times_ms: Sequence[int], left: float, right: float) -> None:
        self.waits = waits_in(times_ms)
        begin, end = min(times_ms, default=0), max(times_ms, default=1)
        lengths = [0.0]
        moments = [begin]
        active = max(1, end - begin - sum(wait.to_ms - wait.from_ms for wait in self.waits))
        for wait in self.waits:
            lengths.append(lengths[-1] + wait.from_ms - moments[-1])
            lengths.append(lengths[-1] + active * _WAIT_SHARE)
            moments += wait
        lengths.append(lengths[-1] + max(1, end - moments[-1]))
        self._moments = [*moments, max(end, moments[-1] + 1)]
        self._places = [left + (right - left) * length / lengths[-1] for length in lengths]
        self.active_ms = active

    def place(self, time_ms: float) -> float:
        """Return the horizontal position."""
        return _between(time_ms, self._moments, self._places)

    def time_ms(self, place: float) -> int:
        """Return the time at a position."""
        return round(_between(place, self._places, self._moments))

    def is_wait(self, place: float) -> bool:
        """Return whether a position is in a wait."""
        return any(self.place(wait.from_ms) < place < self.place(wait.to_ms) for wait in self.waits)


def _between(value: float, known: Sequence[float], others: Sequence[float]) -> float:
    value = min(max(value, known[0]), known[-1])
    part = min(max(bisect_left(known, value) - 1, 0), len(known) - 2)
    share = (value - known[part]) / (known[part + 1] - known[part] or 1)
    return others[part] + share * (others[part + 1] - others[part])


def timeline(lanes: Sequence[str], marks: Sequence[Mark], stop_ms: int | None = None) -> str:
    """Return marks over time, a lane for each kind, with a line at the stop. More marks make it wider."""
    shown = sorted((mark for mark in marks if mark.lane in lanes), key=lambda mark: mark.time_ms)
    fullest = max(Counter(mark.lane for mark in shown).values(), default=0)
    width = min(_MAX_WIDTH, max(WIDTH, _LEFT + _PER_MARK * fullest))
    scale = _Scale([mark.time_ms for mark in shown], _LEFT, width - 20)
    height = _LANE * len(lanes) + 46
    what = ", ".join(f"{lane} {sum(mark.lane == lane for mark in shown)}" for lane in lanes)
    label = f'role="img" aria-label="timeline of the session: {escape(what)}" style="{_STYLE}"'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>']
    for wait in scale.waits:
        left, right = scale.place(wait.from_ms), scale.place(wait.to_ms)
        parts.append(
            f'<rect x="{left:.1f}" y="8" width="{right - left:.1f}" height="{height - 38}" fill="#eee">'
            f"<title>no records for {_duration(wait.to_ms - wait.from_ms)}: not to scale</title></rect>"
            f'<text x="{(left + right) / 2:.1f}" y="{height - 34}" fill="#444" text-anchor="middle">'
            f"{_duration(wait.to_ms - wait.from_ms)}</text>"
        )
    for number, lane in enumerate(lanes):
        y = 24 + _LANE * number
        parts.append(f'<text x="8" y="{y + 4}" fill="#444">{escape(lane)}</text>')
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{width - 20}" y2="{y}" stroke="#ddd"/>')
    if stop_ms is not None:
        at = scale.place(stop_ms)
        parts.append(
            f'<line x1="{at:.1f}" y1="8" x2="{at:.1f}" y2="{height - 30}" stroke="#b00020" stroke-dasharray="4 3"/>'
        )
        end = at > width - 90
        parts.append(
            f'<text x="{at - 4 if end else at + 4:.1f}" y="12" fill="#b00020" '
            f'text-anchor="{"end" if end else "start"}">stopped</text>'
        )
    for number, lane in enumerate(lanes):
        parts += _lane([mark for mark in shown if mark.lane == lane], scale, 24 + _LANE * number, width - 20)
    count = max(5, (width - _LEFT) // 190)
    clock = _clock(scale.active_ms if not scale.waits else scale.active_ms + 10_000)
    for number in range(count):
        place = _LEFT + (width - 20 - _LEFT) * number / (count - 1)
        if scale.is_wait(place):
            continue
        anchor = "start" if number == 0 else "end" if number == count - 1 else "middle"
        parts.append(
            f'<text x="{place:.1f}" y="{height - 8}" fill="#444" text-anchor="{anchor}">'
            f"{clock(datetime.fromtimestamp(scale.time_ms(place) / 1000, UTC))}</text>"
        )
    return "".join([*parts, "</svg>"])


def _lane(marks: Sequence[Mark], scale: _Scale, y: float, right: float) -> list[str]:
    parts, same = [], 0
    texts = [scale.place(mark.time_ms) for mark in marks if mark.text]
    texts.append(right)
    texts.reverse()
    for number, mark in enumerate(marks):
        x = scale.place(mark.time_ms)
        same = same + 1 if number and marks[number - 1].time_ms == mark.time_ms else 0
        if mark.begun_ms is not None:
            begun = scale.place(mark.begun_ms)
            parts.append(
                f'<rect x="{begun:.1f}" y="{y - 4}" width="{max(1.0, x - begun):.1f}" height="8" '
                f'fill="{mark.colour}" opacity="0.4"/>'
            )
        parts.append(_mark(mark, x, y + _BESIDE[same % len(_BESIDE)]))
        if mark.text:
            texts.pop()
            fits = int((texts[-1] - x - 4) / 6.2)
            if fits >= _LEAST_CHARS:
                text = mark.text if len(mark.text) <= fits else mark.text[: fits - 1] + "\u2026"
                parts.append(f'<text x="{x:.1f}" y="{y - 9}" fill="#444" font-size="11">{escape(text)}</text>')
    return parts


def curves(title: str, x_name: str, y_name: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return counts over the values of one setting: a line for each name, from 0 up, with labelled axes."""
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
    """Return 0 to at least `most` in at most six steps of 1, 2 or 5 times a power of ten, none below 1."""
    step = next(s * 10**power for power in range(16) for s in (1, 2, 5) if s * 10**power * 6 >= most)
    return [float(step * number) for number in range(ceil(most / step) + 1)]


def _clock(span_ms: int) -> Callable[[datetime], str]:
    """Return the time format in which a picture's times differ."""
    if span_ms < 10_000:
        return lambda moment: f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
    return lambda moment: f"{moment:%H:%M:%S}" if span_ms < 86_400_000 else f"{moment:%Y-%m-%d %H:%M}"


def _duration(ms: int) -> str:
    for length, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * length:
            return f"{ms / length:.0f} {name}"
    return f"{ms / 1000:.0f} s"


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
