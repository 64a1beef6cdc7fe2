"""HTML report: the report as one file that needs nothing else: no script, no font, no picture from anywhere."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from string import Template

from ringrift.cli.charts import Curve, Mark, TimeAxis, chart
from ringrift.cli.formats import duration, elo_bounds, plural, short, timestamp
from ringrift.cli.report import Report, conclusion, evidence_cells, finding_cells
from ringrift.kernel.errors import printable
from ringrift.pipeline.line import Decision, Line
from ringrift.pipeline.metrics import LineMetrics, MetricPoint
from ringrift.pipeline.proof import DIFFERENCE, Finding
from ringrift.pipeline.ratings import RatedModel

_SETTING_CHARACTERS_MAX = 200
_DECISION_HEAD = ("generation", "model", "over", "score", "gain", "blocks", "LLR", "because")
_SINCE = " since generation 0"
_ELO_NOTE = """Elo over generation 0, fitted to every match of the line, with 95 % bounds. A dot is a promotion, a cross
a candidate that was rejected. The gain in the tables is the one over the predecessor, in the match that decided: tests
that stop when the result looks good overstate it."""


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


def _code(blob: str | None) -> str:
    """The short name of a blob; the whole one appears when it is pointed at."""
    return f'<code title="{escape(blob)}">{escape(short(blob))}</code>' if blob else "—"


def _head(result: Report) -> str:
    about, games = result.about, sum(line.counts.games for line in result.lines)
    run = "{cores} cores ({machine}); workload {workload}, seed {seed}".format(**about)
    text = f"{timestamp(about['begun'])}, {duration(about['ended'] - about['begun'])} on {run}; {games} games and "
    text += f"{plural(sum(line.iteration for line in result.lines), 'promotion')} since these lines were opened"
    together = f", in {len(result.earlier) + 1} runs of {duration(result.seconds)} together"
    text += f"{together}." if result.earlier else "."
    return f'<h1>{escape(", ".join(about["variants"]))}</h1>\n<p class="soft">{escape(text)}</p>'


def _proof(proof: Sequence[Finding]) -> str:
    if not proof:
        why = "the run had no time limit, was stopped or goes on, or its version did not record it"
        return f'<h2>Proof</h2>\n<p class="soft">No proof is recorded: {why}.</p>'
    style = "good" if all(finding.met for finding in proof) else "bad"
    head = ("claim", "", "score", "bounds", "games", "gain", "champion", "because")
    return (
        f'<h2>Proof</h2>\n<p class="{style}">{escape(conclusion(proof))}.</p>\n'
        + _table(head, map(_finding, proof))
        + '\n<p class="soft">Each opening is played from every seat and counts as one observation; openings come from '
        f"a seed and numbers of their own, and no game here has helped to promote a model. {escape(DIFFERENCE)}</p>"
    )


def _finding(finding: Finding) -> tuple[str, ...]:
    mark = '<span class="good">holds</span>' if finding.met else '<span class="bad">missed</span>'
    score, bounds, gain = finding_cells(finding)
    if finding.n:
        bounds = f"{bounds} ({finding.confidence:.0%})"
    games = f"{finding.n} in {finding.blocks} blocks" if finding.n else "0"
    return (escape(finding.claim), mark, score, bounds, games, gain, _code(finding.model), escape(finding.why))


# -- one line ----------------------------------------------------------------------------------------------------------


def _variant(line: Line, result: Report) -> str:
    name, decisions, champions = line.variant, result.decisions[line.variant], result.elo.get(line.variant, ())
    axis = TimeAxis(decisions[0].time if decisions else result.about["begun"], result.about["ended"])
    head = (axis.unit[:-1], *_DECISION_HEAD)
    rows = [(item.promoted, _decision(item, line.players, axis.at(item.time))) for item in decisions]
    promoted, rejected = ([row for is_promoted, row in rows if is_promoted == side] for side in (True, False))
    counts = "{0.games} games in {0.batches} batches, {0.games_kept} kept, {0.games_lost} lost"
    counts = counts.format(line.counts)
    summary = f"Champion {_code(line.champion)} of generation {line.generation}; {plural(line.iteration, 'promotion')}"
    parts = [
        f"<h2>{escape(name)}</h2>\n<p>{summary}, {len(rejected)} rejected; {counts}; the line is {line.stage}.</p>",
        "<h3>Strength</h3>",
        _elo_chart(champions, decisions, axis),
        f'<p class="soft">{_ELO_NOTE}{_unrated(line, champions)}</p>',
        _table(head, promoted),
        f"<h3>Rejected candidates</h3>\n{_table(head, rejected)}" if rejected else "",
        _training(result.trainings.get(name, ()), axis),
        _throughput(result.figures.get(name)),
    ]
    return "\n".join(filter(None, parts))


def _unrated(line: Line, champions: Sequence[RatedModel]) -> str:
    """A note if the champion is so new that no rating has been computed with its match."""
    is_rated = line.champion is None or any(row.model == line.champion for row in champions)
    return "" if is_rated else f" Generation {line.generation} is too new to be rated."


def _decision(decision: Decision, players: int, time: float) -> tuple[str, ...]:
    first = (f"{time:.1f}", str(decision.generation), _code(decision.model), _code(decision.previous))
    evidence = [cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in evidence_cells(decision, players)]
    return (*first, *evidence, escape(decision.reason))


def _elo_chart(models: Sequence[RatedModel], decisions: Sequence[Decision], axis: TimeAxis) -> str:
    """The Elo of champions from their promotion on, with bounds; a cross for each rejection."""
    champions = [(row, axis.at(row.since)) for row in models if row.since is not None]
    points = tuple((time, row.elo.value) for row, time in champions)
    bounds = tuple((row.elo.lower, row.elo.upper) for row, _ in champions)
    marks = []
    for row, time in champions:
        label = f"generation {row.generation}: {elo_bounds(row.elo)} Elo"
        marks.append(Mark(x=time, y=row.elo.value, style="up", label=label))
    for decision in decisions:
        if not decision.promoted:
            time = axis.at(decision.time)
            level = [elo for since, elo in points if since <= time]
            label = f"generation {decision.generation} rejected: {decision.reason}"
            marks.append(Mark(x=time, y=level[-1] if level else 0.0, style="no", label=label))
    curve = Curve(name="Elo", style="elo", points=points, bounds=bounds, steps=True)
    return chart([curve], (f"{axis.unit}{_SINCE}", "Elo over generation 0"), marks, end=axis.end)


def _training(points: Sequence[MetricPoint], axis: TimeAxis) -> str:
    """The curves of losses and of games a second, as far as the workload reports them."""
    label, curves = f"{axis.unit}{_SINCE}", []
    for name, style, field in (("training", "loss", "loss"), ("held out", "other", "held_out_loss")):
        losses = [(axis.at(point.time), loss) for point in points if (loss := getattr(point, field)) is not None]
        curves += [Curve(name=name, style=style, points=tuple(losses))] if len(losses) > 1 else []
    pace = [
        (axis.at(point.time), (point.games - before.games) / (point.time - before.time))
        for before, point in pairwise(points)
        if point.time > before.time
    ]
    parts = ["<h3>Loss</h3>", chart(curves, (label, "loss"), zero=False)] if curves else []
    if len(pace) > 1:
        curve = Curve(name="games/s", style="pace", points=tuple(pace))
        parts += ["<h3>Self-play</h3>", chart([curve], (label, "games per second"))]
    return "\n".join(parts)


def _throughput(figures: LineMetrics | None) -> str:
    """The figures of the last minutes and of the last training; what is unknown is left out."""
    if figures is None:
        return ""
    busy = ", ".join(f"{name} {share:.0%}" for name, share in figures.busy.items() if share >= 0.005)
    texts: list[tuple[str, object, str]] = [("self-play", figures.games_per_second, "{:.1f} games/s")]
    texts.append(("window", figures.window or None, "{} games"))
    if (point := figures.training) is not None:
        held_out = "" if point.held_out_loss is None else f", {point.held_out_loss:.3f} held out"
        texts += [
            ("samples of the last training", point.positions or None, "{} positions"),
            ("each position used", point.reuse, "{:.1f} times"),
            ("training", point.steps_per_second, "{:.1f} steps/s"),
            ("loss of the last training", point.loss, "{:.3f}" + held_out),
        ]
    texts.append(("busy share of the cores", busy or None, "{}"))
    rows = [(name, escape(text.format(value))) for name, value, text in texts if value is not None]
    return f"<h3>Throughput at the end of the run</h3>\n{_table(('', ''), rows)}" if rows else ""


# -- the run -----------------------------------------------------------------------------------------------------------


def _foot(result: Report) -> str:
    about = result.about
    pairs = {"seed": str(about["seed"]), "workload": about["workload"], "parameters": _pairs(about["params"])}
    pairs |= {"gate": about["gate"], "machine": "{machine}, {cores} cores".format(**about)}
    pairs |= {"versions": _pairs(about["versions"]), "store": about["store"]}
    pairs |= {name: timestamp(about[name]) for name in ("begun", "ended")}
    pairs["all runs"] = f"{duration(result.seconds)} in {plural(max(len(result.runs), 1), 'run')}"
    page = "<h2>This run</h2>\n" + _table(("", ""), ((name, escape(text)) for name, text in pairs.items()))
    return page + _settings(result)


def _settings(result: Report) -> str:
    """The settings of this run: those that somebody or something has set, then all of them."""
    if not result.runs or not result.runs[-1].settings:
        return ""
    rows = [
        (escape(key), escape(printable(str(setting.value), _SETTING_CHARACTERS_MAX)), escape(setting.origin))
        for key, setting in sorted(result.runs[-1].settings.items())
    ]
    head, own = ("setting", "value", "from"), [row for row in rows if row[2] != "default"]
    every = f"<details><summary>all {len(rows)} settings</summary>\n{_table(head, rows)}</details>"
    return f"\n<h2>Settings that differ from the defaults</h2>\n{_table(head, own)}\n{every}"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "—"
