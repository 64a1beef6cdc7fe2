"""The bound on what a machine that vanishes can lose: the work since its last checkpoint that was registered."""

import asyncio
from pathlib import Path

import msgspec

from ringrift.store.ports import Reads, Renewal
from ringrift.work.checkpoints import CHECKPOINTS, Checkpoint
from ringrift.work.desk import Fault
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.runner import _REGISTER_SECONDS_MAX
from ringrift.work.running_job import last_checkpoint
from ringrift.workload.api import JobResult, JobSpec
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_emergency import SETTINGS, job
from unit.work.test_runner import runner, running
from unit.work.world import World, play

CHECKPOINTS_MADE, EVERY_SECONDS = 200, 0.7
LOOK_SECONDS = 0.05


def test_a_checkpoint_is_registered_within_half_a_second(tmp_path: Path) -> None:
    """However long the lease is: another node can go on from there, so no more than that and its own rhythm is lost."""

    async def story(world: World) -> None:
        loop, made, lags = asyncio.get_running_loop(), dict[str, float](), dict[str, float]()

        async def checkpointing(worker: LoopWorker, spec: JobSpec, report: ReportProgress) -> JobResult:
            for number in range(CHECKPOINTS_MADE):
                name = f"{number:064x}"
                world.clock.seconds = 1_000.0 + loop.time()
                made[name] = loop.time()
                report(Progress(number / CHECKPOINTS_MADE, {}, name))
                await asyncio.sleep(EVERY_SECONDS)
            return JobResult()

        async def registered(view: Reads) -> set[str]:
            return set(await CHECKPOINTS.scan(view))

        await world.desk().enqueue([job("v")])
        async with running(own := runner(world, LoopLaunch(checkpointing), SETTINGS, wait=asyncio.sleep)):
            while len(made) < CHECKPOINTS_MADE or not own.is_idle:
                await asyncio.sleep(LOOK_SECONDS)
                async with world.store.read() as view:
                    for name in await registered(view) - lags.keys():
                        lags[name] = loop.time() - made[name]

        assert len(lags) >= CHECKPOINTS_MADE - 1, "the last one may be overtaken by the result"
        assert max(lags.values()) <= _REGISTER_SECONDS_MAX + LOOK_SECONDS

    play(tmp_path, story, simulated=True)


def test_the_next_holder_begins_with_what_was_registered(tmp_path: Path) -> None:
    """A machine that vanishes after that has not lost it."""
    checkpoint = Checkpoint(blob="ab" * 32, node="here")

    async def story(world: World) -> None:
        [lease] = await world.claim(job("v"))
        outputs = msgspec.json.encode([checkpoint])
        await world.desk().renew([Renewal(job=lease.job, fence=lease.fence, outputs=outputs)])
        await world.desk().fail([Fault(lease=lease, error="it has vanished", cause="lost", started=False)])
        [again] = await world.desk("other").claim({lease.kind}, 1)

        assert (again.job, last_checkpoint(again)) == (lease.job, checkpoint)

    play(tmp_path, story)
