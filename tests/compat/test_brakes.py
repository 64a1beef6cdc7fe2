"""The documented brakes brake: the loop of this program obeys them, and every documented view says so."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from compat.subscribers import QUICK, async_test, home
from ringrift.events.pipeline import Opened
from ringrift.jobs import JobFilter, Purpose
from ringrift.kernel.errors import LimitReached
from ringrift.node import Node
from ringrift.pipeline import challenge
from ringrift.pipeline.line import DECISIONS, LINES
from ringrift.store.ports import JobRow, Reads
from ringrift.work.desk import cancel
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import load_run_states, set_run_state
from ringrift_compat import embedded_host
from ringrift_compat.coordinators import bootstrap
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.task_coordinator import TaskCoordinator, can_spawn
from ringrift_compat.tasks.task_lifecycle import get_task_stats
from ringrift_compat.tasks.training_coordinator import (
    async_can_train,
    async_release_training,
    async_request_training,
    training_slot,
)
from wait import wait_until

__all__ = ["home"]

VARIANT, SECONDS_MAX, GRACE_SECONDS = "hex8_2p", 30.0, 1.0
LOOP = (
    QUICK
    + f"""
[work]
workload = "fake"
slots = 2
lease_seconds = 1.2
rescue_seconds = 0.2
grace_seconds = {GRACE_SECONDS}
params = {{ fake_slow_seconds = SLOW, fake_stage = "STAGE" }}
[replicas]
copies_min = 1
[policy]
games_per_batch = 10
games_per_export = 20
[policy.gate]
blocks_min = 4
blocks_max = 32
elo_0 = -200.0
elo_1 = 0.0
[policy.budget]
share = 0.5
start = 1.0
"""
)
"""A loop that promotes nearly every candidate, and whose jobs of one stage take long."""
T = TypeVar("T")


async def start(home: Path, stage: str = "play", seconds: float = 0.0) -> Node:
    """The node of this program with a loop on it, in which every job of *stage* takes *seconds* longer."""
    (home / "ringrift.toml").write_text(LOOP.replace("SLOW", str(seconds)).replace("STAGE", stage))
    bootstrap.initialize_all_coordinators(auto_trigger_pipeline=True)
    node = embedded_host.get_host(embedded.node())
    assert node is not None
    await embedded.post(node.router.publish_many([Opened(variant=VARIANT, workload="fake")], source="test"))
    return node


async def query(read: Callable[[Reads], Coroutine[Any, Any, T]]) -> T:
    """What *read* finds in the store."""

    async def ask() -> T:
        async with embedded.node().store.read() as view:
            return await read(view)

    return await embedded.post(ask())


async def running(kind: str = "") -> list[JobRow]:
    """The jobs that run, or only those of *kind*."""
    rows = await query(lambda view: view.jobs(("claimed",), 100))
    return [row for row in rows if kind in ("", row.kind)]


async def starts(kind: str) -> int:
    """How often a job of *kind* has been started."""
    states = ("ready", "claimed", "done", "dead", "cancelled")
    return sum(row.fence for row in await query(lambda view: view.jobs(states, 10_000)) if row.kind == kind)


async def promotions() -> list[str]:
    """Every model that became champion, in order."""
    decisions = await query(lambda view: DECISIONS.all(view, "variant", VARIANT))
    return [decision.model for decision in decisions if decision.promoted]


async def until(holds: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Wait until a condition holds."""

    async def is_true() -> bool:
        return bool(await holds())

    await wait_until(is_true, SECONDS_MAX)


async def call(verb: Callable[..., T], *arguments: Any) -> T:
    """Call a documented function that waits, as a program without a loop would."""
    return await asyncio.to_thread(verb, *arguments)


@async_test
async def test_emergency_stop_stops_running_jobs(home: Path) -> None:
    """A training that would take a minute is given back within its grace, no attempt used up; resume starts it."""
    await start(home, "train", 60.0)
    coordinator = TaskCoordinator.get_instance()
    await until(lambda: running("train"))
    assert await starts("train") == 1

    await call(coordinator.emergency_stop, "smoke")

    await wait_until(_is_idle, GRACE_SECONDS + 10.0)
    assert await starts("train") == 1
    [row] = await query(lambda view: view.jobs(("ready",), 100))
    assert (row.kind, row.attempts) == ("train", 0)
    state = (await query(load_run_states)).by_scope["cluster"]
    assert (state.state, state.reason, state.by.startswith("process ")) == ("emergency", "smoke", True)
    await call(coordinator.resume)
    await until(_is_training)
    assert await starts("train") == 2, "the worker that was asked to stop has not taken another start with it"


async def _is_training() -> bool:
    return any(row.progress > 0 for row in await running("train"))


async def _is_idle() -> bool:
    return not await running()


@async_test
async def test_no_promotion_happens_under_emergency_stop(home: Path) -> None:
    """A loop that promotes all the time stands still, and promotes again after resume."""
    await start(home)
    coordinator = TaskCoordinator.get_instance()
    await wait_until(lambda: _has_promoted(2), SECONDS_MAX)
    await call(coordinator.emergency_stop, "a bad champion")
    at_the_stop = await promotions()
    await wait_until(_is_idle, GRACE_SECONDS + 10.0)
    # The pipeline has read everything that was published before and during the stop.
    await until(_is_pipeline_up_to_date)

    assert await promotions() == at_the_stop
    line = await query(lambda view: LINES.get(view, VARIANT))
    assert line is not None
    assert line.champion == at_the_stop[-1]
    await call(coordinator.resume)
    await wait_until(lambda: _has_promoted(len(at_the_stop) + 2), SECONDS_MAX)
    models = await promotions()
    assert len(models) == len(set(models))


