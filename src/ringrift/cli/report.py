"""Report: the result of a run, for people and for programs."""

import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import msgspec

from ringrift import __version__
from ringrift.cli.commands.promotions import elo_gain
from ringrift.cli.formats import duration, short, signed, table, timestamp
from ringrift.cli.run_plan import cores
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import DECISIONS, LINES, Decision, Line
from ringrift.pipeline.proof import Finding
from ringrift.store.ports import Store


@dataclass(frozen=True)
class _About:
    """Which run it was, and where it ran."""

    begun: float
    ended: float
    workload: str
    seed: int
    variants: tuple[str, ...]
    gate: str
    params: dict[str, str | int | float | bool]
    store: str
    machine: str
    cores: int
    versions: dict[str, str]


class Report(Value):
    """Every line with every decision about its models, and the findings of the proof."""

    about: _About
    lines: tuple[Line, ...]
    decisions: dict[str, tuple[Decision, ...]]
    proof: tuple[Finding, ...] = ()


def about(settings: Settings, requirements: Sequence[str], begun: float, ended: float) -> _About:
    """A run with *settings* on this machine; *requirements* are the modules that its workload needs."""
    policy, work, gate = settings.policy, settings.work, settings.policy.gate
    test = (
        f"sequential test of {gate.elo_0:g} against {gate.elo_1:g} Elo, error rates {gate.alpha:g} and "
        f"{gate.beta:g}, {gate.blocks_min} to {gate.blocks_max} blocks"
    )
    versions = {"ringrift": __version__, "python": platform.python_version()}
    for name in requirements:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    machine = f"{platform.system()} {platform.machine()}"
    start = (begun, ended, work.workload, policy.seed, policy.variants, test, work.params)
    return _About(*start, settings.store.path, machine, cores(), versions)


async def gather(store: Store, about: _About, proof: Sequence[Finding] = ()) -> Report:
    """The report of the store as it is now."""
    async with store.read() as view:
        lines = tuple(await LINES.all(view))
        decisions = {line.variant: tuple(await DECISIONS.all(view, "variant", line.variant)) for line in lines}
    return Report(about=about, lines=lines, decisions=decisions, proof=tuple(proof))


def as_json(report: Report) -> str:
    """The report for programs."""
    return json.dumps(msgspec.to_builtins(report), indent=2, sort_keys=True) + "\n"


def as_text(report: Report) -> str:
    """The report for people: the promotions of each variant with their evidence, then the proof."""
    about = report.about
    head = (
        f"{timestamp(about.begun)}, {duration(about.ended - about.begun)}: workload {about.workload}, "
        f"seed {about.seed}, {about.cores} cores, {about.machine}"
    )
    parts = [head, *(_line_text(line, report.decisions[line.variant]) for line in report.lines)]
    return "\n\n".join([*parts, *([_proof_text(report.proof)] if report.proof else [])])


def conclusion(proof: Sequence[Finding]) -> str:
    """The result of the proof in a sentence."""
    missed = sum(not finding.met for finding in proof)
    return f"NOT PROVEN: {missed} of {len(proof)} claims missed" if missed else f"PROVEN: all {len(proof)} claims hold"


def _proof_text(proof: Sequence[Finding]) -> str:
    head = ("  claim", "", "score", "bounds", "above", "games", "Elo", "at")
    missed = [f"  missed: {finding.claim}: {finding.why}" for finding in proof if not finding.met]
    return "\n".join([conclusion(proof), table(head, [_proof_row(finding) for finding in proof]), *missed])


def _proof_row(finding: Finding) -> tuple[object, ...]:
    claim, limit, confidence = f"  {finding.claim}", f"{finding.limit:.3f}", f"{finding.confidence:.0%}"
    if not finding.n:
        return (claim, "MISSED", "—", "—", limit, 0, "—", confidence)
    bounds = f"{finding.lower:.3f} … {finding.upper:.3f}"
    gain = f"{finding.elo:+.0f} ({finding.elo_lower:+.0f} … {finding.elo_upper:+.0f})"
    met = "holds" if finding.met else "MISSED"
    return (claim, met, f"{finding.score:.3f}", bounds, limit, finding.n, gain, confidence)


def _line_text(line: Line, decisions: Sequence[Decision]) -> str:
    counts = line.counts
    rejected = sum(not decision.promoted and decision.kind != "rollback" for decision in decisions)
    rollbacks = [decision for decision in decisions if decision.kind == "rollback"]
    head = (
        f"{line.variant}: {line.stage}, champion {short(line.champion)} of generation {line.generation}, "
        f"{line.iteration} promotions, {rejected} rejected, {counts.games} games in {counts.batches} batches"
        + (f", {len(rollbacks)} ROLLED BACK" if rollbacks else "")
        + (f", {counts.lost} batches LOST" if counts.lost else "")
    )
    rows = [_decision_row(line, decision) for decision in decisions if decision.promoted or decision in rollbacks]
    return head + "\n" + table(("  generation", "model", "over", "score", "Elo", "blocks", "LLR", "because"), rows)


def _decision_row(line: Line, decision: Decision) -> tuple[str, ...]:
    start = (f"  {decision.generation}", short(decision.model), short(decision.previous))
    evidence = decision.evidence
    if evidence is None:
        return (*start, "—", "—", "—", "—", decision.reason)
    gain, ratio = signed(elo_gain(decision, line.players)), f"{evidence.llr:.2f} of {evidence.upper:.2f}"
    return (*start, f"{evidence.score:.3f}", gain, str(evidence.blocks), ratio, decision.reason)
