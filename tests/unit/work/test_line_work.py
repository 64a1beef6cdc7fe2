"""A job runs with the workload and parameters of its line, on a node that can run it, and waits if it is unreadable."""

import asyncio
from pathlib import Path

import pytest

from ringrift.events.work import Buried
from ringrift.jobs import Play, Sync, Train
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import changed
from ringrift.store.ports import Origin, Renewal
from ringrift.work.breakers import BREAKERS, StoredBreaker
from ringrift.work.claims import _refuse_missing
from ringrift.work.desk import Done, Fault, StoreDesk
from ringrift.work.durations import JobRun
from ringrift.work.limits import LINE_WORK, VERDICTS, LineWork
from ringrift.work.run_states import BY_RUN, set_run_state
from ringrift.work.worker_pool import WorkerPool
from unit.work.loop_workers import LoopLaunch, LoopWorker
from unit.work.test_runner import runner, running
from unit.work.world import World, play
from wait import wait_until

OURS, THEIRS = "hex8_2p", "chess_2p"
MODEL = "m" * 64
LINES = {OURS: LineWork(workload="fake"), THEIRS: LineWork(workload="chess", params={"depth": 3})}


def job(variant: str, seed: int = 0) -> Play:
    """A job of *variant*."""
    return Play(variant=variant, model=MODEL, games=5, seed=seed)


async def settle(world: World) -> None:
    """Store which workload does the jobs of each line."""
    async with world.store.begin() as tx:
        await LINE_WORK.put_at(tx, LINES)


def desk(world: World, **missing: str) -> tuple[StoreDesk, list[str]]:
    """A desk on which these workloads cannot run, each with its reason, and the names that it has looked for."""
    names: list[str] = []

    async def find(workload: str) -> str:
        names.append(workload)
        return missing.get(workload, "")

    return StoreDesk(world.store, world.clock, world.envelopes, WorkSettings(), find), names


def test_a_node_leaves_jobs_of_a_workload_that_it_cannot_run(tmp_path: Path) -> None:
    """With a verdict that why prints; it is looked for once, and the jobs of other lines are claimed."""

    async def story(world: World) -> None:
        await settle(world)
        ours, names = desk(world, chess="it is not installed")
        await ours.enqueue([job(THEIRS), job(OURS)])

        leases = [*await ours.claim(["play"], 9), *await ours.claim(["play"], 9)]

        async with world.store.read() as view:
            verdict = await VERDICTS.get(view, f"{THEIRS}:claim.play:here")
        assert [lease.variant for lease in leases] == [OURS]
        assert sorted(names) == ["chess", "fake"]
        assert verdict is not None
        assert verdict.rule == "node here cannot run workload chess: it is not installed"
        able, _ = desk(world)
        assert [lease.variant for lease in await able.claim(["play"], 9)] == [THEIRS]

    play(tmp_path, story)


def test_a_node_moves_the_files_of_every_line() -> None:
    """Copies need no workload; everything that runs in a worker does."""
    refused = _refuse_missing(LINES, {"chess": "gone", "fake": ""}, ["play", "rate", "sync", "distribute"], "n", 1.0)

    assert set(refused) == {("play", THEIRS), ("rate", THEIRS)}


def test_a_node_that_only_moves_files_looks_for_no_workload(tmp_path: Path) -> None:
    """Looking for one imports it."""

    async def story(world: World) -> None:
        await settle(world)
        ours, names = desk(world)
        await ours.enqueue([Sync(variant=THEIRS, blob=MODEL, kind_of="games", source="")])

        assert len(await ours.claim(["sync", "distribute"], 9)) == 1
        assert names == []

    play(tmp_path, story)


def test_a_job_gets_the_workload_and_params_of_its_line(tmp_path: Path) -> None:
    """Whatever its node was started with; a line without settings gets those of the node."""

    async def story(world: World) -> None:
        await settle(world)
        launch, started = LoopLaunch(), list[str]()
        start = launch.start

        async def record(workload: str) -> LoopWorker:
            started.append(workload)
            return await start(workload)

        launch.start = record  # type: ignore[method-assign]  # it also notes the name
        settings = WorkSettings(slots=3, workload="mine", params={"sims": 9})
        ours = StoreDesk(world.store, world.clock, world.envelopes, settings)
        await ours.enqueue([job(THEIRS), job(OURS), job("square8_2p")])
        async with running(runner(world, launch, settings, desk=ours)):
            await wait_until(lambda: sum(len(worker.specs) for worker in launch.workers) == 3)

        specs = {spec.variant: dict(spec.params) for worker in launch.workers for spec in worker.specs}
        assert sorted(started) == ["chess", "fake", "mine"]
        assert specs[THEIRS] == {"depth": 3, "games": 5}
        assert specs[OURS] == {"games": 5}
        assert specs["square8_2p"] == {"sims": 9, "games": 5}

    play(tmp_path, story)


def test_workers_are_of_one_workload_and_no_more_than_the_slots() -> None:
    """A warm worker is used for its own workload only; the one that was idle for longest makes room for another's."""

    async def story() -> None:
        launch = LoopLaunch()
        pool = WorkerPool(launch, WorkSettings(slots=2, grace_seconds=7.0))
        async with pool.worker("a") as a, pool.worker("b") as b:
            pass
        async with pool.worker("a") as again:
            assert again is a
        async with pool.worker("c"):
            assert [worker.ended for worker in launch.workers] == [None, 7.0, None]
        async with pool.worker("b") as other:
            assert other is not b

        assert len([worker for worker in launch.workers if worker.ended is None]) <= 2

    asyncio.run(story())


