"""Plot: strength over time as an SVG drawing in the text of a page."""

import math
from collections.abc import Sequence

from ringrift.evaluation import interval
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Decision, gains

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 34
CONFIDENCE = 0.95
TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)


class Point(Value):
    """Where a line stood after a decision: *minute* since its first, Elo over generation 0 with bounds."""

    minute: float
    elo: interval.Interval
    promoted: bool
    label: str


def points(decisions: Sequence[Decision], players: int) -> list[Point]:
    """One for each decision, oldest first; a rejection leaves strength where it was."""
    found = []
    for number, one in enumerate(decisions, start=1):
        stands = interval.summed(gains(decisions[:number], players), CONFIDENCE)
        became = "brought back" if one.kind == "rollback" else "promoted" if one.promoted else "rejected"
        what = f"generation {one.generation} {became}, {stands.value:+.0f} Elo"
        minute = (one.time - decisions[0].time) / 60
        found.append(Point(minute=minute, elo=stands, promoted=one.promoted, label=f"minute {minute:.1f}: {what}"))
    return found


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from *low* to *high*, about as many as fit."""
    rough = max(high - low, 1e-9) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in _STEPS if size * factor >= rough)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


class _Scale:
    """From minutes and Elo to places in the drawing."""

    def __init__(self, found: Sequence[Point]) -> None:
        self.last = max([1.0, *(one.minute for one in found)])
        self.low = min([0.0, *(one.elo.lower for one in found)])
        self.high = max([100.0, *(one.elo.upper for one in found)])

    def x(self, minute: float) -> float:
        return LEFT + minute / self.last * (WIDTH - LEFT - RIGHT)

    def y(self, elo: float) -> float:
        return TOP + (self.high - elo) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def strength(decisions: Sequence[Decision], players: int) -> str:
    """The drawing: steps up at promotions with their bounds, a cross for each rejection."""
    found = points(decisions, players)
    scale = _Scale(found)
    parts = [*_grid(scale), *(_curve(found, scale) if found else ()), *(_mark(one, scale) for one in found)]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Elo over generation 0 by minute">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _grid(scale: _Scale) -> list[str]:
    levels = [(elo, scale.y(elo)) for elo in ticks(scale.low, scale.high)]
    return [
        *(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>' for _, y in levels),
        *(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{elo:+.0f}</text>' for elo, y in levels),
        *(
            f'<text x="{scale.x(minute):.1f}" y="{HEIGHT - 16}" text-anchor="middle">{minute:g}</text>'
            for minute in ticks(0.0, scale.last)
        ),
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">minutes since generation 0</text>',
    ]


def _curve(found: Sequence[Point], scale: _Scale) -> list[str]:
    """The band of the bounds and the steps; both go on to the right edge."""
    ends = [*(one.minute for one in found[1:]), scale.last]
    spans = [(scale.x(one.minute), scale.x(end), one.elo) for one, end in zip(found, ends, strict=True)]

    def walk(heights: Sequence[float]) -> list[str]:
        return [
            place
            for (left, right, _), height in zip(spans, heights, strict=True)
            for place in (f"{left:.1f},{scale.y(height):.1f}", f"{right:.1f},{scale.y(height):.1f}")
        ]

    band = walk([elo.upper for _, _, elo in spans]) + walk([elo.lower for _, _, elo in spans])[::-1]
    steps = walk([elo.value for _, _, elo in spans])
    return [
        f'<polygon class="band" points="{" ".join(band)}"/>',
        f'<polyline class="step" points="{" ".join(steps)}"/>',
    ]


def _mark(one: Point, scale: _Scale) -> str:
    x, y = scale.x(one.minute), scale.y(one.elo.value)
    if one.promoted:
        return f'<circle class="up" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{one.label}</title></circle>'
    arms = f"M{x - 4:.1f},{y - 4:.1f}L{x + 4:.1f},{y + 4:.1f}M{x - 4:.1f},{y + 4:.1f}L{x + 4:.1f},{y - 4:.1f}"
    return f'<path class="no" d="{arms}"><title>{one.label}</title></path>'
