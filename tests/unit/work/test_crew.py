"""Workers are kept warm between jobs, and replaced before they go stale."""

import asyncio

import pytest

from ringrift.jobs import Play
from ringrift.kernel.errors import JobFailed
from ringrift.kernel.settings import WorkSettings
from ringrift.store.ports import Lease
from ringrift.work.crew import Crew, Hand, stale
from unit.work.hands import LoopLaunch, LoopWorker, nothing

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
def test_a_worker_goes_stale_by_jobs_or_by_growth(jobs: int, first: int, memory: int, expected: bool) -> None:
    """Many jobs, or more growth since its first job than allowed, make a worker stale; unknown memory does not."""
    hand = Hand(LoopWorker(nothing))
    hand.jobs, hand.first_memory, hand.worker.memory = jobs, first, memory

    assert stale(hand, SETTINGS) is expected


def test_a_worker_is_used_again_until_it_is_stale() -> None:
    """Four jobs need two workers if each may do three, and the first is ended with the grace period."""

    async def story() -> None:
        launch = LoopLaunch()
        crew = Crew(launch, SETTINGS)
        for _ in range(4):
            async with crew.worker():
                pass

        assert [worker.ended for worker in launch.workers] == [7.0, None]
        await crew.end()
        assert [worker.ended for worker in launch.workers] == [7.0, 7.0]

    asyncio.run(story())


def test_two_jobs_at_once_have_two_workers() -> None:
    """A worker does one job at a time."""

    async def story() -> None:
        launch = LoopLaunch()
        crew = Crew(launch, SETTINGS)
        async with crew.worker() as one, crew.worker() as two:
            assert one is not two
        async with crew.worker() as three:
            assert three in (one, two)

    asyncio.run(story())


@pytest.mark.parametrize("wrong", [JobFailed("no"), asyncio.CancelledError()], ids=["failed", "cancelled"])
def test_after_any_failure_a_worker_is_not_used_again(wrong: BaseException) -> None:
    """Whatever state a failure left it in, it is ended at once and the next job gets another."""

    async def story() -> None:
        launch = LoopLaunch()
        crew = Crew(launch, SETTINGS)
        with pytest.raises(type(wrong)):
            async with crew.worker():
                raise wrong
        async with crew.worker():
            pass

        assert [worker.ended for worker in launch.workers] == [0.0, None]

    asyncio.run(story())


def test_an_isolated_job_has_a_worker_of_its_own() -> None:
    """It neither takes a warm worker nor leaves one."""

    async def story() -> None:
        launch = LoopLaunch()
        crew = Crew(launch, SETTINGS)
        async with crew.worker() as warm:
            pass
        async with crew.worker(isolate=True) as own:
            assert own is not warm
        async with crew.worker() as again:
            assert again is warm

        assert [worker.ended for worker in launch.workers] == [None, 7.0]

    asyncio.run(story())


def test_a_worker_is_asked_with_the_nodes_parameters() -> None:
    """The spec has the lease's job and attempt, and the parameters of the settings."""

    async def story() -> None:
        job = Play(variant="hex8_2p", model="m", games=10)
        lease = Lease(
            job="j", kind="play", variant="hex8_2p", key=job.key, body=b"", holder="n", fence=1, renewals=0,
            seconds=30.0, attempts=2,
        )  # fmt: skip

        spec = Crew(LoopLaunch(), SETTINGS).spec(job, lease)

        assert (spec.job, spec.attempt, spec.params) == ("j", 2, {"visits": 32, "games": 10})

    asyncio.run(story())
