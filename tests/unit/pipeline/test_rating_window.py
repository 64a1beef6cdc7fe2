"""The window of ratings: players of long ago leave the counts, and the scale goes on without them."""

from itertools import pairwise
from pathlib import Path

import msgspec

from ringrift.cluster.leadership import Roles
from ringrift.daemons.rate import rate as look
from ringrift.evaluation.interval import Interval
from ringrift.evaluation.tally import Player
from ringrift.events import model
from ringrift.jobs import Rate
from ringrift.kernel.value import changed
from ringrift.pipeline import ratings
from ringrift.pipeline.ratings import _PERIODS_MAX, _PLAYERS_MAX, RATINGS, RatingInput
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Renewal
from ringrift.work.desk import Done
from unit.pipeline.story import blob
from unit.pipeline.test_ratings import LINE, START, VARIANT, begin, blocks, decided, take
from unit.work.world import World, play


async def promote_many(world: World, count: int) -> list[str]:
    """Let *count* models after generation 0 beat the champion before them, one after the other; all of them."""
    models = [START, *(blob(f"model {number}") for number in range(count))]
    for generation, (before, who) in enumerate(pairwise((START, *models))):
        await take(world, model.Promoted(variant=VARIANT, model=who, generation=generation, previous=None))
        if generation:
            await take(world, changed(blocks(0, 2), candidate=who, champion=before, seed=generation))
    return models


async def rated(world: World, roles: Roles) -> RatingInput:
    """The input of the ratings that are asked for after a decision; the job of the last ones is over."""
    blobs = MemoryBlobs("here")
    await take(world, decided())
    await look(store=world.store, blobs=blobs, roles=roles, envelopes=world.envelopes, clock=world.clock)
    [lease] = await world.desk().claim([Rate.kind()], 1)
    await world.desk().finish([Done(lease=Renewal(job=lease.job, fence=lease.fence))])
    return msgspec.json.decode(blobs.open(msgspec.json.decode(lease.body, type=Rate).tally), type=RatingInput)


def test_players_of_long_ago_leave_the_counts(tmp_path: Path) -> None:
    """Each is rated after its last match; later ratings cost no more however many models there were, and the oldest
    champion that is remembered keeps the Elo that it had."""

    async def story(world: World) -> None:
        roles, count = await world.roles(), _PLAYERS_MAX + 8
        await begin(world)
        models = await promote_many(world, count)
        champion = changed(LINE, champion=models[-1], generation=count)
        await world.keep(champion)
        async with world.store.begin() as tx:
            state = await ratings.ratings_of(tx, VARIANT)
            elo = Interval(value=70.0, lower=60.0, upper=80.0)
            await RATINGS.put(tx, [changed(state, periods=(changed(state.periods[0], elo=elo), *state.periods[1:]))])

        before, after = await rated(world, roles), await rated(world, roles)

        assert len(before.tally.meetings) == count
        remembered = set(models[-_PERIODS_MAX:])
        met = {player.weights for row in after.tally.meetings for player in (row.one, row.other)}
        assert met == remembered
        assert {name for name in after.summarized if name in models} == {*remembered, START}
        assert after.anchors == ((Player(weights=models[-_PERIODS_MAX], settings="s"), 70.0),)

    play(tmp_path, story)


def test_few_players_stay_whoever_they_are(tmp_path: Path) -> None:
    """As long as ratings cost little, models that were rejected are rated again with all others."""

    async def story(world: World) -> None:
        roles = await world.roles()
        await begin(world)
        models = await promote_many(world, _PLAYERS_MAX - 1)
        await world.keep(changed(LINE, champion=models[-1]))

        for _ in range(2):
            assert len((await rated(world, roles)).tally.meetings) == _PLAYERS_MAX - 1

    play(tmp_path, story)
