"""Ratings: the log of every block played for evidence, counts of them, and the strengths last computed from those.

A match is two players with their search settings on the openings of one seed.  Its blocks are kept for ever and never
edited.  A block that two nodes have played is two records: when a node is quarantined its blocks stay, and those that
were played again in their place stand beside.

Blocks are counted as they come in, apart for each node: when a node is quarantined its counts go, and none of the
others changes.  The counts of a line are all that its ratings are computed from; counting the log again gives the same.
They are those of the players of today: a player that is no longer needed leaves the counts, and its blocks stay.
"""

import hashlib
from collections.abc import Iterable, Sequence

from ringrift.evaluation import blocks as results
from ringrift.evaluation.interval import Interval
from ringrift.evaluation.tally import BlockScore, Meeting, Player, Tally, add, score_block, sum_meetings
from ringrift.events.evaluation import Block, BlocksPlayed, Rated, Summary
from ringrift.kernel.errors import Unranked
from ringrift.kernel.value import Value, changed
from ringrift.kernel.variant import parse
from ringrift.pipeline.line import Line, needed_models
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records
from ringrift.work.limits import QUARANTINES


class _MatchRow(Value):
    """The two players of a match, and when it was first reported."""

    id: str
    variant: str
    candidate: str
    opponent: str  #: A model, or the name of a baseline.
    settings: str
    seed: int
    time: float


MATCHES = Records("match", _MatchRow, id="id", checked=True)
BLOCKS = Records("block", Block, id="id", checked=True)  #: Read by id alone: no index, it would be most of the store.
_ERAS = Records("era", int)  #: By node, how often it was quarantined or released: only its last era counts.


async def record_blocks(tx: Tx, event: BlocksPlayed, at: float) -> tuple[_MatchRow, tuple[Block, ...]]:
    """Store the blocks of *event* and return those that are new.  A stored block is never overwritten."""
    shared = {name: getattr(event, name) for name in ("variant", "candidate", "settings", "seed")}
    match = _MatchRow(id=results.match_id(event), opponent=event.champion, time=at, **shared)
    players, era = parse(event.variant).players, await _ERAS.get(tx, event.node) or 0
    valid = {block.id: block for block in results.from_event(event) if results.is_valid(block, players)}
    stored = await BLOCKS.get_many(tx, list(valid))
    fresh = [changed(block, time=at, era=era) for id, block in valid.items() if id not in stored]
    if fresh and await MATCHES.get(tx, match.id) is None:
        await MATCHES.put(tx, [match])
    await BLOCKS.put(tx, fresh)
    return match, tuple(fresh)


_RATE_BLOCKS = 256  #: Blocks after which ratings are computed again though no match was decided.
_PERIODS_MAX = 64  #: Champions whose strength is remembered, for velocity: the newest ones.
_PLAYERS_MAX = 128  #: Players above which counts of those that are no longer needed go; ratings cost the cube of them.
_ID_LETTERS, _BLOB_LETTERS = 32, 64


class _Count(Value):
    """How often each outcome occurred between two players in blocks of one node."""

    node: str
    meeting: Meeting

    @property
    def variant(self) -> str:
        return self.meeting.variant


class ChampionPeriod(Value):
    """A model that was champion from *since* on, and its strength as far as that is known."""

    model: str
    generation: int
    since: float
    elo: Interval | None = None


class Backlog(Value):
    """How many blocks of one line were counted, and how many of them ratings were computed from."""

    variant: str
    counted: int = 0  #: Blocks that were ever counted.
    settings: str = ""  #: Search settings of the players of the last one.
    rated: int = 0  #: As many of them were counted when ratings were last asked for.
    due: bool = False  #: Whether a match was decided since then.


class LineRatings(Value):
    """The strength of one line's players."""

    variant: str
    periods: tuple[ChampionPeriod, ...] = ()  #: Champions, the last one last.
    report: str = ""  #: The blob with all ratings.
    time: float = 0.0  #: When they were computed.
    summary: Summary = Summary(players=0, blocks=0)


COUNTS = Records("count", _Count, index=("variant", "node"), limit=100_000, checked=True)
BACKLOGS = Records("backlog", Backlog, id="variant")
RATINGS = Records("ratings", LineRatings, id="variant")


