"""The curves of a sweep as SVG, with text elements, in colours for light and dark pages."""

from collections.abc import Sequence
from html import escape
from typing import Literal, TypeAlias

import svg

from benchmarks.quality.curve import Point, Swept

_TITLE = "Runaways stopped, against false stops"
_WIDTH, _HEIGHT = 820, 500
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 790, 56, 440
_STEPS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2)
"""Steps of the false stops' axis: the first one of which six are wide enough is used."""
_Side: TypeAlias = tuple[int, int]
"""Right (1) or left (-1) of a point, and the offset of the text's baseline downwards."""
_ABOVE: tuple[_Side, ...] = ((-1, -4), (1, -4), (1, 15), (-1, 15))
_BELOW: tuple[_Side, ...] = ((1, 15), (1, 5), (1, -4), (-1, 15), (-1, -4))
_Anchor: TypeAlias = Literal["start", "middle", "end"]
_LINE_PX, _LETTER_PX = 15, 7
_LIGHT = ("#0969da", "#8250df", "#0a3069", "#953800", "#a40e26", "#1a7f37")
_DARK = ("#58a6ff", "#d2a8ff", "#a5d6ff", "#ffa657", "#ff7b72", "#7ee787")
"""Colours of the curves, then of the systems."""


def _style() -> str:
    def colours(page: str, text: str, faint: str, shades: tuple[str, ...]) -> str:
        return (
            f".page{{fill:{page}}} text{{fill:{text};stroke:{page}}} .axis{{stroke:{text}}} .grid{{stroke:{faint}}} "
        ) + " ".join(f".c{n}{{color:{shade}}} .c{n} text{{fill:{shade}}}" for n, shade in enumerate(shades))

    return (
        # Letters have an outline in the page's colour, so that they are readable on a line.
        "text{font:13px system-ui,sans-serif;paint-order:stroke;stroke-width:4px} "
        ".title{font-size:16px;font-weight:600} g{stroke:currentColor} "
        f"{colours('#ffffff', '#1f2328', '#d1d9e0', _LIGHT)} "
        f"@media (prefers-color-scheme:dark){{{colours('#0d1117', '#e6edf3', '#3d444d', _DARK)}}}"
    )


def picture(swept: Swept) -> str:
    """Draw a sweep; equal input gives equal bytes."""
    points = [point for curve in swept.curves.values() for point in curve]
    widest = max([*(point.false.share for point in points), *(p.false.interval[1] for p in swept.systems)])
    drawing = _Drawing(next(step for step in _STEPS if 6 * step >= widest))
    drawing.keep_free([*points, *swept.systems])
    # Names are required, so they are placed first; values of the setting are left out if there is no room.
    systems = [drawing.system(n, point) for n, point in enumerate(swept.systems, start=len(swept.curves))]
    curves = [drawing.curve(n, name, points) for n, (name, points) in enumerate(swept.curves.items())]
    head: list[svg.Element] = [
        svg.Title(text=_TITLE),
        svg.Style(text=_style()),
        svg.Rect(width=_WIDTH, height=_HEIGHT, class_=["page"]),
        _text(_LEFT, 26, _TITLE, "title"),
    ]
    return str(
        svg.SVG(
            viewBox=svg.ViewBoxSpec(0, 0, _WIDTH, _HEIGHT),
            extra={"role": "img", "aria-label": _TITLE},
            elements=[*head, *drawing.axes(swept), *curves, *systems],
        )
    )


