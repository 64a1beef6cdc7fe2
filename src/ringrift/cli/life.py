"""Life: what is known of models, as ``ringrift models`` lists and shows them."""

from collections import Counter
from pathlib import Path

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.cli.show import ago, clock, short, table
from ringrift.cluster.roster import KIND as NODE
from ringrift.cluster.roster import NodeRecord
from ringrift.evaluation.gate import elo
from ringrift.kernel.value import Value
from ringrift.pipeline.byhand import IMPORT, MODEL, Found, line_of
from ringrift.pipeline.line import Decision, Line, Stage
from ringrift.pipeline.models import State
from ringrift.pipeline.records import decisions_of, evidence_of, lines, models_of
from ringrift.store.ports import Reads
from ringrift.sync import ledger

IMPORTED = "imported"
ORIGINS_MAX = 10_000


class Row(Value):
    """One model in the list."""

    variant: str
    model: str | None
    """None while it is being trained: it has no weights yet."""
    generation: int | None
    state: str
    since: float
    elo: float | None = None
    """Over the champion that it was tested against, as its blocks say."""
    blocks: int = 0


class File(Value):
    """Where a copy of a model lies."""

    node: str
    path: str


class Judged(Value):
    """A decision about a model, in Elo, and who played its blocks."""

    decision: Decision
    elo: float | None = None
    played: dict[str, int] = {}
    """Node → blocks of it that the decision rests on."""


class Shown(Value):
    """All that is known of one model."""

    variant: str
    model: str
    generation: int | None
    state: str
    champion: bool
    steps: tuple[tuple[str, float], ...] = ()
    decisions: tuple[Judged, ...] = ()
    files: tuple[File, ...] = ()


def gained(decision: Decision, players: int) -> float | None:
    """What the evidence of *decision* says in Elo, if there is any."""
    found = decision.evidence
    return None if found is None else elo(found.score, found.scale(players))


async def judged(view: Reads, decision: Decision, players: int) -> Judged:
    """*decision* with who played its blocks."""
    played = Counter(row.block.node for row in await evidence_of(view, decision))
    return Judged(decision=decision, elo=gained(decision, players), played=dict(sorted(played.items())))


async def listed(view: Reads, variant: str | None) -> list[Row]:
    """Every model of *variant*, or of all, by generation.  Raises UnknownName for a variant without a line."""
    wanted = await lines(view) if variant is None else [await line_of(view, variant)]
    return [row for line in wanted for row in await _of_line(view, line)]


async def _of_line(view: Reads, line: Line) -> list[Row]:
    tested = {one.model: one for one in await decisions_of(view, line.variant) if one.kind == "promotion"}
    known = await models_of(view, line.variant)
    rows = []
    for one in known:
        decision = tested.get(one.model)
        rows.append(Row(
            variant=line.variant, model=one.model, generation=one.generation, state=one.state, since=one.since,
            elo=gained(decision, line.players) if decision else None,
            blocks=decision.evidence.blocks if decision and decision.evidence else 0,
        ))  # fmt: skip
    lives = {one.model for one in known}
    made = await view.made(MODEL, ORIGINS_MAX, variant=line.variant)
    came = {one.blob: one for one in made if one.job_kind == IMPORT and one.blob not in lives}
    rows += [
        Row(variant=line.variant, model=one.blob, generation=None, state=IMPORTED, since=one.time)
        for one in came.values()
    ]
    if line.stage in (Stage.STARTING, Stage.TRAINING):
        generation = line.generation + 1
        rows.append(Row(
            variant=line.variant, model=None, generation=generation, state=State.TRAINING, since=line.since
        ))  # fmt: skip
    return rows


async def shown(view: Reads, found: Found) -> Shown:
    """All that is known of the model that was *found*."""
    line = await line_of(view, found.variant)
    about = [one for one in await decisions_of(view, found.variant) if found.model in (one.model, one.previous)]
    known = found.known
    return Shown(
        variant=found.variant, model=found.model, generation=known.generation if known else None,
        state=known.state if known else IMPORTED if found.imported else "trained",
        champion=line.champion == found.model, steps=known.steps if known else (),
        decisions=tuple([await judged(view, one, line.players) for one in about]),
        files=tuple(await _files(view, found.model)),
    )  # fmt: skip


async def _files(view: Reads, model: str) -> list[File]:
    holders = sorted(await ledger.holders(view, model))
    bodies = await view.get(NODE, holders)
    places = {node: msgspec.json.decode(body, type=NodeRecord).address for node, body in bodies.items()}
    return [File(node=node, path=str(Folder(Path(place)).path(model))) for node, place in places.items()]


# -- for people --------------------------------------------------------------------------------------------------------


def list_text(rows: list[Row], now: float) -> str:
    """The models for people."""
    cells = [
        (row.variant, "—" if row.generation is None else row.generation, row.state, f"{ago(now - row.since)} ago",
         short(row.model), signed(row.elo), row.blocks or "—")
        for row in rows
    ]  # fmt: skip
    head = ("variant", "generation", "state", "since", "model", "Elo", "blocks")
    return table(head, cells) if cells else "no models yet"


def signed(gain: float | None) -> str:
    """An Elo difference, or that there is none."""
    return "—" if gain is None else f"{gain:+.0f}"


def show_text(one: Shown) -> str:
    """One model for people."""
    generation = "" if one.generation is None else f", generation {one.generation}"
    out = [f"model {one.model}", f"  {one.variant}{generation}, {one.state}"]
    if one.steps:
        out.append("life  " + ", ".join(f"{state} {clock(since)}" for state, since in one.steps))
    out += [line for each in one.decisions for line in decision_text(each, one.model)]
    out += [f"file  {file.node}: {file.path}" for file in one.files] or ["file  no copy is known"]
    return "\n".join(out)


def decision_text(one: Judged, about: str) -> list[str]:
    """One decision for people, told of the model *about*."""
    decision = one.decision
    what = "promoted" if decision.promoted else "rejected"
    if decision.kind == "rollback":
        what = "brought back" if decision.model == about else "rolled back"
    elif decision.model != about:
        what = f"{'gave way to' if decision.promoted else 'held against'} {short(decision.model)}"
    out = [f"{clock(decision.time)}  {what}: {decision.reason}"]
    before = decision.previous if decision.model == about else None
    if before is not None:
        out.append(f"  champion before: {before}")
    return [*out, *(f"  {text}" for text in evidence_text(one))]


def evidence_text(one: Judged) -> list[str]:
    """What a decision rests on, for people."""
    found, gate = one.decision.evidence, one.decision.gate
    if found is None:
        return []
    out = [
        f"{found.blocks} blocks, score {found.score:.3f} ({signed(one.elo)} Elo), "
        f"LLR {found.llr:.2f} of {found.lower:.2f} … {found.upper:.2f}, alpha {found.alpha:.3g}"
    ]
    if gate is not None:
        out.append(f"gate: {gate.elo_0:g} against {gate.elo_1:g} Elo, {gate.blocks_min} to {gate.blocks_max} blocks")
    if one.played:
        out.append("blocks by node: " + ", ".join(f"{node} {count}" for node, count in one.played.items()))
    return out
