"""Strength is counted block by block, rated after a decision, and stored by champion."""

from pathlib import Path

import msgspec
import pytest

from job_context import job_context
from ringrift.daemons.pipeline import pipeline
from ringrift.daemons.rate import rate as look
from ringrift.daemons.record_ratings import record_ratings
from ringrift.evaluation.tally import BlockScore, Player, Tally, add, sum_meetings
from ringrift.events import data, evaluation, model
from ringrift.events.base import Event
from ringrift.events.evaluation import Block, Pair, Rated, Strength, Summary
from ringrift.jobs import Export, Rate
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline import ratings
from ringrift.pipeline.line import DECISIONS, LINES, Ancestor, Batch, Decision, Line, Stage, _BatchCounts
from ringrift.pipeline.ratings import (
    _PERIODS_MAX,
    _RATE_BLOCKS,
    Backlog,
    LineRatings,
    RatingInput,
    _compare,
    _MatchRow,
    is_due,
    with_champion,
    with_ratings,
)
from ringrift.pipeline.signals import FEEDBACK, Feedback, _Effect
from ringrift.sim.blobs import MemoryBlobs
from ringrift.work.limits import VERDICTS
from ringrift.workers import rate as worker
from ringrift.workload.api import JobSpec
from unit.pipeline.story import blob
from unit.work.world import World, play

VARIANT = "hex8_2p"
START, ONE, TWO = (blob(name) for name in ("start", "one", "two"))
ROW = _MatchRow(id="m", variant=VARIANT, candidate=ONE, opponent=START, settings="s", seed=1, time=0.0)
LINE = Line(
    variant=VARIANT,
    workload="fake",
    players=2,
    stage=Stage.COLLECTING,
    champion=ONE,
    generation=1,
    ancestors=(Ancestor(model=START, generation=0),),
)
POLICY = Policy(variants=(VARIANT,), games_per_export=400)
HOUR = 3600.0


def block(number: int, *scores: float, ranks: tuple[float, ...] = (), node: str = "n1") -> Block:
    """A block of some match."""
    return Block(number=number, scores=scores, ranks=ranks, node=node, match="m")


def blocks(first: int, count: int, node: str = "n1") -> evaluation.BlocksPlayed:
    """That *node* played blocks in which the candidate won three of four."""
    played = [evaluation.Block(number=first + n, scores=(1.0, float(n % 2))) for n in range(count)]
    return evaluation.BlocksPlayed(
        variant=VARIANT, candidate=ONE, champion=START, blocks=tuple(played), node=node, settings="s", seed=1
    )


def log(elo: float, who: str = ONE, *, anchored: bool = True) -> Rated:
    """That ratings were computed."""
    strength = Strength(
        weights=who, settings="s", elo=elo, lower=elo - 9.0, upper=elo + 9.0, blocks=5, anchored=anchored
    )
    return Rated(
        variant=VARIANT,
        report=blob("report"),
        tally=blob("tally"),
        node="n1",
        summary=Summary(players=2, blocks=5, strengths=(strength,)),
    )


async def take(world: World, event: Event, policy: Policy = POLICY) -> None:
    """Let the loop and then feedback handle *event*."""
    envelope = world.envelope(event)
    async with world.store.begin() as tx:
        await pipeline(event, envelope, tx, policy=policy, envelopes=world.envelopes)
    if isinstance(
        event, evaluation.Finished | evaluation.Reviewed | evaluation.Rated | model.Promoted | model.RolledBack
    ):
        async with world.store.begin() as tx:
            await record_ratings(event, envelope, tx)


async def begin(world: World) -> None:
    """Store a line with its generation 0."""
    first = Decision(variant=VARIANT, model=START, promoted=True, reason="r", generation=0, time=1.0)
    await world.keep(LINE)
    async with world.store.begin() as tx:
        await DECISIONS.put(tx, [changed(first, id="first")])


def decided() -> evaluation.Finished:
    """That a match was decided."""
    return evaluation.Finished(
        variant=VARIANT, candidate=ONE, champion=START, blocks=8, score=0.7, elo=150.0, promoted=False
    )


# -- counting ----------------------------------------------------------------------------------------------------------


def test_two_players_need_no_ranks_and_more_do() -> None:
    """Among two players the winner finished first; among three a share of first place leaves the second unknown."""
    three = msgspec.structs.replace(ROW, variant="hex8_3p")
    one, other = Player(weights=ONE, settings="s"), Player(weights=START, settings="s")

    assert _compare(ROW, [block(0, 1.0, 0.5)]) == [
        BlockScore(variant=VARIANT, one=one, other=other, points=3, comparisons=2)
    ]
    assert _compare(three, [block(0, 1.0, 0.5, 0.0)]) == []
    assert _compare(three, [block(0, 1.0, 0.0, 0.0, ranks=(1.0, 0.5, 0.25))]) == [
        BlockScore(variant="hex8_3p", one=one, other=other, points=7, comparisons=6)
    ]


def test_uninformative_blocks_are_left_out() -> None:
    """Scores that are no shares of halves, and a player against itself."""
    same = msgspec.structs.replace(ROW, opponent=ONE)

    assert _compare(ROW, [block(0, 0.3, 0.5)]) == []
    assert _compare(same, [block(0, 1.0, 0.5)]) == []


