"""Strength is counted block by block, asked for when something was decided, and remembered by champion."""

from pathlib import Path

import msgspec
import pytest

from ringrift.daemons.feedback import feedback
from ringrift.daemons.pipeline import pipeline
from ringrift.daemons.rate import rate as look
from ringrift.evaluation.blocks import Block
from ringrift.evaluation.tally import Observed, Player, Tally, add
from ringrift.events import data, evaluation, model
from ringrift.events.base import Event
from ringrift.events.evaluation import Pair, Rated, Strength, Summary
from ringrift.jobs import Export, Rate
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.settings import Policy
from ringrift.pipeline import signals, standing
from ringrift.pipeline.line import DECISION, Ancestor, Batch, Counts, Decision, Line, Stage
from ringrift.pipeline.matches import MatchRow
from ringrift.pipeline.records import load, verdicts_of
from ringrift.pipeline.signals import Effect, Influence
from ringrift.pipeline.standing import (
    RATE_BLOCKS,
    REIGNS_MAX,
    Asked,
    Backlog,
    Standing,
    compared,
    enthroned,
    is_due,
    rated,
    summed,
)
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import Context
from ringrift.store.ports import Put
from ringrift.workers import rate as worker
from ringrift.workload.api import JobSpec
from unit.pipeline.story import blob
from unit.work.world import World, play

VARIANT = "hex8_2p"
START, ONE, TWO = (blob(name) for name in ("start", "one", "two"))
ROW = MatchRow(id="m", variant=VARIANT, candidate=ONE, opponent=START, settings="s", seed=1, time=0.0)
LINE = Line(
    variant=VARIANT, workload="fake", players=2, stage=Stage.COLLECTING, champion=ONE, generation=1,
    ancestors=(Ancestor(model=START, generation=0),),
)  # fmt: skip
POLICY = Policy(variants=(VARIANT,), games_per_export=400)
HOUR = 3600.0


def block(number: int, *scores: float, ranks: tuple[float, ...] = (), node: str = "n1") -> Block:
    """A block of some match."""
    return Block(number=number, scores=scores, ranks=ranks, node=node, match="m")


def blocks(first: int, count: int, node: str = "n1") -> evaluation.BlocksPlayed:
    """That *node* played blocks in which the candidate won three of four."""
    played = [evaluation.Played(number=first + n, scores=(1.0, float(n % 2))) for n in range(count)]
    return evaluation.BlocksPlayed(
        variant=VARIANT, candidate=ONE, champion=START, blocks=tuple(played), node=node, settings="s", seed=1
    )


def told(elo: float, who: str = ONE, *, anchored: bool = True) -> Rated:
    """That ratings were computed."""
    strength = Strength(
        weights=who, settings="s", elo=elo, lower=elo - 9.0, upper=elo + 9.0, blocks=5, anchored=anchored
    )
    return Rated(
        variant=VARIANT, report=blob("report"), tally=blob("tally"), node="n1",
        summary=Summary(players=2, blocks=5, strengths=(strength,)),
    )  # fmt: skip


async def take(world: World, event: Event, policy: Policy = POLICY) -> None:
    """Let the loop and then feedback take in *event*."""
    envelope = world.envelope(event)
    async with world.store.begin() as tx:
        await pipeline(event, envelope, tx, policy=policy, ids=world.ids, scribe=world.scribe)
    if isinstance(
        event, evaluation.Finished | evaluation.Reviewed | evaluation.Rated | model.Promoted | model.RolledBack
    ):
        async with world.store.begin() as tx:
            await feedback(event, envelope, tx, policy=policy, scribe=world.scribe)


async def begin(world: World) -> None:
    """Keep a line whose generation 0 is known."""
    first = Decision(variant=VARIANT, model=START, promoted=True, reason="r", generation=0, time=1.0)
    await world.keep(LINE)
    async with world.store.begin() as tx:
        await tx.put([Put(kind=DECISION, id="first", body=msgspec.json.encode(first), index={"variant": VARIANT})])


def decided() -> evaluation.Finished:
    """That a match was decided."""
    return evaluation.Finished(
        variant=VARIANT, candidate=ONE, champion=START, blocks=8, score=0.7, elo=150.0, promoted=False
    )


# -- counting ----------------------------------------------------------------------------------------------------------


def test_two_players_need_no_ranks_and_more_do() -> None:
    """Who won is who finished first of two; of three a share of first place does not say who came second."""
    three = msgspec.structs.replace(ROW, variant="hex8_3p")
    one, other = Player(weights=ONE, settings="s"), Player(weights=START, settings="s")

    assert compared(ROW, [block(0, 1.0, 0.5)]) == [
        Observed(variant=VARIANT, one=one, other=other, points=3, comparisons=2)
    ]
    assert compared(three, [block(0, 1.0, 0.5, 0.0)]) == []
    assert compared(three, [block(0, 1.0, 0.0, 0.0, ranks=(1.0, 0.5, 0.25))]) == [
        Observed(variant="hex8_3p", one=one, other=other, points=7, comparisons=6)
    ]


