"""Workers stay warm between jobs, and are replaced before they are worn out."""

import asyncio

import pytest

from ringrift.kernel.errors import JobFailed
from ringrift.kernel.settings import WorkSettings
from ringrift.work.worker_pool import WorkerPool, _PooledWorker
from unit.work.loop_workers import LoopLaunch, LoopWorker, nothing

SETTINGS = WorkSettings(jobs_per_child=3, child_growth_bytes_max=1000, grace_seconds=7.0, params={"visits": 32})


@pytest.mark.parametrize(
    ("jobs", "first", "memory", "expected"),
    [
        (0, 0, 0, False),
        (2, 100, 100, False),
        (3, 100, 100, True),
        (9, 100, 100, True),
        (1, 100, 1100, False),
        (1, 100, 1101, True),
        (1, 0, 10**9, False),
        (1, 5000, 100, False),
    ],
)
def test_a_worker_is_worn_out_by_jobs_or_by_growth(jobs: int, first: int, memory: int, expected: bool) -> None:
    """Many jobs, or more growth since its first job than allowed, wear a worker out; unknown memory does not."""
    pooled = _PooledWorker(LoopWorker(nothing), "fake")
    pooled.jobs, pooled.first_memory, pooled.worker.memory = jobs, first, memory

    assert pooled.is_worn_out(SETTINGS) is expected


def test_a_worker_is_used_again_until_it_is_worn_out() -> None:
    """Four jobs need two workers if each may do three, and the first is ended with the grace period."""

    async def story() -> None:
        launch = LoopLaunch()
        pool = WorkerPool(launch, SETTINGS)
        for _ in range(4):
            async with pool.worker("fake"):
                pass

        assert [worker.ended for worker in launch.workers] == [7.0, None]
        await pool.end()
        assert [worker.ended for worker in launch.workers] == [7.0, 7.0]

    asyncio.run(story())


def test_two_jobs_at_once_have_two_workers() -> None:
    """A worker does one job at a time."""

    async def story() -> None:
        launch = LoopLaunch()
        pool = WorkerPool(launch, SETTINGS)
        async with pool.worker("fake") as one, pool.worker("fake") as two:
            assert one is not two
        async with pool.worker("fake") as three:
            assert three in (one, two)

    asyncio.run(story())


@pytest.mark.parametrize("error", [JobFailed("no"), asyncio.CancelledError()], ids=["failed", "cancelled"])
def test_after_any_failure_a_worker_is_not_used_again(error: BaseException) -> None:
    """A worker is ended at once after every failure and the next job gets another."""

    async def story() -> None:
        launch = LoopLaunch()
        pool = WorkerPool(launch, SETTINGS)
        with pytest.raises(type(error)):
            async with pool.worker("fake"):
                raise error
        async with pool.worker("fake"):
            pass

        assert [worker.ended for worker in launch.workers] == [0.0, None]

    asyncio.run(story())


def test_an_isolated_job_has_a_worker_of_its_own() -> None:
    """It neither takes a warm worker nor leaves one."""

    async def story() -> None:
        launch = LoopLaunch()
        pool = WorkerPool(launch, SETTINGS)
        async with pool.worker("fake") as warm:
            pass
        async with pool.worker("fake", isolate=True) as own:
            assert own is not warm
        async with pool.worker("fake") as again:
            assert again is warm

        assert [worker.ended for worker in launch.workers] == [None, 7.0]

    asyncio.run(story())


def test_a_worker_that_was_asked_to_stop_is_not_used_again() -> None:
    """It ends after its job by itself, so that the next job gets another, also where the job has ended well."""

    async def story() -> None:
        launch = LoopLaunch()
        pool = WorkerPool(launch, SETTINGS)
        async with pool.worker("fake", was_stopped=lambda: True) as first:
            pass
        async with pool.worker("fake") as second:
            assert second is not first

        assert [worker.ended for worker in launch.workers] == [7.0, None]

    asyncio.run(story())