def test_counts_of_several_nodes_add_up() -> None:
    """Adding whole meetings is the same as adding every block of them."""
    observed = [_compare(ROW, [block(n, 1.0, float(n % 2))])[0] for n in range(7)]
    parts = [add(Tally(), observed[:3]), add(Tally(), observed[3:])]

    assert sum_meetings(rating for part in parts for rating in part.meetings) == add(Tally(), observed)
    assert sum_meetings([]) == Tally()


# -- when ratings are due --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (Backlog(variant=VARIANT, due=True), False),
        (Backlog(variant=VARIANT, counted=1, due=True), True),
        (Backlog(variant=VARIANT, counted=_RATE_BLOCKS - 1), False),
        (Backlog(variant=VARIANT, counted=_RATE_BLOCKS), True),
        (Backlog(variant=VARIANT, counted=_RATE_BLOCKS, rated=1), False),
    ],
)
def test_ratings_are_due_after_a_decision_or_many_blocks(state: Backlog, due: bool) -> None:
    """Without any block there is nothing to compute."""
    assert is_due(state) is due


def test_a_rating_job_is_enqueued_once_and_its_result_is_stored(tmp_path: Path) -> None:
    """A decided match makes ratings due once; the job's blob holds the counts; its result is stored."""

    async def story(world: World) -> None:
        roles, blobs = await world.roles(), MemoryBlobs("here")

        async def tick() -> int:
            await look(
                store=world.store,
                blobs=blobs,
                roles=roles,
                envelopes=world.envelopes,
                clock=world.clock,
            )
            return len(await world.jobs("ready"))

        await begin(world)
        await take(world, model.Promoted(variant=VARIANT, model=START, generation=0, previous=None))
        await take(world, blocks(0, 4))
        await take(world, blocks(4, 4, node="n2"))
        assert await tick() == 0
        await take(world, decided())
        assert await tick() == 1
        await take(world, decided())
        assert await tick() == 1

        [lease] = await world.desk().claim([Rate.kind()], 1)
        job = msgspec.json.decode(lease.body, type=Rate)
        request = msgspec.json.decode(blobs.open(job.tally), type=RatingInput)
        assert request.anchors == ((Player(weights=START, settings="s"), 0.0),)
        assert (request.playable, request.summarized) == (tuple(sorted((ONE, START))),) * 2
        assert await world.holders(job.tally) == ["here"]
        made = worker.run(
            JobSpec(job="j", stage="rate", variant=VARIANT, seed=0, inputs={"tally": (job.tally,)}), job_context(blobs)
        )
        summary = msgspec.json.decode(str(made.outputs[0].meta["summary"]), type=Summary)
        await take(
            world, Rated(variant=VARIANT, report=made.outputs[0].blob, tally=job.tally, summary=summary, node="here")
        )
        async with world.store.read() as view:
            state = await ratings.ratings_of(view, VARIANT)
            backlog = await ratings.backlog_of(view, VARIANT)
        actual = ratings.strength(state, ONE)
        assert actual is not None
        assert 0.0 < actual.value < actual.upper
        assert state.summary.pairs == (Pair(one=min(ONE, START), other=max(ONE, START)),)
        assert (backlog.counted, backlog.rated, backlog.due) == (8, 8, True)

    play(tmp_path, story)


def test_a_node_without_room_enqueues_nothing(tmp_path: Path) -> None:
    """The line stays due, so that the next cycle enqueues it."""

    class Full(MemoryBlobs):
        """Has no room."""

        async def put(self, datas: object) -> list[str]:
            raise NoRoom("the disk is full")

    async def story(world: World) -> None:
        roles = await world.roles()
        await begin(world)
        await take(world, blocks(0, 4))
        await take(world, decided())

        parts = {"store": world.store, "roles": roles, "envelopes": world.envelopes, "clock": world.clock}
        with pytest.raises(NoRoom):  # its supervisor waits for room
            await look(blobs=Full("here"), **parts)

        assert await world.jobs() == []
        async with world.store.read() as view:
            assert is_due(await ratings.backlog_of(view, VARIANT))

    play(tmp_path, story)


# -- champions ---------------------------------------------------------------------------------------------------------


def test_a_champion_is_stored_with_its_ratings() -> None:
    """One that returns is included; the next ratings update all of them; the oldest are dropped."""
    state = with_champion(LineRatings(variant=VARIANT), START, 0, 1.0)
    state = with_ratings(with_champion(state, ONE, 1, 2.0), log(80.0), 3.0)
    state = with_champion(with_champion(state, TWO, 2, 4.0), ONE, 1, 5.0)

    assert [(period.model, period.elo and period.elo.value) for period in state.periods] == [
        (START, None),
        (ONE, 80.0),
        (TWO, None),
        (ONE, 80.0),
    ]
    state = with_ratings(state, log(90.0), 6.0)
    assert [period.elo and period.elo.value for period in state.periods] == [None, 90.0, None, 90.0]
    for number in range(100):
        state = with_champion(state, f"m{number}", number, 7.0 + number)
    assert len(state.periods) == _PERIODS_MAX