def test_what_says_nothing_is_left_out() -> None:
    """Scores that are no shares of halves, and a player against itself."""
    same = msgspec.structs.replace(ROW, opponent=ONE)

    assert compared(ROW, [block(0, 0.3, 0.5)]) == []
    assert compared(same, [block(0, 1.0, 0.5)]) == []


def test_counts_of_several_nodes_add_up() -> None:
    """Adding whole meetings is the same as adding every block of them."""
    observed = [compared(ROW, [block(n, 1.0, float(n % 2))])[0] for n in range(7)]
    parts = [add(Tally(), observed[:3]), add(Tally(), observed[3:])]

    assert summed(one for part in parts for one in part.meetings) == add(Tally(), observed)
    assert summed([]) == Tally()


# -- when ratings are asked for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "due"),
    [
        (Backlog(variant=VARIANT, due=True), False),
        (Backlog(variant=VARIANT, counted=1, due=True), True),
        (Backlog(variant=VARIANT, counted=RATE_BLOCKS - 1), False),
        (Backlog(variant=VARIANT, counted=RATE_BLOCKS), True),
        (Backlog(variant=VARIANT, counted=RATE_BLOCKS, asked=1), False),
    ],
)
def test_ratings_are_due_after_a_decision_or_many_blocks(known: Backlog, due: bool) -> None:
    """Without any block there is nothing to compute."""
    assert is_due(known) is due


def test_one_job_is_asked_for_and_brings_the_ratings_in(tmp_path: Path) -> None:
    """A decided match makes them due once; the job's blob holds the counts; what it says is remembered."""

    async def story(world: World) -> None:
        roles, blobs = await world.roles(), MemoryBlobs("here")

        async def tick() -> int:
            await look(
                store=world.store, blobs=blobs, roles=roles, ids=world.ids, scribe=world.scribe, clock=world.clock,
                node_id="here",
            )  # fmt: skip
            return len(await world.jobs("ready"))

        await begin(world)
        await take(world, blocks(0, 4))
        await take(world, blocks(4, 4, node="n2"))
        assert await tick() == 0
        await take(world, decided())
        assert await tick() == 1
        await take(world, decided())
        assert await tick() == 1

        [lease] = await world.desk().claim([Rate.kind()], 1)
        job = msgspec.json.decode(lease.body, type=Rate)
        asked = msgspec.json.decode(blobs.open(job.tally), type=Asked)
        assert asked.anchors == ((Player(weights=START, settings="s"), 0.0),)
        assert (asked.kept, asked.told) == (tuple(sorted((ONE, START))),) * 2
        assert await world.holders(job.tally) == ["here"]
        made = worker.run(
            JobSpec(job="j", stage="rate", variant=VARIANT, seed=0, inputs={"tally": (job.tally,)}), Context(blobs)
        )
        summary = msgspec.json.decode(str(made.outputs[0].meta["summary"]), type=Summary)
        await take(
            world, Rated(variant=VARIANT, report=made.outputs[0].blob, tally=job.tally, summary=summary, node="here")
        )
        async with world.store.read() as view:
            known = await standing.load(view, VARIANT)
            backlog = await standing.backlog_of(view, VARIANT)
        found = standing.strength(known, ONE)
        assert found is not None
        assert 0.0 < found.value < found.upper
        assert known.summary.pairs == (Pair(one=min(ONE, START), other=max(ONE, START)),)
        assert (backlog.counted, backlog.asked, backlog.due) == (8, 8, True)

    play(tmp_path, story)


def test_a_node_without_room_asks_for_nothing(tmp_path: Path) -> None:
    """The line stays due, so that the next look asks."""

    class Full(MemoryBlobs):
        """Has no room."""

        async def put(self, datas: object) -> list[str]:
            raise NoRoom("the disk is full")

    async def story(world: World) -> None:
        roles = await world.roles()
        await begin(world)
        await take(world, blocks(0, 4))
        await take(world, decided())

        await look(
            store=world.store, blobs=Full("here"), roles=roles, ids=world.ids, scribe=world.scribe, clock=world.clock,
            node_id="here",
        )  # fmt: skip

        assert await world.jobs() == []
        async with world.store.read() as view:
            assert is_due(await standing.backlog_of(view, VARIANT))

    play(tmp_path, story)


# -- champions ---------------------------------------------------------------------------------------------------------


def test_a_champion_is_remembered_with_what_is_known_of_it() -> None:
    """Also one that comes back; the next ratings tell all of them anew; the oldest are forgotten."""
    known = enthroned(Standing(variant=VARIANT), START, 0, 1.0)
    known = rated(enthroned(known, ONE, 1, 2.0), told(80.0), 3.0)
    known = enthroned(enthroned(known, TWO, 2, 4.0), ONE, 1, 5.0)

    assert [(reign.model, reign.elo and reign.elo.value) for reign in known.reigns] == [
        (START, None), (ONE, 80.0), (TWO, None), (ONE, 80.0),
    ]  # fmt: skip
    known = rated(known, told(90.0), 6.0)
    assert [reign.elo and reign.elo.value for reign in known.reigns] == [None, 90.0, None, 90.0]
    for number in range(100):
        known = enthroned(known, f"m{number}", number, 7.0 + number)
    assert len(known.reigns) == REIGNS_MAX


