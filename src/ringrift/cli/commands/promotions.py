"""List every decision about a model with its evidence; also as if a node had never played."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import short, signed, table, timestamp
from ringrift.evaluation.gate import elo
from ringrift.events.evaluation import Block
from ringrift.kernel.errors import InputError
from ringrift.pipeline import challenge, exclusion
from ringrift.pipeline.line import DECISIONS, Challenge, Decision, Line
from ringrift.pipeline.records import evidence_of
from ringrift.store.ports import Reads

SAME, UNDECIDED = "same", "undecided"


def _arguments(parser: Parser) -> None:
    parser.add_argument("--variant", metavar="NAME", help="only this variant, e.g. hex8_2p")
    parser.add_argument("--without", metavar="node=NAME", help="also the decision without the blocks of this node")


@dataclass(frozen=True)
class DecisionView:
    """A decision about a model, with its gain over the predecessor and the nodes that played its blocks."""

    decision: Decision
    gain: float | None = None
    played: Mapping[str, int] = field(default_factory=dict)  # node → blocks of it that the decision rests on


@dataclass(frozen=True)
class _Recount:
    """The decision of the gate on the same blocks without those of a node."""

    node: str
    outcome: str
    blocks: int  # remaining blocks that the gate looks at
    excluded: int  # blocks that the node played

    def __str__(self) -> str:
        if not self.excluded:
            return "same: it played none of the blocks"
        return f"{self.outcome} with {self.blocks} blocks, {self.excluded} fewer"


@dataclass(frozen=True)
class _Promotion:
    """One decision with its evidence, and whether its model is champion now."""

    view: DecisionView
    champion: bool
    recount: _Recount | None = None

    @property
    def stands(self) -> bool:
        """Whether the champion would be the same: a rejection stands as long as nothing else is decided."""
        decision, recount = self.view.decision, self.recount
        if recount is None or recount.outcome == SAME:
            return True
        return recount.outcome == UNDECIDED and not decision.promoted and decision.kind == "promotion"


def gain_over_predecessor(decision: Decision, players: int) -> float | None:
    """How much stronger the match of *decision* showed the model to be, if there was one: this match alone."""
    evidence = decision.evidence
    return None if evidence is None else elo(evidence.score, evidence.scale(players))


def view_decision(decision: Decision, blocks: Sequence[Block], players: int) -> DecisionView:
    """*decision* with the nodes that played its *blocks*."""
    played = Counter(block.node for block in blocks)
    return DecisionView(decision, gain_over_predecessor(decision, players), dict(sorted(played.items())))


def _parse_node(text: str | None) -> str | None:
    """The node that ``node=NAME`` names.  Raises InputError for anything else."""
    if text is not None and not (text.startswith("node=") and text != "node="):
        raise InputError(f"--without takes node=NAME, not {text!r:.80}")
    return None if text is None else text.removeprefix("node=")


def _recount(decision: Decision, blocks: Sequence[Block], node: str, players: int) -> _Recount | None:
    """*decision* once more without the blocks of *node*; None if it was not taken by a gate."""
    if decision.gate is None or decision.evidence is None:
        return None
    remaining = exclusion.blocks_without(blocks, node)
    excluded = len(blocks) - len(remaining)
    if not excluded:
        return _Recount(node, SAME, len(blocks), 0)
    test = Challenge(opponent=decision.previous or "", gate=decision.gate, seed=decision.seed)
    result = challenge.judge_blocks(remaining, test, players)
    no, yes = ("be rolled back", "stay") if decision.kind == "rollback" else ("be rejected", "be promoted")
    opposite = f"would {no if decision.promoted else yes}"
    outcome = UNDECIDED if result.decided is None else SAME if result.decided is decision.promoted else opposite
    return _Recount(node, outcome, result.blocks, excluded)


async def _promotions_of(view: Reads, line: Line, node: str | None) -> list[_Promotion]:
    """Every decision about a model of *line*, oldest first."""
    decisions = await DECISIONS.all(view, "variant", line.variant)
    last_promotion = {decision.model: decision.id for decision in decisions if decision.promoted}
    promotions = []
    for decision in decisions:
        blocks = await evidence_of(view, decision)
        champion = decision.model == line.champion and last_promotion.get(decision.model) == decision.id
        again = None if node is None else _recount(decision, blocks, node, line.players)
        promotions.append(_Promotion(view_decision(decision, blocks, line.players), champion, again))
    return promotions


def _as_text(promotions: Sequence[_Promotion], node: str | None) -> str:
    if not promotions:
        return "no decisions yet"
    lines = []
    for promotion in promotions:
        decision, champion = promotion.view.decision, "  (champion)" if promotion.champion else ""
        lines.append(f"{timestamp(decision.time)}  {decision.variant}  {_outcome(decision)}{champion}")
        lines += [f"  {decision.reason}", *(f"  {text}" for text in evidence_text(promotion.view))]
        if promotion.recount is not None:
            lines.append(f"  without {node}: {promotion.recount}")
    if node is not None:
        lines += ["", _summary(promotions, node)]
    return "\n".join(lines)


def _outcome(decision: Decision) -> str:
    if decision.kind == "rollback":
        return f"rolled back {short(decision.previous)} to {short(decision.model)}"
    outcome, champion = "promoted" if decision.promoted else "rejected", short(decision.previous)
    return f"{outcome} {short(decision.model)} of generation {decision.generation}, champion {champion}"


def evidence_text(view: DecisionView) -> list[str]:
    """The evidence of a decision for people."""
    evidence, gate = view.decision.evidence, view.decision.gate
    if evidence is None:
        return []
    ratio = f"LLR {evidence.llr:.2f} of {evidence.lower:.2f} … {evidence.upper:.2f}, alpha {evidence.alpha:.3g}"
    lines = [
        f"{evidence.blocks} blocks, score {evidence.score:.3f} (gain over the predecessor {signed(view.gain)}), {ratio}"
    ]
    if gate is not None:
        lines.append(f"gate: {gate.elo_0:g} against {gate.elo_1:g} Elo, {gate.blocks_min} to {gate.blocks_max} blocks")
    if view.played:
        lines.append("blocks by node: " + ", ".join(f"{node} {count}" for node, count in view.played.items()))
    return lines


def _summary(promotions: Sequence[_Promotion], node: str) -> str:
    """The decisions that would differ, and the champions that rest on them."""
    touched = [(item, item.recount) for item in promotions if item.recount is not None and item.recount.excluded]
    others = [(item, again) for item, again in touched if not item.stands]
    champions = [(item.view, item.view.decision, again) for item, again in others if item.champion]
    rows = [(new.variant, short(new.model), signed(view.gain), again) for view, new, again in champions]
    lines = [f"without {node}: {len(touched)} decisions rest on its blocks, {len(others)} would not stand"]
    if rows:
        lines += ["current champions that rest on them:", table(("variant", "model", "gain", "without"), rows)]
    elif others:
        lines.append("no current champion rests on them")
    return "\n".join(lines)


async def _question(context: Context) -> Output:
    node = _parse_node(context.options.without)
    async with context.store.read() as view:
        lines = await context.lines(view)
        promotions = [promotion for line in lines for promotion in await _promotions_of(view, line, node)]
    return Output(value=promotions, text=_as_text(promotions, node))


COMMAND = Command(arguments=_arguments, question=_question)
