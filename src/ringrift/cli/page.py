"""Page: the report as one HTML file that needs nothing else: no script, no font, no picture from anywhere."""

from collections.abc import Iterable, Sequence
from html import escape

from ringrift.cli import plot, report
from ringrift.cli.report import Report
from ringrift.cli.show import ago, clock, short
from ringrift.evaluation.gate import elo
from ringrift.pipeline.line import Decision, Line
from ringrift.pipeline.proof import Finding

STYLE = """
:root { --ink: #1c2733; --soft: #5c6b7a; --line: #d9e0e7; --paper: #fff; --one: #1f6feb;
  --good: #1a7f37; --bad: #b42318 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #93a1af; --line: #30363d; --paper: #0d1117; --one: #58a6ff;
    --good: #3fb950; --bad: #f85149 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p.soft, .soft { color: var(--soft) } .scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: .6rem 0 }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-weight: 600; color: var(--soft) } code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere }
.good { color: var(--good); font-weight: 600 } .bad { color: var(--bad); font-weight: 600 }
svg { width: 100%; height: auto; display: block } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.grid { stroke: var(--line); stroke-width: 1 } .step { fill: none; stroke: var(--one); stroke-width: 2 }
.band { fill: var(--one); opacity: .14 } .up { fill: var(--one) } .no { stroke: var(--bad); stroke-width: 1.5 }
"""


def as_page(found: Report) -> str:
    """The whole page."""
    parts = [_head(found), _proof(found.proof), *(_variant(line, found) for line in found.lines), _foot(found)]
    title = f"RingRift: {', '.join(found.about.variants)}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def rows(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table; its cells are HTML already."""
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    lines = "\n".join("<tr>" + "".join(f"<td>{one}</td>" for one in row) + "</tr>" for row in body)
    return f'<div class="scroll"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>'


def _head(found: Report) -> str:
    told, games = found.about, sum(line.counts.games for line in found.lines)
    promoted = sum(line.iteration for line in found.lines)
    return (
        f"<h1>{escape(', '.join(told.variants))}</h1>\n"
        f'<p class="soft">{escape(clock(told.begun))}, {escape(ago(told.ended - told.begun))} on {told.cores} cores '
        f"({escape(told.machine)}); workload {escape(told.workload)}, seed {told.seed}; {games} games and {promoted} "
        "promotions since these lines were opened.</p>"
    )


def _proof(proof: Sequence[Finding]) -> str:
    if not proof:
        return '<h2>Proof</h2>\n<p class="soft">None was played: the run had no time limit, or was stopped.</p>'
    told = report.verdict(proof)
    good = all(one.met for one in proof)
    return (
        f'<h2>Proof</h2>\n<p class="{"good" if good else "bad"}">{escape(told)}.</p>\n'
        + rows(("claim", "", "score", "bounds", "games", "Elo", "champion", "because"), map(_finding, proof))
        + '\n<p class="soft">Each opening is played from every seat and counts as one observation; openings come from '
        "a seed and numbers of their own, and no game here has helped to promote anybody.</p>"
    )


def _finding(one: Finding) -> tuple[str, ...]:
    mark = '<span class="good">holds</span>' if one.met else '<span class="bad">missed</span>'
    played = (
        f"{one.score:.3f}",
        f"{one.lower:.3f} … {one.upper:.3f} ({one.confidence:.0%})",
        f"{one.n} in {one.blocks} blocks",
        f"{one.elo:+.0f} ({one.elo_lower:+.0f} … {one.elo_upper:+.0f})",
    )
    return (
        escape(one.claim), mark, *(played if one.n else ("—", "—", "0", "—")),
        f"<code>{escape(short(one.model))}</code>", escape(one.why),
    )  # fmt: skip


def _variant(line: Line, found: Report) -> str:
    decisions, counts = found.decisions[line.variant], line.counts
    rejected = [one for one in decisions if not one.promoted]
    told = (
        f"Champion <code>{escape(line.champion or '—')}</code> of generation {line.generation}; {line.iteration} "
        f"promotions, {len(rejected)} rejected; {counts.games} games in {counts.batches} batches, {counts.games_kept} "
        f"kept, {counts.games_lost} lost; the line is {escape(line.stage)}."
    )
    head = ("minute", "generation", "model", "over", "score", "Elo", "blocks", "LLR", "because")
    first = decisions[0].time if decisions else 0.0
    return (
        f"<h2>{escape(line.variant)}</h2>\n<p>{told}</p>\n{plot.strength(decisions, line.players)}\n"
        '<p class="soft">Elo over generation 0 as the sum of what each promotion gained in its own match, with rough '
        "95 % bounds. Tests that stop when the result looks good overstate it; the proof above does not.</p>\n"
        + rows(head, (_decision(one, line.players, first) for one in decisions if one.promoted))
        + (
            f"\n<h3>Rejected</h3>\n{rows(head, (_decision(one, line.players, first) for one in rejected))}"
            if rejected
            else ""
        )
    )


def _decision(one: Decision, players: int, first: float) -> tuple[str, ...]:
    start = (
        f"{(one.time - first) / 60:.1f}", str(one.generation), f"<code>{escape(one.model)}</code>",
        f"<code>{escape(short(one.previous))}</code>",
    )  # fmt: skip
    found = one.evidence
    if found is None:
        return (*start, "—", "—", "—", "—", escape(one.reason))
    return (
        *start, f"{found.score:.3f}", f"{elo(found.score, found.scale(players)):+.0f}", str(found.blocks),
        f"{found.llr:.2f} of {found.lower:.2f} … {found.upper:.2f}", escape(one.reason),
    )  # fmt: skip


def _foot(found: Report) -> str:
    told = found.about
    pairs = [
        ("seed", str(told.seed)), ("workload", told.workload), ("parameters", _pairs(told.params)), ("gate", told.gate),
        ("machine", f"{told.machine}, {told.cores} cores"), ("versions", _pairs(told.versions)), ("store", told.store),
        ("begun", clock(told.begun)), ("ended", clock(told.ended)),
    ]  # fmt: skip
    return "<h2>This run</h2>\n" + rows(("", ""), ((escape(name), escape(text)) for name, text in pairs))


def _pairs(found: dict[str, str] | dict[str, str | int | float | bool]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items()) or "—"
