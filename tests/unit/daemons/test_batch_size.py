"""Fill gives a batch as many games as the measured speed allows in the time that is set."""

from pathlib import Path

import pytest

from ringrift.daemons.fill import fill
from ringrift.events.pipeline import Opened
from ringrift.jobs import Play, decode
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Stage
from ringrift.work.durations import JobRun, record_runs
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play


async def fill_after(world: World, runs: int, batch_seconds: float) -> set[int]:
    """The games of the jobs that fill enqueues after so many measured jobs, 0.2 s a game."""
    await world.keep(at(Stage.COLLECTING).line)
    event = Opened(variant=VARIANT, workload="fake")
    async with world.store.begin() as tx:
        await record_runs(tx, [JobRun(kind=Play.kind(), variant=VARIANT, seconds=2.0, size=10)] * runs, 1e6)
        policy = changed(POLICY, batch_seconds=batch_seconds)
        await fill(event, world.envelope(event), tx, policy=policy, envelopes=world.envelopes)
    jobs = [decode(row.kind, row.body) for row in await world.jobs("ready")]
    return {job.games for job in jobs if isinstance(job, Play)}


@pytest.mark.parametrize(("seconds", "games"), [(4.0, 20), (1.0, 5), (0.1, 2), (1000.0, 40)])
def test_batches_follow_the_measured_speed(tmp_path: Path, seconds: float, games: int) -> None:
    """The policy has 10 games: the time that is set makes it a quarter to four times as many."""

    async def story(world: World) -> None:
        assert await fill_after(world, 3, seconds) == {games}

    play(tmp_path, story)


@pytest.mark.parametrize(("runs", "seconds"), [(3, 0.0), (0, 4.0), (2, 4.0)])
def test_without_a_time_or_enough_measurements_batches_are_as_set(tmp_path: Path, runs: int, seconds: float) -> None:
    """They have the games of the policy."""

    async def story(world: World) -> None:
        assert await fill_after(world, runs, seconds) == {POLICY.games_per_batch}

    play(tmp_path, story)