def test_the_breaker_of_a_workload_stops_its_own_lines_only(tmp_path: Path) -> None:
    """Also where the node was started with that workload."""

    async def story(world: World) -> None:
        await settle(world)
        ours, _ = desk(world)
        breaker = StoredBreaker(subject="workload:fake", state=BreakerState.OPEN, failures=3, opened=1, error="died")
        async with world.store.begin() as tx:
            await BREAKERS.put(tx, [breaker])
        await ours.enqueue([job(OURS), job(THEIRS)])

        assert [lease.variant for lease in await ours.claim(["play"], 9)] == [THEIRS]

    play(tmp_path, story)


def test_a_failure_counts_for_the_workload_of_its_line(tmp_path: Path) -> None:
    """Not for that of the node's settings."""

    async def story(world: World) -> None:
        await settle(world)
        ours, _ = desk(world)
        await ours.enqueue([job(THEIRS)])
        [lease] = await ours.claim(["play"], 1)
        await ours.fail([Fault(lease=lease, error="exit 13", cause="child_died")])

        async with world.store.read() as view:
            subjects = {row.subject for row in await BREAKERS.all(view)}
        assert {"workload:chess"} == {subject for subject in subjects if subject.startswith("workload")}

    play(tmp_path, story)


async def refuse(world: World, maker: tuple[str, str] | None, blob: str | None = MODEL) -> list[Buried]:
    """Let version 2 of chess refuse a job whose model *maker* has made; what was buried."""
    await settle(world)
    if maker is not None:
        async with world.store.begin() as tx:
            facts = {"kind": "model", "variant": THEIRS, "workload": maker[0], "version": maker[1]}
            await tx.put_origins([Origin(blob=MODEL, node="n", **facts)])
    ours, _ = desk(world)
    await ours.enqueue([job(THEIRS)])
    [lease] = await ours.claim(["play"], 1)
    await ours.fail([Fault(lease=lease, error="bad header", retry=False, blob=blob, version="2")])
    return [event for event in await world.events(Buried) if isinstance(event, Buried)]


@pytest.mark.parametrize("blob", [MODEL, None])
@pytest.mark.parametrize("maker", [("chess", "1"), ("reversi", "2")])
def test_what_cannot_be_read_here_makes_a_job_wait(tmp_path: Path, maker: tuple[str, str], blob: str | None) -> None:
    """A refusal of a file of another workload or version is no burial: no try is used, and a verdict says who made it.

    So is one that names no file, if the job has such an input.
    """

    async def story(world: World) -> None:
        assert await refuse(world, maker, blob) == []

        [row] = await world.jobs("ready")
        async with world.store.read() as view:
            verdict = await VERDICTS.get(view, f"{THEIRS}:read.play")
        assert (row.attempts, row.pause > 0) == (0, True)
        assert verdict is not None
        assert verdict.rule == f"made by {' '.join(maker)}, not readable by chess 2: bad header"

    play(tmp_path, story)


@pytest.mark.parametrize("maker", [("chess", "2"), None])
def test_what_its_own_maker_refuses_is_buried(tmp_path: Path, maker: tuple[str, str] | None) -> None:
    """At once, with the cause; so is a file of unknown origin."""

    async def story(world: World) -> None:
        [event] = await refuse(world, maker)

        assert (event.cause, event.blob, event.attempts) == ("refused", MODEL, 1)

    play(tmp_path, story)


def test_a_verdict_on_reading_ends_with_the_first_job_that_goes_well(tmp_path: Path) -> None:
    """The version that can read it is back."""

    async def story(world: World) -> None:
        await refuse(world, ("chess", "1"))
        [row] = await world.jobs("ready")
        async with world.store.begin() as tx:
            await tx.resume([row.id])
        ours, _ = desk(world)
        [lease] = await ours.claim(["play"], 1)
        run = JobRun(kind="play", variant=THEIRS, seconds=1.0)
        await ours.finish([Done(lease=Renewal(job=lease.job, fence=lease.fence), run=run)])

        async with world.store.read() as view:
            assert await VERDICTS.get(view, f"{THEIRS}:read.play") is None

    play(tmp_path, story)


def test_a_command_with_a_worker_of_its_own_works_on_a_line_at_rest(tmp_path: Path) -> None:
    """The run that let it rest may have been killed; a pause of a person binds the command too."""

    async def story(world: World) -> None:
        ours = world.desk()
        ids = await ours.enqueue([job(OURS), job(THEIRS)])
        async with world.store.begin() as tx:
            for variant, by in ((OURS, BY_RUN), (THEIRS, "anna")):
                scope = f"variant:{variant}"
                await set_run_state(tx, world.envelopes, now=world.clock.now(), scope=scope, state="paused", by=by)

        assert await ours.claim(["play"], 9) == []
        ours.only = frozenset(ids)
        assert [lease.variant for lease in await ours.claim(["play"], 9)] == [OURS]

    play(tmp_path, story)


def test_a_job_with_a_pause_is_not_claimed_before_it_is_over(tmp_path: Path) -> None:
    """Generation 0 that was refused is tried later, not at once: the store holds it back."""

    async def story(world: World) -> None:
        ours = world.desk()
        await ours.enqueue([changed(Train(variant=OURS, generation=0), pause_seconds=8.0)])

        assert await ours.claim(["train"], 1) == []
        [row] = await world.jobs("ready")
        assert row.pause == 8.0
        async with world.store.begin() as tx:
            await tx.resume([row.id])
        assert len(await ours.claim(["train"], 1)) == 1

    play(tmp_path, story)
