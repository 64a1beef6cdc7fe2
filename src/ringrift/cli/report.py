"""Report: what a run has come to, for people and for programs."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from ringrift.cli.show import short, table
from ringrift.evaluation.gate import elo
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Decision, Line
from ringrift.pipeline.records import decisions_of, lines
from ringrift.store.ports import Store


class Report(Value):
    """Every line with every decision about its models."""

    lines: tuple[Line, ...]
    decisions: dict[str, tuple[Decision, ...]]


async def gather(store: Store) -> Report:
    """What the store says now."""
    async with store.read() as view:
        found = await lines(view)
        return Report(
            lines=tuple(found),
            decisions={line.variant: tuple(await decisions_of(view, line.variant)) for line in found},
        )


def as_json(report: Report) -> str:
    """The report for programs."""
    tree: dict[str, Any] = msgspec.to_builtins(report)
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"


def as_text(report: Report) -> str:
    """The report for people: for each variant its promotions, each with its evidence."""
    return "\n\n".join(_about(line, report.decisions[line.variant]) for line in report.lines)


def _about(line: Line, decisions: Sequence[Decision]) -> str:
    counts = line.counts
    rejected = sum(not decision.promoted for decision in decisions)
    head = (
        f"{line.variant}: {line.stage}, champion {short(line.champion)} of generation {line.generation}, "
        f"{line.iteration} promotions, {rejected} rejected, {counts.games} games in {counts.batches} batches"
        + (f", {counts.lost} batches LOST" if counts.lost else "")
    )
    rows = [_row(line, decision) for decision in decisions if decision.promoted]
    return head + "\n" + table(("  generation", "model", "over", "score", "Elo", "blocks", "LLR", "because"), rows)


def _row(line: Line, decision: Decision) -> tuple[str, ...]:
    first = (f"  {decision.generation}", short(decision.model), short(decision.previous))
    found = decision.evidence
    if found is None:
        return (*first, "—", "—", "—", "—", decision.reason)
    return (
        *first, f"{found.score:.3f}", f"{elo(found.score, line.players):+.0f}", str(found.blocks),
        f"{found.llr:.2f} of {found.upper:.2f}", decision.reason,
    )  # fmt: skip
