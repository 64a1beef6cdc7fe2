"""HTML report: the report as one file that needs nothing else: no script, no font, no picture from anywhere."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from ringrift.cli.formats import CONFIDENCE, duration, short, timestamp
from ringrift.cli.report import Report, conclusion, evidence_cells, finding_cells
from ringrift.evaluation import interval
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Decision, Line, gains
from ringrift.pipeline.proof import Finding

_WIDTH, _HEIGHT = 760, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 12, 34
_TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)


def as_page(result: Report) -> str:
    """The whole page."""
    parts = [_head(result), _proof(result.proof), *(_variant(line, result) for line in result.lines), _foot(result)]
    title = escape(f"RingRift: {', '.join(result.about['variants'])}")
    page = Template(files("ringrift.cli").joinpath("report.html").read_text())
    return page.substitute(title=title, body="\n".join(parts))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are HTML already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>'


def _head(result: Report) -> str:
    about, games = result.about, sum(line.counts.games for line in result.lines)
    run = "{cores} cores ({machine}); workload {workload}, seed {seed}".format(**about)
    text = f"{timestamp(about['begun'])}, {duration(about['ended'] - about['begun'])} on {run}; {games} games and "
    text += f"{sum(line.iteration for line in result.lines)} promotions since these lines were opened."
    return f'<h1>{escape(", ".join(about["variants"]))}</h1>\n<p class="soft">{escape(text)}</p>'


def _proof(proof: Sequence[Finding]) -> str:
    if not proof:
        return '<h2>Proof</h2>\n<p class="soft">No proof was played: the run had no time limit, or was stopped.</p>'
    style = "good" if all(finding.met for finding in proof) else "bad"
    head = ("claim", "", "score", "bounds", "games", "Elo", "champion", "because")
    return (
        f'<h2>Proof</h2>\n<p class="{style}">{escape(conclusion(proof))}.</p>\n'
        + _table(head, map(_finding, proof))
        + '\n<p class="soft">Each opening is played from every seat and counts as one observation; openings come from '
        "a seed and numbers of their own, and no game here has helped to promote a model.</p>"
    )


def _finding(finding: Finding) -> tuple[str, ...]:
    mark = '<span class="good">holds</span>' if finding.met else '<span class="bad">missed</span>'
    score, bounds, elo = finding_cells(finding)
    if finding.n:
        bounds = f"{bounds} ({finding.confidence:.0%})"
    games = f"{finding.n} in {finding.blocks} blocks" if finding.n else "0"
    model = f"<code>{escape(short(finding.model))}</code>"
    return (escape(finding.claim), mark, score, bounds, games, elo, model, escape(finding.why))


def _variant(line: Line, result: Report) -> str:
    decisions, counts = result.decisions[line.variant], line.counts
    rejected = [decision for decision in decisions if not decision.promoted]
    summary = (
        f"Champion <code>{escape(line.champion or '—')}</code> of generation {line.generation}; {line.iteration} "
        f"promotions, {len(rejected)} rejected; {counts.games} games in {counts.batches} batches, {counts.games_kept} "
        f"kept, {counts.games_lost} lost; the line is {escape(line.stage)}."
    )
    head = ("minute", "generation", "model", "over", "score", "Elo", "blocks", "LLR", "because")
    start = decisions[0].time if decisions else 0.0
    promoted_rows = [_decision(item, line.players, start) for item in decisions if item.promoted]
    rejected_rows = [_decision(item, line.players, start) for item in rejected]
    return (
        f"<h2>{escape(line.variant)}</h2>\n<p>{summary}</p>\n{_strength_chart(decisions, line.players)}\n"
        '<p class="soft">Elo over generation 0 as the sum of what each promotion gained in its own match, with rough '
        "95 % bounds. Tests that stop when the result looks good overstate it; the proof above does not.</p>\n"
        + _table(head, promoted_rows)
        + (f"\n<h3>Rejected</h3>\n{_table(head, rejected_rows)}" if rejected else "")
    )


def _decision(decision: Decision, players: int, start: float) -> tuple[str, ...]:
    models = (f"<code>{escape(decision.model)}</code>", f"<code>{escape(short(decision.previous))}</code>")
    first = (f"{(decision.time - start) / 60:.1f}", str(decision.generation), *models)
    return (*first, *evidence_cells(decision, players), escape(decision.reason))


def _foot(result: Report) -> str:
    about = result.about
    pairs = {"seed": str(about["seed"]), "workload": about["workload"], "parameters": _pairs(about["params"])}
    pairs |= {"gate": about["gate"], "machine": "{machine}, {cores} cores".format(**about)}
    pairs |= {"versions": _pairs(about["versions"]), "store": about["store"]}
    pairs |= {name: timestamp(about[name]) for name in ("begun", "ended")}
    return "<h2>This run</h2>\n" + _table(("", ""), ((name, escape(text)) for name, text in pairs.items()))


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "—"


# -- strength over time, as an SVG drawing -----------------------------------------------------------------------------


class _ChartPoint(Value):
    """The strength of a line after a decision: *minute* since its first, Elo over generation 0 with bounds."""

    minute: float
    elo: interval.Interval
    promoted: bool
    label: str


def _chart_points(decisions: Sequence[Decision], players: int) -> list[_ChartPoint]:
    """One for each decision, oldest first; a rejection leaves strength where it was."""
    points = []
    for number, decision in enumerate(decisions, start=1):
        total = interval.summed(gains(decisions[:number], players), CONFIDENCE)
        outcome = "restored" if decision.kind == "rollback" else "promoted" if decision.promoted else "rejected"
        minute = (decision.time - decisions[0].time) / 60
        label = f"minute {minute:.1f}: generation {decision.generation} {outcome}, {total.value:+.0f} Elo"
        points.append(_ChartPoint(minute=minute, elo=total, promoted=decision.promoted, label=label))
    return points


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from *low* to *high*, about as many as fit."""
    rough = max(high - low, 1e-9) / _TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in _STEPS if size * factor >= rough)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


