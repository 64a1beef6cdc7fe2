"""There is one Elo: over generation 0, computed from all blocks that count, with bounds."""

from pathlib import Path

from ringrift.events.evaluation import Rated, Strength, Summary
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.ratings import RATINGS, LineRatings, RatedModel, elo_of, with_champion, with_ratings
from unit.pipeline.story import VARIANT, blob
from unit.work.world import World, play

ZERO, ONE, TWO = blob("zero"), blob("one"), blob("two")
LINE = Line(variant=VARIANT, workload="w", players=2, stage=Stage.COLLECTING, champion=ONE, generation=1)


def strength(model: str, elo: float, *, anchored: bool = True) -> Strength:
    """That *model* was rated."""
    bounds = {"elo": elo, "lower": elo - 20.0, "upper": elo + 20.0}
    return Strength(weights=model, settings="s", blocks=9, anchored=anchored, **bounds)


def rated(*strengths: Strength) -> Rated:
    """That ratings were computed."""
    summary = Summary(players=len(strengths), blocks=9, strengths=strengths)
    return Rated(variant=VARIANT, report="r", tally="t", node="n", summary=summary)


async def keep(world: World, ratings: LineRatings, line: Line = LINE) -> None:
    """Store a line and its ratings."""
    await world.keep(line)
    async with world.store.begin() as tx:
        await RATINGS.put(tx, [ratings])


async def read(world: World) -> list[RatedModel]:
    """The Elo of every player."""
    async with world.store.read() as view:
        return list(await elo_of(view, VARIANT))


def test_generation_0_has_0_before_a_block_was_played(tmp_path: Path) -> None:
    """By definition; and a store without ratings has nothing to show."""

    async def story(world: World) -> None:
        assert await read(world) == []
        start = with_champion(LineRatings(variant=VARIANT), ZERO, 0, 5.0)
        await keep(world, start, changed(LINE, champion=ZERO, generation=0))
        [row] = await read(world)
        assert (row.model, row.generation, row.since) == (ZERO, 0, 5.0)
        assert (row.elo.value, row.elo.lower, row.elo.upper) == (0.0, 0.0, 0.0)

    play(tmp_path, story)


def test_champions_come_first_and_in_their_order_then_others_by_strength(tmp_path: Path) -> None:
    """A champion that came back stands where it came back; a player without a chain to generation 0 has no Elo."""

    async def story(world: World) -> None:
        ratings = LineRatings(variant=VARIANT)
        for number, (model, generation) in enumerate([(ZERO, 0), (ONE, 1), (TWO, 2), (ONE, 1)]):
            ratings = with_champion(ratings, model, generation, float(number))
        strengths = (strength(ZERO, 0.0), strength(ONE, 80.0), strength(TWO, 150.0), strength("greedy", -90.0))
        loose = strength("uct:9", 400.0, anchored=False)
        await keep(world, with_ratings(ratings, rated(*strengths, strength("uct:200", 60.0), loose), 9.0))
        rows = await read(world)

        assert [row.model for row in rows] == [ZERO, TWO, ONE, "uct:200", "greedy"]
        assert [row.since for row in rows] == [0.0, 2.0, 3.0, None, None]
        assert [row.is_baseline for row in rows] == [False, False, False, True, True]
        assert (rows[2].elo.lower, rows[2].elo.value, rows[2].elo.upper, rows[2].blocks) == (60.0, 80.0, 100.0, 9)

    play(tmp_path, story)


def test_a_champion_of_a_moment_ago_has_none_until_ratings_are_computed(tmp_path: Path) -> None:
    """Nothing else, such as the gain of its own match, is put in its place."""

    async def story(world: World) -> None:
        ratings = with_champion(LineRatings(variant=VARIANT), ZERO, 0, 1.0)
        ratings = with_ratings(ratings, rated(strength(ZERO, 0.0)), 2.0)
        ratings = with_champion(ratings, ONE, 1, 3.0)
        await keep(world, ratings)
        assert [row.model for row in await read(world)] == [ZERO]
        await keep(world, with_ratings(ratings, rated(strength(ZERO, 0.0), strength(ONE, 75.0)), 4.0))
        assert [(row.model, row.elo.value, row.since) for row in await read(world)] == [
            (ZERO, 0.0, 1.0),
            (ONE, 75.0, 3.0),
        ]

    play(tmp_path, story)


def test_a_rejected_candidate_that_was_rated_has_its_elo_too(tmp_path: Path) -> None:
    """On the same scale, though it never was champion."""

    async def story(world: World) -> None:
        ratings = with_champion(with_champion(LineRatings(variant=VARIANT), ZERO, 0, 1.0), ONE, 1, 2.0)
        strengths = (strength(ZERO, 0.0), strength(ONE, 80.0), strength(TWO, 20.0))
        await keep(world, with_ratings(ratings, rated(*strengths), 3.0))
        assert [(row.model, row.generation, row.elo.value) for row in await read(world)] == [
            (ZERO, 0, 0.0),
            (ONE, 1, 80.0),
            (TWO, None, 20.0),
        ]

    play(tmp_path, story)
