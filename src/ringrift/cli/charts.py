"""Charts: curves as SVG drawings with labelled axes, without a script or anything from elsewhere."""

import math
from collections.abc import Sequence
from html import escape

from ringrift.kernel.value import Value

_WIDTH, _HEIGHT = 760, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 24, 40
_TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)
_UNITS = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}


class Curve(Value):
    """A curve by points (x, y), as *steps* if each value holds until the next point."""

    name: str
    style: str  # its class in the style sheet
    points: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...] = ()  # of each point: lower and upper
    steps: bool = False


class Mark(Value):
    """A dot or a cross (style *no*) with a label that is shown when it is pointed at."""

    x: float
    y: float
    style: str
    label: str


class _Scale:
    """From values to coordinates in the drawing."""

    def __init__(self, curves: Sequence[Curve], marks: Sequence[Mark], x_max: float, *, from_zero: bool) -> None:
        xs = [x_max] + [x for curve in curves for x, _ in curve.points] + [mark.x for mark in marks]
        ys = [y for curve in curves for _, y in curve.points] + [mark.y for mark in marks]
        ys += [bound for curve in curves for bounds in curve.bounds for bound in bounds]
        self.left, self.right = min([0.0, *xs]), max(xs)
        self.right = self.right if self.right > self.left else self.left + 1.0
        self.low, self.high = min([0.0, *ys] if from_zero else ys, default=0.0), max(ys, default=1.0)
        margin = (self.high - self.low or abs(self.high) or 1.0) * 0.05
        self.low, self.high = self.low - (margin if self.low or not from_zero else 0.0), self.high + margin

    def x(self, value: float) -> float:
        return _LEFT + (value - self.left) / (self.right - self.left) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _TOP + (self.high - value) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)


class TimeAxis:
    """Times from *start* to *end* in a unit in which the numbers are neither tiny nor huge: at least two of it."""

    def __init__(self, start: float, end: float) -> None:
        self._start, self.unit = start, next((unit for unit in _UNITS if end - start >= 2 * _UNITS[unit]), "seconds")
        self.end = self.at(end)

    def at(self, time: float) -> float:
        """The place of *time* on the axis."""
        return (time - self._start) / _UNITS[self.unit]


def chart(
    curves: Sequence[Curve], labels: tuple[str, str], marks: Sequence[Mark] = (), *, end: float = 0.0, zero: bool = True
) -> str:
    """The drawing of *curves* and *marks*, at least up to *end*, and from *zero* on; *labels* are those of x and y."""
    scale = _Scale(curves, marks, end, from_zero=zero)
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape("{1} by {0}".format(*labels))}">'
    parts = [*_axes(scale, *labels), *(part for curve in curves for part in _curve(curve, scale))]
    parts += [_mark(mark, scale) for mark in marks] + (_legend(curves) if len(curves) > 1 else [])
    return "\n".join([svg, *parts, "</svg>"])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from *low* to *high*, about as many as fit."""
    rough = max(high - low, 1e-9) / _TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in _STEPS if size * factor >= rough)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _axes(scale: _Scale, x_label: str, y_label: str) -> list[str]:
    levels = [(value, scale.y(value)) for value in _ticks(scale.low, scale.high)]
    places = [(value, scale.x(value)) for value in _ticks(scale.left, scale.right)]
    middle, center = (_TOP + _HEIGHT - _BOTTOM) / 2, (_LEFT + _WIDTH - _RIGHT) / 2
    turned, below = f'transform="rotate(-90 14 {middle:.0f})"', _HEIGHT - _BOTTOM + 16
    return [
        *(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>' for _, y in levels),
        *(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>' for value, y in levels),
        *(f'<text x="{x:.1f}" y="{below}" text-anchor="middle">{value:g}</text>' for value, x in places),
        f'<text x="{center:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="14" y="{middle:.0f}" text-anchor="middle" {turned}>{escape(y_label)}</text>',
    ]


def _curve(curve: Curve, scale: _Scale) -> list[str]:
    """The band of the bounds, if there are any, and the curve; steps go on to the right edge."""

    def walk(values: Sequence[float]) -> list[str]:
        xs = [scale.x(x) for x, _ in curve.points]
        ys = [scale.y(value) for value in values]
        if not curve.steps:
            return [f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True)]
        ends = [*xs[1:], scale.x(scale.right)]
        return [f"{x:.1f},{y:.1f}" for left, right, y in zip(xs, ends, ys, strict=True) for x in (left, right)]

    parts = []
    if curve.bounds:
        lower, upper = (walk([bounds[side] for bounds in curve.bounds]) for side in (0, 1))
        parts.append(f'<polygon class="band {curve.style}" points="{" ".join(upper + lower[::-1])}"/>')
    if curve.points:
        line = " ".join(walk([y for _, y in curve.points]))
        parts.append(f'<polyline class="curve {curve.style}" points="{line}"/>')
    for x, y in () if curve.steps else curve.points:
        parts.append(f'<circle class="dot {curve.style}" cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="2"/>')
    return parts


def _mark(mark: Mark, scale: _Scale) -> str:
    x, y, title = scale.x(mark.x), scale.y(mark.y), f"<title>{escape(mark.label)}</title>"
    if mark.style != "no":
        return f'<circle class="{mark.style}" cx="{x:.1f}" cy="{y:.1f}" r="4">{title}</circle>'
    arms = f"M{x - 4:.1f},{y - 4:.1f}L{x + 4:.1f},{y + 4:.1f}M{x - 4:.1f},{y + 4:.1f}L{x + 4:.1f},{y - 4:.1f}"
    return f'<path class="no" d="{arms}">{title}</path>'


def _legend(curves: Sequence[Curve]) -> list[str]:
    """The names of the curves above the drawing, each behind a piece of its line."""
    parts, x = [], float(_LEFT)
    for curve in curves:
        parts.append(f'<line class="curve {curve.style}" x1="{x:.0f}" x2="{x + 18:.0f}" y1="10" y2="10"/>')
        parts.append(f'<text x="{x + 24:.0f}" y="14">{escape(curve.name)}</text>')
        x += 40 + 7 * len(curve.name)
    return parts