class _Scale:
    """From minutes and Elo to coordinates in the drawing."""

    def __init__(self, points: Sequence[_ChartPoint]) -> None:
        self.last = max([1.0, *(point.minute for point in points)])
        self.low = min([0.0, *(point.elo.lower for point in points)])
        self.high = max([100.0, *(point.elo.upper for point in points)])

    def x(self, minute: float) -> float:
        return _LEFT + minute / self.last * (_WIDTH - _LEFT - _RIGHT)

    def y(self, elo: float) -> float:
        return _TOP + (self.high - elo) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)


def _strength_chart(decisions: Sequence[Decision], players: int) -> str:
    """The drawing: steps up at promotions with their bounds, a cross for each rejection."""
    points = _chart_points(decisions, players)
    scale = _Scale(points)
    parts = [*_grid(scale), *(_curve(points, scale) if points else ()), *(_mark(point, scale) for point in points)]
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Elo over generation 0 by minute">'
    return "\n".join([svg, *parts, "</svg>"])


def _grid(scale: _Scale) -> list[str]:
    levels = [(elo, scale.y(elo)) for elo in _ticks(scale.low, scale.high)]
    minutes = [(minute, scale.x(minute)) for minute in _ticks(0.0, scale.last)]
    return [
        *(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>' for _, y in levels),
        *(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{elo:+.0f}</text>' for elo, y in levels),
        *(f'<text x="{x:.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{minute:g}</text>' for minute, x in minutes),
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">minutes since generation 0</text>',
    ]


def _curve(points: Sequence[_ChartPoint], scale: _Scale) -> list[str]:
    """The band of the bounds and the steps; both go on to the right edge."""
    ends = [*(point.minute for point in points[1:]), scale.last]
    spans = [(scale.x(point.minute), scale.x(end), point.elo) for point, end in zip(points, ends, strict=True)]

    def walk(bound: str) -> list[str]:
        corners = [(x, scale.y(getattr(elo, bound))) for left, right, elo in spans for x in (left, right)]
        return [f"{x:.1f},{y:.1f}" for x, y in corners]

    band, steps = " ".join(walk("upper") + walk("lower")[::-1]), " ".join(walk("value"))
    return [f'<polygon class="band" points="{band}"/>', f'<polyline class="step" points="{steps}"/>']


def _mark(point: _ChartPoint, scale: _Scale) -> str:
    x, y = scale.x(point.minute), scale.y(point.elo.value)
    if point.promoted:
        return f'<circle class="up" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{point.label}</title></circle>'
    arms = f"M{x - 4:.1f},{y - 4:.1f}L{x + 4:.1f},{y + 4:.1f}M{x - 4:.1f},{y + 4:.1f}L{x + 4:.1f},{y - 4:.1f}"
    return f'<path class="no" d="{arms}"><title>{point.label}</title></path>'