def test_a_rating_without_a_chain_to_the_start_is_none() -> None:
    """It would be an Elo over another player, not over generation 0."""
    state = with_ratings(with_champion(LineRatings(variant=VARIANT), ONE, 1, 2.0), log(80.0, anchored=False), 3.0)

    assert ratings.strength(state, ONE) is None
    assert state.periods[0].elo is None


# -- what follows for the loop -----------------------------------------------------------------------------------------


def test_ratings_and_rollbacks_apply_signals(tmp_path: Path) -> None:
    """Each leaves its verdict; a certain one leaves an effect with its end."""

    async def story(world: World) -> None:
        await begin(world)
        for generation, who in enumerate((START, ONE)):
            await take(world, model.Promoted(variant=VARIANT, model=who, generation=generation, previous=None))
            world.clock.seconds += HOUR
        await take(world, log(80.0))
        sure = model.Evidence(blocks=400, score=0.4, llr=-3.0, lower=-2.9, upper=2.9, rule="below")
        await take(
            world, model.RolledBack(variant=VARIANT, model=ONE, to=START, generation=0, reason="review", evidence=sure)
        )

        async with world.store.read() as view:
            feedback = await FEEDBACK.get(view, VARIANT)
            verdicts = {verdict.gate: verdict for verdict in await VERDICTS.all(view, "variant", VARIANT)}
            state = await ratings.ratings_of(view, VARIANT)
        assert [period.model for period in state.periods] == [START, ONE, START]
        assert feedback is not None
        assert [effect.setting for effect in feedback.effects] == ["review_promotions"]
        assert verdicts["feedback regression"].allowed
        assert verdicts["feedback regression"].until == feedback.effects[0].until
        assert not verdicts["feedback stall"].allowed

    play(tmp_path, story)


def test_the_loop_applies_only_the_effects_in_force(tmp_path: Path) -> None:
    """With a plateau an export waits for more games; when its time is over it does not, and the verdict shows it."""
    pending = Batch(blob=blob("batch"), games=500, node="n1")
    counts = _BatchCounts(batches=1, games=500)

    async def story(world: World) -> None:
        now = world.clock.now()
        plateau = _Effect(
            signal="plateau", setting="games_per_export", how="times", amount=1.5, since=now, until=now + HOUR
        )
        await world.keep(msgspec.structs.replace(LINE, pending=(pending,), counts=counts))
        async with world.store.begin() as tx:
            await FEEDBACK.put(tx, [Feedback(variant=VARIANT, effects=(plateau,))])
        synced = data_synced(pending.blob)

        await take(world, synced)
        assert [row.kind for row in await world.jobs()] == []
        world.clock.seconds += HOUR
        async with world.store.read() as view:
            line = await LINES.get(view, VARIANT)
        assert line is not None
        assert line.fresh == 500
        other = Batch(blob=blob("other"), games=1, node="n1")
        await world.keep(
            msgspec.structs.replace(
                line, pending=(other,), counts=msgspec.structs.replace(line.counts, batches=2, games=501)
            )
        )
        await take(world, data_synced(other.blob))

        [row] = await world.jobs()
        assert row.kind == Export.kind()
        assert row.priority == 60 + 1  # of the 1600 games that may wait, 500 did: 0.16 of 9
        async with world.store.read() as view:
            feedback = await FEEDBACK.get(view, VARIANT)
            assert feedback is not None
            assert feedback.effects == ()
            verdicts = {verdict.gate: verdict for verdict in await VERDICTS.all(view, "variant", VARIANT)}
        assert verdicts["feedback plateau"].rule == "its effect on games_per_export has expired"

    play(tmp_path, story)


def data_synced(name: str) -> Event:
    """That a batch was copied."""
    return data.Synced(variant=VARIANT, blob=name, kind="games", nodes=("n1",))


def test_baselines_are_rated_but_not_paired_with_each_other() -> None:
    """No job could play that match; and a model with another search is another player, which no job can pair."""

    def met(one: str, other: str, settings: str = "s") -> list[BlockScore]:
        row = msgspec.structs.replace(ROW, candidate=one, opponent=other, settings=settings)
        return _compare(row, [block(n, 1.0, float(n % 2)) for n in range(4)])

    seen = [*met(ONE, START), *met(ONE, "greedy"), *met(START, "random"), *met(TWO, START, "other")]
    request = RatingInput(
        variant=VARIANT, tally=add(Tally(), seen), anchors=(), settings="s", summarized=(START,), playable=(ONE, START)
    )

    groups = worker.fit(request.tally, {})
    pairs = worker._pairs(request, groups)
    log = worker._summary(request, groups, worker.rate(groups))

    named = {"greedy", "random"}
    assert pairs
    assert all(not {pair.one, pair.other} <= named and TWO not in (pair.one, pair.other) for pair in pairs)
    assert {rating.weights for rating in log.strengths} == {ONE, START, *named}
    assert (log.players, log.blocks) == (6, 16)
    assert not any(rating.anchored for rating in log.strengths)
