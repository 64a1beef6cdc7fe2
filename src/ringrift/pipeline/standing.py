"""Standing: how strong the players of a line are, as counts of every block and what was last computed from them.

Blocks are counted as they come in, apart for each node: when a node is shut out its counts go, and none of the others
changes.  The counts of a line are all that its ratings are computed from; counting the log once more gives the same.
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from ringrift.evaluation.blocks import Block
from ringrift.evaluation.interval import Interval
from ringrift.evaluation.tally import Meeting, Observed, Player, Tally, add, observed
from ringrift.events.evaluation import Rated, Summary
from ringrift.kernel.errors import Unranked
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line, needed
from ringrift.pipeline.matches import MatchRow, blocks_of, era_of, matches_of, next_era
from ringrift.pipeline.proof import generation_0
from ringrift.pipeline.records import decisions_of
from ringrift.pipeline.step import changed
from ringrift.store.ports import Put, Reads, Tx
from ringrift.work import quarantine

KIND, COUNT, BACKLOG = "standing", "count", "backlog"
COUNTS_MAX = 1_000_000
RATE_BLOCKS = 256
"""Blocks after which ratings are computed again though no match was decided."""
REIGNS_MAX = 64
"""Champions whose strength is remembered, for velocity: the newest ones."""
ID_LETTERS, BLOB_LETTERS = 32, 64


class Count(Value):
    """How often each outcome occurred between two players in blocks of one node."""

    node: str
    meeting: Meeting


class Reign(Value):
    """A model that was champion from *since* on, and how strong it is as far as that is known."""

    model: str
    generation: int
    since: float
    elo: Interval | None = None


class Backlog(Value):
    """How much of one line was counted, and for how much of it ratings were asked for."""

    variant: str
    counted: int = 0
    """Blocks that were ever counted."""
    settings: str = ""
    """How the players of the last one searched."""
    asked: int = 0
    """As many of them were counted when ratings were last asked for."""
    due: bool = False
    """Something was decided since then."""


class Standing(Value):
    """What is known of one line's strength."""

    variant: str
    reigns: tuple[Reign, ...] = ()
    """Champions, the last one last."""
    report: str = ""
    """The blob with all ratings."""
    time: float = 0.0
    """When they were computed."""
    summary: Summary = Summary(players=0, blocks=0)


class Asked(Value):
    """What ratings are computed from."""

    variant: str
    tally: Tally
    anchors: tuple[tuple[Player, float], ...]
    """Who has a given Elo: generation 0, however it searched, has 0."""
    settings: str = ""
    """Of the players that a summary tells of."""
    told: tuple[str, ...] = ()
    """Whose strength a summary tells, besides players that never train."""
    kept: tuple[str, ...] = ()
    """Who can still play, and so can be asked to."""


# -- counting ----------------------------------------------------------------------------------------------------------


async def count(tx: Tx, row: MatchRow, fresh: Sequence[Block]) -> None:
    """Count *fresh* blocks of the match *row*, all of one node; those of a node that is shut out are not counted."""
    seen = compared(row, fresh)
    if not seen or await quarantine.of(tx, [fresh[0].node]):
        return
    node = fresh[0].node
    id = _id(row, node)
    body = (await tx.get(COUNT, [id])).get(id)
    known = Tally() if body is None else Tally(meetings=(msgspec.json.decode(body, type=Count).meeting,))
    for meeting in add(known, seen).meetings:
        said = Count(node=node, meeting=meeting)
        index = {"variant": row.variant, "node": node}
        await tx.put([Put(kind=COUNT, id=id, body=msgspec.json.encode(said), index=index)])
    backlog = await backlog_of(tx, row.variant)
    await keep(tx, changed(backlog, counted=backlog.counted + len(seen), settings=row.settings))


async def new_era(tx: Tx, node: str) -> None:
    """Forget the counts of *node*, which was shut out or let in again: what it reported before counts no more."""
    await next_era(tx, node)
    gone = await tx.find(COUNT, "node", [node], COUNTS_MAX)
    await tx.delete(COUNT, [record.id for record in gone])
    variants = {msgspec.json.decode(record.body, type=Count).meeting.variant for record in gone}
    for variant in sorted(variants):
        await mark_due(tx, variant)


async def tally_of(view: Reads, variant: str) -> Tally:
    """All counts of *variant*."""
    found = await view.find(COUNT, "variant", [variant], COUNTS_MAX)
    return summed(msgspec.json.decode(record.body, type=Count).meeting for record in found)


async def recounted(view: Reads, variant: str) -> Tally:
    """The same from the log of matches, block by block."""
    tally = Tally()
    for row in await matches_of(view, variant):
        blocks = await blocks_of(view, row.id)
        nodes = sorted({one.block.node for one in blocks})
        shut_out = await quarantine.of(view, nodes)
        eras = {node: await era_of(view, node) for node in nodes if node not in shut_out}
        believed = [one.block for one in blocks if eras.get(one.block.node) == one.era]
        tally = add(tally, compared(row, believed))
    return tally


