"""No game is left behind: a fleet whose machines vanish, and a coordinator whose power fails again and again."""

import shutil
from collections.abc import Awaitable, Callable
from random import Random

import msgspec
import pytest

from ringrift.daemons.audit import _SINGLE_SECONDS_MAX
from ringrift.harness import Member
from ringrift.kernel.transfer_settings import Replicas
from ringrift.pipeline.singles import find_singles
from ringrift.sim.launch import _BEATS, WorkerBehaviour, _decode_beat
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.remote_scenario import _find_lost, _judge
from ringrift.sim.remote_world import WORKERS, RemoteWorld
from ringrift.sim.scenario import watch_work
from ringrift.sim.world import SETTINGS as SIMULATED
from ringrift.sim.world import World
from ringrift.work.game_ledger import ACCOUNTS, GameAccount
from ringrift.work.runner import _REGISTER_SECONDS_MAX
from simulation.test_remote_world import pass_by, until_results

PROFILES = ["training_node"] * 2 + ["selfplay"] * 18
FLEET = tuple(Member(id=f"w{n}", profile=profile, ephemeral=True) for n, profile in enumerate(PROFILES, 1))
SETTINGS = {"policy.play_jobs_open": len(FLEET) + 4, "policy.games_per_export": 1000}  # so that they always play
MINUTES, ROUND_SECONDS = 5, 60.0
JOB_SECONDS_MAX = 8.0
UPLOAD_SECONDS_MAX = 0.3  # of a checkpoint on the network of these machines, and the start of a worker
LOST_SECONDS_MAX = JOB_SECONDS_MAX / _BEATS + _REGISTER_SECONDS_MAX + UPLOAD_SECONDS_MAX
CUTS = 50
PATIENCE_SECONDS = 60.0
Story, Record = Callable[[RemoteWorld], Awaitable[None]], Callable[[str, object], None]


def tell(story: Story, *, fleet: tuple[Member, ...], seconds: float) -> tuple[RemoteWorld, GameAccount]:
    """Tell *story* in a cluster of its own; the world and the account of its games, once every promise has held."""
    worlds, accounts = list[RemoteWorld](), list[GameAccount]()

    async def main(loop: SimLoop) -> None:
        world, violations = RemoteWorld(loop, 1, fleet=fleet, settings=SETTINGS), list[str]()
        worlds.append(world)
        world.behaviour = WorkerBehaviour(seconds_max=seconds, has_checkpoints=True)
        try:
            await world.boot()
            watch = loop.create_task(watch_work(world, violations))
            await story(world)
            await until_results(world, 1)
            watch.cancel()
            violations += await _judge(world)
            accounts.append(await world.query(lambda tx: ACCOUNTS.get(tx, "hex8_2p")))
            assert violations == []
        finally:
            world.disk.unregister()
            shutil.rmtree(world.folder, ignore_errors=True)

    run(1, main)
    return worlds[0], accounts[0]


def work_at_risk(world: RemoteWorld, name: str) -> dict[tuple[str, int], float]:
    """By lease how many seconds of its work would be lost if *name* vanished now."""
    rows, tick = dict[tuple[str, int], float](), world.loop.clock(name).tick()
    for job in world.workers[name].runner._jobs.values():
        if job.phase == "running" and job.job.kind() == "play":
            blob = job.registered
            since = job.started_at if blob is None else _decode_beat(world.blobs[name].files[blob])[1]
            rows[job.lease.job, job.lease.fence] = tick - since
    return rows


@pytest.mark.timeout(600)
def test_a_third_of_twenty_workers_vanishes_every_minute(record_property: Record) -> None:
    """After five minutes every acknowledged game is there, once, and each machine has cost what the bound says."""
    losses, rng = dict[tuple[str, int], float](), Random(1)

    async def story(world: RemoteWorld) -> None:
        for _ in range(MINUTES):
            seconds = rng.uniform(0.3, 0.7) * ROUND_SECONDS
            await pass_by(world, seconds)
            names = rng.sample(sorted(world.workers), len(FLEET) // 3)
            for name in names:
                losses.update(work_at_risk(world, name))
                world.kill(name, wipe=True)
            await pass_by(world, ROUND_SECONDS - seconds)
            for name in names:
                world.start(name)

    world, account = tell(story, fleet=FLEET, seconds=JOB_SECONDS_MAX)

    again = {job for _, (job, fence), _ in world.acked for lost, old in losses if (job, fence > old) == (lost, True)}
    record_property("batches", account.ingested.slots)
    record_property("seconds lost at most", f"{max(losses.values()):.2f} of {LOST_SECONDS_MAX:.2f}")
    assert account.ingested.slots >= MINUTES * ROUND_SECONDS  # at least one a second, all the time
    assert len(losses) >= len(FLEET)
    assert max(losses.values()) <= LOST_SECONDS_MAX
    assert again == {job for job, _ in losses}


@pytest.mark.timeout(600)
def test_fifty_power_cuts_lose_no_acknowledged_game(record_property: Record) -> None:
    """The power of the coordinator fails as soon as games have arrived, again and again."""
    rng = Random(1)

    async def story(world: RemoteWorld) -> None:
        for _ in range(CUTS):
            enough = len(world.acked) + rng.randint(1, 8)
            await world.until(lambda: len(world.acked) >= enough, PATIENCE_SECONDS, "more games")  # noqa: B023 - now
            await pass_by(world, rng.uniform(0.0, 1.0))
            await world.cut_power()
            assert await world.query(lambda tx: _find_lost(tx, world)) == []

    world, account = tell(story, fleet=WORKERS, seconds=1.0)

    record_property("batches", account.ingested.slots)
    assert sum("power cut" in line for line in world.story) == CUTS
    assert account.ingested.slots >= 2 * CUTS


@pytest.mark.timeout(600)
def test_a_second_durable_copy_follows_within_a_minute(record_property: Record) -> None:
    """With the settings that users get; one machine that may vanish plays along."""
    ages, since = [0.0], dict[str, float]()

    async def main(loop: SimLoop) -> None:
        defaults = {f"replicas.{name}": value for name, value in msgspec.structs.asdict(Replicas()).items()}
        world = World(loop, 1, settings=SIMULATED.overlaid(defaults))
        world.behaviour = WorkerBehaviour()
        try:
            await world.boot()
            end = loop.time() + 2 * ROUND_SECONDS
            while loop.time() < end:
                await pass_by(world, 0.5)
                rows = await world.query(lambda tx: find_singles(tx, list(world.nodes))) or []
                singles = {row.blob for row in rows if row.can_be_copied}
                since.update({blob: loop.time() for blob in singles.difference(since)})
                ages.extend(loop.time() - since[blob] for blob in singles)
        finally:
            world.disk.unregister()

    run(1, main)
    record_property("seconds with one copy at most", f"{max(ages):.1f}")
    assert len(since) >= 20
    assert max(ages) <= _SINGLE_SECONDS_MAX