def test_a_rating_that_no_chain_leads_to_the_start_is_none() -> None:
    """It is an Elo over somebody else, and nobody may take it for one over generation 0."""
    known = rated(enthroned(Standing(variant=VARIANT), ONE, 1, 2.0), told(80.0, anchored=False), 3.0)

    assert standing.strength(known, ONE) is None
    assert known.reigns[0].elo is None


# -- what follows for the loop -----------------------------------------------------------------------------------------


def test_ratings_and_rollbacks_are_felt(tmp_path: Path) -> None:
    """Each leaves its verdict; one that is certain leaves an effect with its end."""

    async def story(world: World) -> None:
        await begin(world)
        for generation, who in enumerate((START, ONE)):
            await take(world, model.Promoted(variant=VARIANT, model=who, generation=generation, previous=None))
            world.clock.seconds += HOUR
        await take(world, told(80.0))
        sure = model.Evidence(blocks=400, score=0.4, llr=-3.0, lower=-2.9, upper=2.9, rule="below")
        await take(
            world,
            model.RolledBack(variant=VARIANT, model=ONE, to=START, generation=0, reason="review", evidence=sure),
        )

        async with world.store.read() as view:
            influence = await signals.load(view, VARIANT)
            said = {one.gate: one for one in await verdicts_of(view, VARIANT)}
            known = await standing.load(view, VARIANT)
        assert [reign.model for reign in known.reigns] == [START, ONE, START]
        assert [effect.setting for effect in influence.effects] == ["review_promotions"]
        assert said["feedback regression"].allowed
        assert said["feedback regression"].until == influence.effects[0].until
        assert not said["feedback stall"].allowed

    play(tmp_path, story)


def test_the_loop_goes_by_the_effects_in_force_and_forgets_the_others(tmp_path: Path) -> None:
    """With a plateau an export waits for more games; when its time is over it does not, and the verdict says so."""
    pending = Batch(blob=blob("batch"), games=500, node="n1")
    counts = Counts(batches=1, games=500)

    async def story(world: World) -> None:
        now = world.clock.now()
        plateau = Effect(
            signal="plateau", setting="games_per_export", how="times", amount=1.5, since=now, until=now + HOUR
        )
        await world.keep(msgspec.structs.replace(LINE, pending=(pending,), counts=counts))
        async with world.store.begin() as tx:
            await signals.save(tx, Influence(variant=VARIANT, effects=(plateau,)))
        synced = data_synced(pending.blob)

        await take(world, synced)
        assert [row.kind for row in await world.jobs()] == []
        world.clock.seconds += HOUR
        async with world.store.read() as view:
            line = await load(view, VARIANT)
        assert line is not None
        assert line.fresh == 500
        other = Batch(blob=blob("other"), games=1, node="n1")
        await world.keep(
            msgspec.structs.replace(line, pending=(other,), counts=msgspec.structs.replace(
                line.counts, batches=2, games=501))
        )  # fmt: skip
        await take(world, data_synced(other.blob))

        [row] = await world.jobs()
        assert row.kind == Export.kind()
        assert row.priority == 60 + 1  # of the 1600 games that may wait, 500 did: 0.16 of 9
        async with world.store.read() as view:
            assert (await signals.load(view, VARIANT)).effects == ()
            said = {one.gate: one for one in await verdicts_of(view, VARIANT)}
        assert said["feedback plateau"].rule == "its effect on games_per_export has expired"

    play(tmp_path, story)


def data_synced(name: str) -> Event:
    """That a batch was copied."""
    return data.Synced(variant=VARIANT, blob=name, kind="games", nodes=("n1",))


def test_players_that_never_train_are_rated_but_not_asked_to_meet_each_other() -> None:
    """No job could ask for that match; and who searched otherwise is another player, whom nobody can ask to meet."""

    def met(one: str, other: str, settings: str = "s") -> list[Observed]:
        row = msgspec.structs.replace(ROW, candidate=one, opponent=other, settings=settings)
        return compared(row, [block(n, 1.0, float(n % 2)) for n in range(4)])

    seen = [*met(ONE, START), *met(ONE, "greedy"), *met(START, "random"), *met(TWO, START, "other")]
    asked = Asked(variant=VARIANT, tally=add(Tally(), seen), anchors=(), settings="s", told=(START,), kept=(ONE, START))

    pairs = worker.pairs(asked)
    told = worker.summary(asked, worker.rate(asked.tally, {}))

    named = {"greedy", "random"}
    assert pairs
    assert all(not {pair.one, pair.other} <= named and TWO not in (pair.one, pair.other) for pair in pairs)
    assert {one.weights for one in told.strengths} == {ONE, START, *named}
    assert (told.players, told.blocks) == (6, 16)
    assert not any(one.anchored for one in told.strengths)