class RatedModel(Value):
    """A player on the one scale of its line: Elo over generation 0, from all blocks that count, with bounds."""

    model: str  #: A model, or the name of a player that never trains.
    elo: Interval
    generation: int | None = None  #: Of a model that is or was champion.
    since: float | None = None  #: When it became champion.
    blocks: int = 0

    @property
    def is_baseline(self) -> bool:
        return is_baseline(self.model)


class RatingInput(Value):
    """The input of a computation of ratings."""

    variant: str
    tally: Tally
    anchors: tuple[tuple[Player, float], ...]  #: Players with a fixed Elo: see :func:`_anchor`; however they searched.
    settings: str = ""  #: Search settings of the players in the summary.
    summarized: tuple[str, ...] = ()  #: The models in the summary, besides baselines.
    playable: tuple[str, ...] = ()  #: The models that can still play.


async def count_blocks(tx: Tx, match: _MatchRow, fresh: Sequence[Block]) -> list[BlockScore]:
    """Count *fresh* blocks of *match*, all of one node, and return their scores; none counts of a quarantined node."""
    scores = _compare(match, fresh)
    if not scores or await QUARANTINES.get(tx, fresh[0].node):
        return []
    node = fresh[0].node
    fields = (match.variant, *sorted((match.candidate, match.opponent)), match.settings, node)
    id = hashlib.sha256(repr(fields).encode()).hexdigest()[:_ID_LETTERS]
    before = await COUNTS.get(tx, id)
    [meeting] = add(Tally(meetings=(before.meeting,) if before else ()), scores).meetings
    await COUNTS.put_at(tx, {id: _Count(node=node, meeting=meeting)})
    backlog = await backlog_of(tx, match.variant)
    backlog = changed(backlog, counted=backlog.counted + len(scores), settings=match.settings)
    await BACKLOGS.put(tx, [backlog])
    return scores


async def forget_node(tx: Tx, node: str) -> None:
    """Forget the counts of *node*, which was quarantined or released: what it reported before counts no more."""
    await _ERAS.put_at(tx, {node: (await _ERAS.get(tx, node) or 0) + 1})
    counts = await COUNTS.find(tx, "node", node)
    await COUNTS.delete(tx, list(counts))
    for variant in sorted({count.meeting.variant for count in counts.values()}):
        await mark_due(tx, variant)


async def _tally_of(view: Reads, variant: str) -> Tally:
    return sum_meetings(count.meeting for count in await COUNTS.all(view, "variant", variant))


async def forget_players(tx: Tx, line: Line) -> None:
    """Forget the counts of players that are no longer needed, once there are many players."""
    counts, models = await COUNTS.find(tx, "variant", line.variant), await _rated_models(tx, line)
    pairs = {id: (count.meeting.one.weights, count.meeting.other.weights) for id, count in counts.items()}
    if len({weights for pair in pairs.values() for weights in pair}) > _PLAYERS_MAX:
        over = [id for id, pair in pairs.items() if any(not is_baseline(w) and w not in models for w in pair)]
        await COUNTS.delete(tx, over)


async def _rated_models(view: Reads, line: Line) -> set[str]:
    """The models whose ratings are kept up: those that the line needs, and the champions that are remembered."""
    return needed_models(line) | {period.model for period in (await ratings_of(view, line.variant)).periods}


def _anchor(periods: Sequence[ChampionPeriod]) -> tuple[str, float] | None:
    """The model with a fixed Elo: the first champion of all has 0, and once it is forgotten the oldest has its last."""
    if len(periods) < _PERIODS_MAX:
        return next(((period.model, 0.0) for period in periods), None)
    return next(((period.model, period.elo.value) for period in periods if period.elo is not None), None)


def _compare(match: _MatchRow, blocks: Iterable[Block]) -> list[BlockScore]:
    """The scores of *blocks* of *match* that show who beat whom: a share of first place between two, else ranks."""
    one, other = (Player(weights=weights, settings=match.settings) for weights in (match.candidate, match.opponent))
    scores = []
    for block in blocks:
        try:
            if block.ranks or len(block.scores) == 2:
                scores.append(score_block(match.variant, one, other, block.ranks or block.scores))
        except Unranked:
            continue  # kept as it was reported, but it does not show who finished before whom
    return scores if one != other else []