def compared(row: MatchRow, blocks: Iterable[Block]) -> list[Observed]:
    """What *blocks* of the match *row* say of its two players; nothing where a block does not tell who beat whom.

    With two players a share of first place does; with more it takes ranks.
    """
    one, other = (Player(weights=who, settings=row.settings) for who in (row.candidate, row.opponent))
    found = []
    for block in blocks:
        try:
            ranks = block.ranks or block.scores
            if block.ranks or len(block.scores) == 2:
                found.append(observed(row.variant, one, other, ranks))
        except Unranked:
            continue  # kept as it was reported, but it does not say who finished before whom
    return found if one != other else []


def summed(meetings: Iterable[Meeting]) -> Tally:
    """The tally of all *meetings*, of which several may be of the same two players."""
    sums: dict[tuple[str, Player, Player], dict[tuple[int, int], int]] = {}
    for meeting in meetings:
        counts = sums.setdefault((meeting.variant, meeting.one, meeting.other), {})
        for comparisons, points, times in meeting.outcomes:
            counts[comparisons, points] = counts.get((comparisons, points), 0) + times
    return Tally(
        meetings=tuple(
            Meeting(
                variant=variant, one=one, other=other,
                outcomes=tuple(sorted((*outcome, times) for outcome, times in sums[variant, one, other].items())),
            )
            for variant, one, other in sorted(sums)
        )
    )  # fmt: skip


def _id(row: MatchRow, node: str) -> str:
    one, other = sorted((row.candidate, row.opponent))
    said = (row.variant, one, other, row.settings, node)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:ID_LETTERS]


# -- what was computed -------------------------------------------------------------------------------------------------


async def load(view: Reads, variant: str) -> Standing:
    """What is known of the strength of *variant*."""
    body = (await view.get(KIND, [variant])).get(variant)
    return Standing(variant=variant) if body is None else msgspec.json.decode(body, type=Standing)


async def save(tx: Tx, standing: Standing) -> None:
    """Write *standing*."""
    await tx.put([Put(kind=KIND, id=standing.variant, body=msgspec.json.encode(standing))])


async def backlog_of(view: Reads, variant: str) -> Backlog:
    """What of *variant* was counted so far."""
    body = (await view.get(BACKLOG, [variant])).get(variant)
    return Backlog(variant=variant) if body is None else msgspec.json.decode(body, type=Backlog)


async def keep(tx: Tx, backlog: Backlog) -> None:
    """Write *backlog*."""
    await tx.put([Put(kind=BACKLOG, id=backlog.variant, body=msgspec.json.encode(backlog))])


async def mark_due(tx: Tx, variant: str) -> None:
    """Let the ratings of *variant* be computed again."""
    await keep(tx, changed(await backlog_of(tx, variant), due=True))


def is_due(backlog: Backlog) -> bool:
    """Whether ratings are to be computed: something was decided, or many blocks came."""
    fresh = backlog.counted - backlog.asked
    return backlog.counted > 0 and (backlog.due or fresh >= RATE_BLOCKS)


async def asked(view: Reads, backlog: Backlog, line: Line) -> Asked:
    """What the ratings of *line* are to be computed from."""
    standing = await load(view, line.variant)
    tally = await tally_of(view, line.variant)
    first = generation_0(await decisions_of(view, line.variant))
    players = {player for meeting in tally.meetings for player in (meeting.one, meeting.other)}
    kept = {blob for blob, kind in needed(line).items() if kind == "model"}
    return Asked(
        variant=line.variant, tally=tally, settings=backlog.settings,
        anchors=tuple((player, 0.0) for player in sorted(players) if player.weights == first),
        told=tuple(sorted(kept | {reign.model for reign in standing.reigns} | ({first} if first else set()))),
        kept=tuple(sorted(kept)),
    )  # fmt: skip


def enthroned(standing: Standing, model: str, generation: int, at: float) -> Standing:
    """*standing* with *model* as champion from *at* on."""
    reigns = (*standing.reigns, Reign(model=model, generation=generation, since=at, elo=strength(standing, model)))
    return changed(standing, reigns=reigns[-REIGNS_MAX:])


def rated(standing: Standing, event: Rated, at: float) -> Standing:
    """*standing* after its ratings were computed."""
    standing = changed(standing, report=event.report, time=at, summary=event.summary)
    reigns = tuple(changed(reign, elo=strength(standing, reign.model) or reign.elo) for reign in standing.reigns)
    return changed(standing, reigns=reigns)


def never_trains(weights: str) -> bool:
    """Whether *weights* is the name of a player that never trains, and not that of a blob."""
    return len(weights) != BLOB_LETTERS


def strength(standing: Standing, model: str) -> Interval | None:
    """How strong *model* is above generation 0, as last computed; None if nobody knows."""
    found = [one for one in standing.summary.strengths if one.weights == model and one.anchored]
    return Interval(value=found[0].elo, lower=found[0].lower, upper=found[0].upper) if found else None
