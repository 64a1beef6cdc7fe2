"""Ratings are recorded by champion, and computed again when a match is decided."""

from pathlib import Path

import pytest

from ringrift.daemons.record_ratings import _Result, record_ratings
from ringrift.events.evaluation import Finished, Rated, Reviewed, Strength, Summary
from ringrift.events.model import Promoted, RolledBack
from ringrift.pipeline.ratings import BACKLOGS, RATINGS
from unit.work.world import World, play

V = "hex8_2p"
FINISHED = Finished(variant=V, candidate="c", champion="d", blocks=16, score=0.6, elo=70.0, promoted=True)
REVIEWED = Reviewed(
    variant=V, model="c", opponent="d", passed=True, blocks=16, score=0.6, elo=70.0, reason="due after 4 promotions"
)
ONE = Promoted(variant=V, model="one", generation=1, previous="zero")
BACK = RolledBack(variant=V, model="one", to="zero", generation=0, reason="review")
STRENGTH = Strength(weights="one", settings="", elo=80.0, lower=70.0, upper=90.0, blocks=9, anchored=True)
RATED = Rated(variant=V, report="r", tally="t", node="n", summary=Summary(players=2, blocks=9, strengths=(STRENGTH,)))


async def react(world: World, *events: _Result) -> None:
    """Let the daemon read *events*, an hour apart."""
    for event in events:
        world.clock.seconds += 3600.0
        async with world.store.begin() as tx:
            await record_ratings(event, world.envelope(event), tx)


@pytest.mark.parametrize("event", [FINISHED, REVIEWED])
def test_a_decision_makes_ratings_due(tmp_path: Path, event: Finished | Reviewed) -> None:
    """For its own line only."""

    async def story(world: World) -> None:
        await react(world, event)
        async with world.store.read() as view:
            backlogs = await BACKLOGS.scan(view)
        assert {variant: backlog.due for variant, backlog in backlogs.items()} == {V: True}

    play(tmp_path, story)


def test_every_champion_has_its_period_and_its_strength(tmp_path: Path) -> None:
    """One that is promoted, one that comes back, and what was computed for each."""

    async def story(world: World) -> None:
        await react(world, ONE, RATED, BACK)
        async with world.store.read() as view:
            ratings = await RATINGS.get(view, V)
        assert ratings is not None
        periods = [(period.model, period.generation, period.elo and period.elo.value) for period in ratings.periods]
        assert periods == [("one", 1, 80.0), ("zero", 0, None)]
        assert (ratings.report, ratings.summary) == ("r", RATED.summary)
        assert ratings.periods[1].since - ratings.periods[0].since == 7200.0

    play(tmp_path, story)