async def ratings_of(view: Reads, variant: str) -> LineRatings:
    """The ratings of *variant* as last computed."""
    return await RATINGS.get(view, variant) or LineRatings(variant=variant)


async def backlog_of(view: Reads, variant: str) -> Backlog:
    """How many blocks of *variant* were counted so far."""
    return await BACKLOGS.get(view, variant) or Backlog(variant=variant)


async def mark_due(tx: Tx, variant: str) -> None:
    """Let the ratings of *variant* be computed again."""
    await BACKLOGS.put(tx, [changed(await backlog_of(tx, variant), due=True)])


def is_due(backlog: Backlog) -> bool:
    """Whether ratings are to be computed: a match was decided, or many blocks came."""
    return backlog.counted > 0 and (backlog.due or backlog.counted - backlog.rated >= _RATE_BLOCKS)


async def rating_input(view: Reads, backlog: Backlog, line: Line) -> RatingInput:
    """The input from which the ratings of *line* are computed."""
    tally = await _tally_of(view, line.variant)
    players = {player for meeting in tally.meetings for player in (meeting.one, meeting.other)}
    first, elo = _anchor((await ratings_of(view, line.variant)).periods) or ("", 0.0)
    anchors = tuple((player, elo) for player in sorted(players) if player.weights == first)
    models = {"summarized": await _rated_models(view, line), "playable": needed_models(line)}
    names = {name: tuple(sorted(weights)) for name, weights in models.items()}
    return RatingInput(variant=line.variant, tally=tally, settings=backlog.settings, anchors=anchors, **names)


def with_champion(ratings: LineRatings, model: str, generation: int, at: float) -> LineRatings:
    """*ratings* with *model* as champion from *at* on."""
    period = ChampionPeriod(model=model, generation=generation, since=at, elo=strength(ratings, model))
    return changed(ratings, periods=(*ratings.periods, period)[-_PERIODS_MAX:])


def with_ratings(ratings: LineRatings, event: Rated, at: float) -> LineRatings:
    """*ratings* after they were computed again."""
    ratings = changed(ratings, report=event.report, time=at, summary=event.summary)
    periods = tuple(changed(period, elo=strength(ratings, period.model) or period.elo) for period in ratings.periods)
    return changed(ratings, periods=periods)


def is_baseline(weights: str) -> bool:
    """Whether *weights* is the name of a player that never trains, and not that of a blob."""
    return len(weights) != _BLOB_LETTERS


def strength(ratings: LineRatings, model: str) -> Interval | None:
    """The Elo of *model* above generation 0, as last computed; None if it is unknown."""
    for row in ratings.summary.strengths:
        if row.weights == model and row.anchored:
            return Interval(value=row.elo, lower=row.lower, upper=row.upper)
    return None


async def elo_of(view: Reads, variant: str) -> Sequence[RatedModel]:
    """Every rated player of *variant*: champions by the time at which they last became it, then others by strength.

    This is the only Elo that is shown anywhere.  Generation 0 has 0 by definition; a model that no chain of blocks
    connects with it has none, nor has one that was promoted since ratings were last computed, some seconds ago.
    """
    ratings = await ratings_of(view, variant)
    rated = {
        each.weights: RatedModel(model=each.weights, elo=interval, blocks=each.blocks)
        for each in ratings.summary.strengths
        if (interval := strength(ratings, each.weights)) is not None
    }
    champions: dict[str, RatedModel] = {}
    for period in ratings.periods:
        is_zero = period.generation == 0 and period is ratings.periods[0]
        elo = period.elo or (Interval(value=0.0, lower=0.0, upper=0.0) if is_zero else None)
        row = rated.get(period.model) or (elo and RatedModel(model=period.model, elo=elo))
        champions.pop(period.model, None)
        if row:
            champions[period.model] = changed(row, generation=period.generation, since=period.since)
    rest = sorted(rated.values(), key=lambda each: (-each.elo.value, each.model))
    return (*champions.values(), *(each for each in rest if each.model not in champions))
