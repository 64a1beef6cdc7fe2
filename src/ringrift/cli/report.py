"""Report: what a run has come to, for people and for programs."""

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from ringrift import __version__
from ringrift.cli.preset import NEEDS, cores
from ringrift.cli.show import ago, clock, short, table
from ringrift.evaluation.gate import elo
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Decision, Line
from ringrift.pipeline.proof import Finding
from ringrift.pipeline.records import decisions_of, lines
from ringrift.store.ports import Store


class About(Value):
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
    """Every line with every decision about its models, and what was shown at the end."""

    about: About
    lines: tuple[Line, ...]
    decisions: dict[str, tuple[Decision, ...]]
    proof: tuple[Finding, ...] = ()


def about(settings: Settings, begun: float, ended: float) -> About:
    """What is to be known of a run with *settings* on this machine."""
    gate = settings.policy.gate
    return About(
        begun=begun, ended=ended, workload=settings.work.workload, seed=settings.policy.seed,
        variants=settings.policy.variants, params=settings.work.params, store=settings.store.path,
        gate=f"sequential test of {gate.elo_0:g} against {gate.elo_1:g} Elo, error rates {gate.alpha:g} and "
        f"{gate.beta:g}, {gate.blocks_min} to {gate.blocks_max} blocks",
        machine=f"{platform.system()} {platform.machine()}", cores=cores(), versions=_versions(),
    )  # fmt: skip


def _versions() -> dict[str, str]:
    found = {"ringrift": __version__, "python": platform.python_version()}
    for name in NEEDS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


async def gather(store: Store, about: About, proof: Sequence[Finding] = ()) -> Report:
    """What the store says now, and what was shown."""
    async with store.read() as view:
        found = await lines(view)
        return Report(
            about=about,
            lines=tuple(found),
            decisions={line.variant: tuple(await decisions_of(view, line.variant)) for line in found},
            proof=tuple(proof),
        )


def as_json(report: Report) -> str:
    """The report for programs."""
    tree: dict[str, Any] = msgspec.to_builtins(report)
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"


def as_text(report: Report) -> str:
    """The report for people: for each variant its promotions with their evidence, then what was shown."""
    told = report.about
    head = (
        f"{clock(told.begun)}, {ago(told.ended - told.begun)}: workload {told.workload}, seed {told.seed}, "
        f"{told.cores} cores, {told.machine}"
    )
    parts = [head, *(_about(line, report.decisions[line.variant]) for line in report.lines)]
    return "\n\n".join([*parts, *([_shown(report.proof)] if report.proof else [])])


def verdict(proof: Sequence[Finding]) -> str:
    """What the proof comes to, in a sentence."""
    missed = [one for one in proof if not one.met]
    if not missed:
        return f"SHOWN: all {len(proof)} claims hold"
    return f"NOT SHOWN: {len(missed)} of {len(proof)} claims missed"


def _shown(proof: Sequence[Finding]) -> str:
    head = ("  claim", "", "score", "bounds", "above", "games", "Elo", "at")
    rows = [
        (
            f"  {one.claim}", "holds" if one.met else "MISSED", f"{one.score:.3f}",
            f"{one.lower:.3f} … {one.upper:.3f}", f"{one.limit:.3f}", one.n,
            f"{one.elo:+.0f} ({one.elo_lower:+.0f} … {one.elo_upper:+.0f})", f"{one.confidence:.0%}",
        )
        if one.n
        else (f"  {one.claim}", "MISSED", "—", "—", f"{one.limit:.3f}", 0, "—", f"{one.confidence:.0%}")
        for one in proof
    ]  # fmt: skip
    missed = [f"  missed: {one.claim}: {one.why}" for one in proof if not one.met]
    return "\n".join([verdict(proof), table(head, rows), *missed])


def _about(line: Line, decisions: Sequence[Decision]) -> str:
    counts = line.counts
    rejected = sum(not one.promoted and one.kind != "rollback" for one in decisions)
    back = sum(one.kind == "rollback" for one in decisions)
    head = (
        f"{line.variant}: {line.stage}, champion {short(line.champion)} of generation {line.generation}, "
        f"{line.iteration} promotions, {rejected} rejected, {counts.games} games in {counts.batches} batches"
        + (f", {back} ROLLED BACK" if back else "")
        + (f", {counts.lost} batches LOST" if counts.lost else "")
    )
    rows = [_row(line, decision) for decision in decisions if decision.promoted or decision.kind == "rollback"]
    return head + "\n" + table(("  generation", "model", "over", "score", "Elo", "blocks", "LLR", "because"), rows)


def _row(line: Line, decision: Decision) -> tuple[str, ...]:
    first = (f"  {decision.generation}", short(decision.model), short(decision.previous))
    found = decision.evidence
    if found is None:
        return (*first, "—", "—", "—", "—", decision.reason)
    return (
        *first, f"{found.score:.3f}", f"{elo(found.score, found.scale(line.players)):+.0f}", str(found.blocks),
        f"{found.llr:.2f} of {found.upper:.2f}", decision.reason,
    )  # fmt: skip
