"""``ringrift promotions``: every decision about a model with its evidence, also as if a node had never played."""

import argparse
import json
from collections import Counter
from collections.abc import Mapping

import msgspec

from ringrift.cli.life import Judged, evidence_text, gained, signed
from ringrift.cli.show import clock, short, table
from ringrift.cli.store import answer
from ringrift.evaluation.blocks import Block
from ringrift.kernel.errors import InputError
from ringrift.kernel.value import Value
from ringrift.pipeline import challenge, distrust
from ringrift.pipeline.byhand import line_of
from ringrift.pipeline.line import Challenge, Decision, Line
from ringrift.pipeline.records import decisions_of, evidence_of, lines
from ringrift.store.ports import Reads, Store

SAME, REJECTED, PROMOTED, UNDECIDED = "same", "would be rejected", "would be promoted", "undecided"
STAYS, GOES = "would stay", "would be rolled back"


class Without(Value):
    """What the gate would have said of the same blocks without those of a node."""

    node: str
    says: str
    blocks: int
    """That are left, as far as the gate looks."""
    gone: int
    """That the node played."""


class Told(Value):
    """One decision, what it rests on, and whether its model plays now."""

    judged: Judged
    champion: bool
    without: Without | None = None


def node_of(text: str | None) -> str | None:
    """The node that ``node=NAME`` names.  Raises InputError for anything else."""
    if text is None:
        return None
    field, equals, node = text.partition("=")
    if field != "node" or not equals or not node:
        raise InputError(f"--without takes node=NAME, not {text!r:.80}")
    return node


def without(decision: Decision, blocks: list[Block], node: str, players: int) -> Without | None:
    """*decision* taken once more without the blocks of *node*; None if it was not taken by a gate."""
    if decision.gate is None or decision.evidence is None:
        return None
    kept = distrust.without(blocks, node)
    gone = len(blocks) - len(kept)
    if not gone:
        return Without(node=node, says=SAME, blocks=len(blocks), gone=0)
    test = Challenge(opponent=decision.previous or "", gate=decision.gate, seed=decision.seed)
    outcome = challenge.judged(kept, test, players)
    yes, no = (STAYS, GOES) if decision.kind == "rollback" else (PROMOTED, REJECTED)
    says = UNDECIDED if outcome.decided is None else yes if outcome.decided else no
    if outcome.decided is decision.promoted:
        says = SAME
    return Without(node=node, says=says, blocks=outcome.blocks, gone=gone)


async def told(view: Reads, line: Line, node: str | None) -> list[Told]:
    """Every decision about a model of *line*, oldest first."""
    found = []
    decisions = await decisions_of(view, line.variant)
    made = {one.model: one.id for one in decisions if one.promoted}
    for decision in decisions:
        blocks = [row.block for row in await evidence_of(view, decision)]
        played = dict(sorted(Counter(block.node for block in blocks).items()))
        found.append(Told(
            judged=Judged(decision=decision, elo=gained(decision, line.players), played=played),
            champion=decision.model == line.champion and made.get(decision.model) == decision.id,
            without=None if node is None else without(decision, blocks, node, line.players),
        ))  # fmt: skip
    return found


def as_text(found: list[Told], node: str | None) -> str:
    """The decisions for people."""
    if not found:
        return "nothing was decided yet"
    out = []
    for one in found:
        decision = one.judged.decision
        out.append(f"{clock(decision.time)}  {decision.variant}  {_what(decision)}{'  (champion)' * one.champion}")
        out += [f"  {decision.reason}", *(f"  {text}" for text in evidence_text(one.judged))]
        if one.without is not None:
            out.append(f"  without {node}: {_says(one.without)}")
    if node is not None:
        out += ["", _summary(found, node)]
    return "\n".join(out)


def _what(decision: Decision) -> str:
    if decision.kind == "rollback":
        return f"rolled back {short(decision.previous)} to {short(decision.model)}"
    what = "promoted" if decision.promoted else "rejected"
    return f"{what} {short(decision.model)} of generation {decision.generation}, champion {short(decision.previous)}"


def _says(one: Without) -> str:
    if not one.gone:
        return "same: it played none of the blocks"
    return f"{one.says} with {one.blocks} blocks, {one.gone} fewer"


def stands(one: Told) -> bool:
    """Whether the champion would be the same: who was rejected stays so as long as nothing is decided."""
    decision, again = one.judged.decision, one.without
    waits = again is not None and again.says == UNDECIDED and not decision.promoted and decision.kind == "promotion"
    return again is None or again.says == SAME or waits


def _summary(found: list[Told], node: str) -> str:
    """Which decisions would be others, and which champions owe their place to them."""
    touched = [one for one in found if one.without is not None and one.without.gone]
    others = [one for one in touched if not stands(one)]
    rows = [
        (one.judged.decision.variant, short(one.judged.decision.model), signed(one.judged.elo), _says(one.without))
        for one in others
        if one.champion and one.without is not None
    ]
    out = [f"without {node}: {len(touched)} decisions rest on its blocks, {len(others)} would not stand"]
    if rows:
        out += ["champions of now that owe their place to them:", table(("variant", "model", "Elo", "without"), rows)]
    elif others:
        out.append("no champion of now owes its place to them")
    return "\n".join(out)


async def do(store: Store, options: argparse.Namespace, here: str) -> str:
    """What the store says."""
    node = node_of(options.without)
    async with store.read() as view:
        wanted = await lines(view) if options.variant is None else [await line_of(view, options.variant)]
        found = [one for line in wanted for one in await told(view, line, node)]
    return json.dumps(msgspec.to_builtins(found), indent=2) if options.json else as_text(found, node)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print it; 0.  Raises UnknownName for a variant without a line."""
    return answer(options, given, do)