class _Drawing:
    """The coordinates of the picture, and the boxes that texts occupy."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._taken: list[tuple[float, float, float, float]] = []

    def axes(self, swept: Swept) -> list[svg.Element]:
        """Axes with six steps for false stops, up to the largest share, and for runaways, from 0 to 100 %."""
        shapes: list[svg.Element] = []
        for number in range(7):
            share = self._step * number
            x, _ = self._at(share, 0)
            shapes.append(svg.Line(x1=x, y1=_TOP, x2=x, y2=_BOTTOM, class_=["axis" if number == 0 else "grid"]))
            shapes.append(_text(x, _BOTTOM + 18, f"{100 * share:g}", anchor="middle"))
        for number in range(6):
            _, y = self._at(0, number / 5)
            shapes.append(svg.Line(x1=_LEFT, y1=y, x2=_RIGHT, y2=y, class_=["axis" if number == 0 else "grid"]))
            shapes.append(_text(_LEFT - 8, y + 4, f"{20 * number}", anchor="end"))
        first = swept.systems[0]
        below = f"false stops: sound and solved sessions that are stopped, % of {first.false.of}"
        beside = f"runaways that are stopped, % of {first.stopped.of}"
        shapes.append(_text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, below, anchor="middle"))
        turned = _text(18, (_TOP + _BOTTOM) / 2, beside, anchor="middle")
        turned.transform = [svg.Rotate(-90, 18, (_TOP + _BOTTOM) / 2)]
        caption = f"curves: over {swept.setting}; crosses: 95 % intervals"
        return [*shapes, turned, _text(_LEFT, 44, caption)]

    def curve(self, number: int, name: str, points: Sequence[Point]) -> svg.Element:
        """A line through the points, each with its value if there is room, and the name at the outermost point."""
        places = [self._at(point.false.share, point.stopped.share) for point in points]
        line = svg.Polyline(points=[svg.Point(*place) for place in places], fill="none", stroke_width=2)
        line.stroke_dasharray = [6, 4] if number else None
        shapes: list[svg.Element] = [line]
        texts: list[svg.Element] = []
        # The first curve has its texts above it, the others below.
        sides = _ABOVE if number == 0 else _BELOW
        for n, (point, (x, y)) in sorted(enumerate(zip(points, places, strict=True)), key=lambda p: -p[1][1][0]):
            shapes.append(svg.Circle(cx=x, cy=y, r=3.5, fill="currentColor", elements=[svg.Title(text=_told(point))]))
            name, text = "", f"{name}: {point.name}" if name else point.name
            texts += self._label(x, y, text, sides, needed=n == 0)
        shapes += texts
        return svg.G(class_=[f"c{number}"], elements=shapes)

    def system(self, number: int, point: Point) -> svg.Element:
        """A diamond with its two intervals as a cross, and its name."""
        x, y = self._at(point.false.share, point.stopped.share)
        left, _ = self._at(point.false.interval[0], 0)
        right, _ = self._at(point.false.interval[1], 0)
        _, low = self._at(0, point.stopped.interval[0])
        _, high = self._at(0, point.stopped.interval[1])
        return svg.G(
            class_=[f"c{number}"],
            elements=[
                svg.Line(x1=left, y1=y, x2=right, y2=y, stroke_width=1.5),
                svg.Line(x1=x, y1=low, x2=x, y2=high, stroke_width=1.5),
                svg.Path(
                    d=[svg.M(x, y - 6), svg.l(6, 6), svg.l(-6, 6), svg.l(-6, -6), svg.Z()],
                    fill="currentColor",
                    elements=[svg.Title(text=_told(point))],
                ),
                *self._label(x, y, point.name, _BELOW, needed=True),
            ],
        )

    def _at(self, false: float, stopped: float) -> tuple[float, float]:
        x = _LEFT + (_RIGHT - _LEFT) * false / (6 * self._step)
        return round(x, 1), round(_BOTTOM - (_BOTTOM - _TOP) * stopped, 1)

    def keep_free(self, points: Sequence[Point]) -> None:
        """Keep texts off these points."""
        for x, y in (self._at(point.false.share, point.stopped.share) for point in points):
            self._taken.append((x - 5, y - 5, x + 5, y + 5))

    def _label(self, x: float, y: float, text: str, sides: Sequence[_Side], *, needed: bool) -> list[svg.Element]:
        """A text beside a point that covers no other; without room it is left out, unless it is needed."""
        width = _LETTER_PX * len(text)
        further = [(1, sign * _LINE_PX * n) for n in range(1, 30) for sign in (1, -1)] if needed else []
        for side, down in [*sides, *further]:
            left, base = (x + 8 if side > 0 else x - 8 - width), y + down
            box = left, base - _LINE_PX, left + width, base
            inside = left > _LEFT and left + width < _WIDTH and _TOP < base < _BOTTOM
            if inside and not any(_overlap(box, other) for other in self._taken):
                self._taken.append(box)
                return [_text(round(left, 1), round(base, 1), text)]
        return []


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _told(point: Point) -> str:
    stopped, false = point.stopped, point.false
    return escape(f"{point.name}: {stopped.part} of {stopped.of} runaways, {false.part} of {false.of} false stops")


def _text(x: float, y: float, text: str, kind: str = "label", *, anchor: _Anchor = "start") -> svg.Text:
    return svg.Text(x=x, y=y, text=escape(text), class_=[kind], text_anchor=anchor)
