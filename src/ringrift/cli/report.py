"""Report: the result of a run, for people and for programs."""

import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from ringrift import __version__
from ringrift.cli.commands.promotions import gain_over_predecessor
from ringrift.cli.formats import duration, elo_bounds, plural, short, signed, table, timestamp
from ringrift.cli.run_plan import cores
from ringrift.cli.runs import RUNS, RunRecord
from ringrift.evaluation.interval import Interval
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import DECISIONS, LINES, Decision, Line
from ringrift.pipeline.metrics import LineMetrics, MetricPoint, line_metrics, metric_history
from ringrift.pipeline.proof import DIFFERENCE, Finding
from ringrift.pipeline.ratings import RatedModel, elo_of
from ringrift.store.ports import Store


class Report(Value):
    """Which run it was and where it ran, every line with its decisions, curves and figures, and the proof."""

    about: dict[str, Any]
    lines: tuple[Line, ...]
    decisions: dict[str, tuple[Decision, ...]]
    proof: tuple[Finding, ...] = ()
    elo: dict[str, tuple[RatedModel, ...]] = {}
    trainings: dict[str, tuple[MetricPoint, ...]] = {}
    figures: dict[str, LineMetrics] = {}
    runs: tuple[RunRecord, ...] = ()  # every run of this home, oldest first

    @property
    def earlier(self) -> list[RunRecord]:
        """The runs before this one."""
        return [run for run in self.runs if run.began < self.about["begun"]]

    @property
    def seconds(self) -> float:
        """How long all runs took together, this one included; one that was killed left no time."""
        return sum((run.seconds for run in self.earlier), float(self.about["ended"] - self.about["begun"]))


def about(settings: Settings, requirements: Sequence[str], begun: float, ended: float) -> dict[str, Any]:
    """A run with *settings* on this machine; *requirements* are the modules that its workload needs."""
    policy, work, gate = settings.policy, settings.work, settings.policy.gate
    rates = f"error rates {gate.alpha:g} and {gate.beta:g}, {gate.blocks_min} to {gate.blocks_max} blocks"
    test = f"sequential test of {gate.elo_0:g} against {gate.elo_1:g} Elo, {rates}"
    versions = {"ringrift": __version__, "python": platform.python_version()}
    for name in requirements:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    run = {"begun": begun, "ended": ended, "workload": work.workload, "seed": policy.seed, "variants": policy.variants}
    run |= {"gate": test, "params": work.params, "store": settings.store.path}
    return run | {"machine": f"{platform.system()} {platform.machine()}", "cores": cores(), "versions": versions}


async def gather(store: Store, about: dict[str, Any], proof: Sequence[Finding] = ()) -> Report:
    """The report of the store as it is now."""
    async with store.read() as view:
        lines = tuple(await LINES.all(view))
        names = [line.variant for line in lines]
        return Report(
            about=about,
            lines=lines,
            decisions={name: tuple(await DECISIONS.all(view, "variant", name)) for name in names},
            proof=tuple(proof),
            elo={name: tuple(await elo_of(view, name)) for name in names},
            trainings={name: tuple(await metric_history(view, name)) for name in names},
            figures={name: await line_metrics(view, name, about["ended"]) for name in names},
            runs=tuple(await RUNS.all(view)),
        )


def as_json(report: Report) -> str:
    """The report for programs."""
    return json.dumps(msgspec.to_builtins(report), indent=2, sort_keys=True) + "\n"


def as_text(report: Report) -> str:
    """The report for people: the promotions of each variant with their evidence, then the proof."""
    begun, ended = report.about["begun"], report.about["ended"]
    run = "workload {workload}, seed {seed}, {cores} cores, {machine}".format(**report.about)
    head = f"{timestamp(begun)}, {duration(ended - begun)}: {run}"
    if report.earlier:
        head += f"; {duration(report.seconds)} in all {len(report.earlier) + 1} runs"
    parts = [head, *(_line_text(line, report.decisions[line.variant]) for line in report.lines)]
    return "\n\n".join([*parts, *([_proof_text(report.proof)] if report.proof else [])])


def conclusion(proof: Sequence[Finding]) -> str:
    """The result of the proof in a sentence."""
    missed = sum(not finding.met for finding in proof)
    return f"NOT PROVEN: {missed} of {len(proof)} claims missed" if missed else f"PROVEN: all {len(proof)} claims hold"


def finding_cells(finding: Finding) -> tuple[str, str, str]:
    """The score of a claim, its bounds, and the gain over the opponent; dashes before a game was played."""
    if not finding.n:
        return ("—", "—", "—")
    gain = Interval(value=finding.gain, lower=finding.gain_lower, upper=finding.gain_upper)
    return (f"{finding.score:.3f}", f"{finding.lower:.3f} … {finding.upper:.3f}", elo_bounds(gain))


def evidence_cells(decision: Decision, players: int) -> tuple[str, ...]:
    """The evidence of a decision: score, gain over the predecessor, blocks and likelihood ratio, or dashes."""
    evidence = decision.evidence
    if evidence is None:
        return ("—", "—", "—", "—")
    ratio = f"{evidence.llr:.2f} of {evidence.lower:.2f} … {evidence.upper:.2f}"
    return (f"{evidence.score:.3f}", signed(gain_over_predecessor(decision, players)), str(evidence.blocks), ratio)


def _proof_text(proof: Sequence[Finding]) -> str:
    rows = []
    for finding in proof:
        score, bounds, gain = finding_cells(finding)
        start = (f"  {finding.claim}", "holds" if finding.met else "MISSED", score, bounds, f"{finding.limit:.3f}")
        rows.append((*start, finding.n, gain, f"{finding.confidence:.0%}"))
    missed = [f"  missed: {finding.claim}: {finding.why}" for finding in proof if not finding.met]
    head = ("  claim", "", "score", "bounds", "above", "games", "gain", "at")
    return "\n".join([conclusion(proof), table(head, rows), *missed, f"  {DIFFERENCE}"])


def _line_text(line: Line, decisions: Sequence[Decision]) -> str:
    counts, rows = line.counts, []
    rejected = sum(not decision.promoted and decision.kind != "rollback" for decision in decisions)
    rollbacks = [decision for decision in decisions if decision.kind == "rollback"]
    title = f"{line.variant}: {line.stage}, champion {short(line.champion)} of generation {line.generation}, "
    title += f"{plural(line.iteration, 'promotion')}, {rejected} rejected, "
    title += f"{counts.games} games in {counts.batches} batches"
    title += f", {len(rollbacks)} ROLLED BACK" if rollbacks else ""
    title += f", {counts.lost} batches LOST" if counts.lost else ""
    for decision in decisions:
        if decision.promoted or decision in rollbacks:
            start = (f"  {decision.generation}", short(decision.model), short(decision.previous))
            rows.append((*start, *evidence_cells(decision, line.players), decision.reason))
    head = ("  generation", "model", "over", "score", "gain", "blocks", "LLR", "because")
    return f"{title}\n{table(head, rows)}"