async def _is_pipeline_up_to_date() -> bool:
    readers = await query(lambda view: view.readers())
    return all(row.behind == 0 for row in readers if row.reader == "pipeline")


@async_test
async def test_a_candidate_that_won_is_promoted_once_after_the_emergency(home: Path) -> None:
    """Its match is won, the emergency holds it, and resume promotes that model once, on that evidence."""
    await start(home)
    coordinator = TaskCoordinator.get_instance()
    await until(promotions)
    await _set_promotion("paused")
    await until(_winner)
    model, before = await _winner(), await promotions()
    await call(coordinator.emergency_stop, "a bad champion")
    await _set_promotion("running")
    await wait_until(_is_idle, GRACE_SECONDS + 10.0)
    await _cancel_matches()
    await until(_is_pipeline_up_to_date)

    assert await promotions() == before
    assert await _winner() == model
    await call(coordinator.resume)
    await wait_until(lambda: _has_promoted(len(before) + 1), SECONDS_MAX)
    assert (await promotions())[len(before)] == model
    assert (await promotions()).count(model or "") == 1


async def _set_promotion(state: str) -> None:
    """Let the loop promote, or not, through the run state of that stage."""
    node = embedded.node()

    async def write() -> None:
        async with node.store.begin() as tx:
            now = node.clock.now()
            await set_run_state(tx, node.envelopes, scope="stage:promote", state=state, by="a test", now=now)

    await embedded.post(write())


async def _cancel_matches() -> None:
    """Take away the matches that wait: no more blocks come, so that only the resumption can decide."""
    node = embedded.node()

    async def write() -> None:
        async with node.store.begin() as tx:
            await cancel(tx, JobFilter(variant=VARIANT, purpose=Purpose.PROMOTION), node.envelopes)

    await embedded.post(write())


async def _winner() -> str | None:
    """The candidate, once it has won its match."""
    line = await query(lambda view: LINES.get(view, VARIANT))
    candidate = line.candidate if line is not None else None
    test = candidate.challenge if candidate is not None else None
    return candidate.model if candidate and test and challenge.outcome(test, 2).decided else None


async def _has_promoted(count: int) -> bool:
    return len(await promotions()) >= count


@async_test
async def test_a_held_training_slot_keeps_the_loop_from_training(home: Path) -> None:
    """While a program holds the slot the loop queues its training and says why; after the release it trains."""
    node = await start(home)
    slot = None
    while slot is None:
        slot = await async_request_training("hex8", 2, timeout=5.0)
    trained = await starts("train")

    await until(lambda: _waits_to_train())

    assert await starts("train") == trained
    assert await running("train") == []
    [verdict] = {verdict.rule: verdict for verdict in await _refusals()}.values()
    assert (verdict.gate, verdict.allowed, verdict.value, verdict.limit) == ("claim.train", False, 1, 1)
    assert VARIANT in verdict.rule
    assert await async_release_training(slot)
    await until(lambda: _has_started(trained + 1))
    assert node.supervisor is not None


async def _refusals() -> list[Any]:
    verdicts = await query(lambda view: VERDICTS.all(view, "variant", VARIANT))
    return [verdict for verdict in verdicts if verdict.gate == "claim.train"]


async def _waits_to_train() -> bool:
    ready = await query(lambda view: view.jobs(("ready",), 100))
    return any(row.kind == "train" for row in ready) and bool(await _refusals())


async def _has_started(count: int) -> bool:
    return await starts("train") >= count


@async_test
async def test_a_training_of_the_loop_takes_the_slot_of_programs(home: Path) -> None:
    """While the loop trains a variant, no program can, and every documented view shows that training."""
    await start(home, "train", 60.0)
    await until(lambda: running("train"))

    assert not await async_can_train("hex8", 2)
    assert await async_can_train("square8", 2, node_id="elsewhere")
    assert await async_request_training("hex8", 2) is None
    allowed, reason = await call(can_spawn, "training", embedded.node().settings.node.id)
    assert (allowed, "tasks of type training on node" in reason) == (False, True)
    coordinator = TaskCoordinator.get_instance()
    [task] = [task for task in await call(coordinator.get_tasks) if task.type == "training"]
    assert (task.variant, task.node, task.metadata["job"]) == (VARIANT, embedded.node().settings.node.id, "train")
    stats = await call(coordinator.get_stats)
    assert (stats["by_type"]["training"], stats["running"], stats["registered"]) == (1, stats["jobs"], 0)
    assert (await call(get_task_stats))["by_type"]["training"] == 1
    await call(coordinator.emergency_stop)
    await wait_until(_is_idle, GRACE_SECONDS + 10.0)
    assert [task for task in await call(coordinator.get_tasks) if task.type == "training"] == []


@pytest.mark.parametrize("verb", ["pause", "drain", "emergency_stop"])
def test_every_documented_brake_binds_programs_too(verb: str) -> None:
    """No task and no training slot is admitted, the refusal names the brake, and health is not healthy."""
    coordinator = TaskCoordinator.get_instance()
    getattr(coordinator, verb)("upgrade")

    with pytest.raises(LimitReached, match=r"cluster is .*: upgrade"):
        coordinator.register_task("t", "sync", "node-1")
    with training_slot("hex8", 2, timeout=0.0) as slot:
        assert slot is None
    check = coordinator.health_check()
    assert (check.healthy, "upgrade" in check.message) == (False, True)
    coordinator.resume()
    assert coordinator.register_task("t", "sync", "node-1") == "t"
    assert coordinator.health_check().healthy
