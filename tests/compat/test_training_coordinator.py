"""The documented training slots: one for each variant, counted with all tasks, awaited or not."""

import asyncio

import pytest

from compat.subscribers import async_test, home
from ringrift.kernel.errors import RingriftError
from ringrift.work.limits import VERDICTS
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.task_coordinator import TaskCoordinator, can_spawn
from ringrift_compat.tasks.training_coordinator import (
    async_can_train,
    async_release_training,
    async_request_training,
    release_training_slot,
    request_training_slot,
    training_slot,
)

__all__ = ["home"]


def can_train(board: str, players: int, node_id: str | None = None) -> bool:
    """Return whether a training could begin now."""
    return embedded.call(async_can_train(board, players, node_id=node_id))


def test_a_variant_has_one_slot() -> None:
    """While one node trains it no other one may; another variant on another node may."""
    assert can_train("hex8", 2)
    job = request_training_slot("hex8", 2, "v2", {"why": "test"})
    assert job is not None

    assert not can_train("hex8", 2, node_id="other")
    assert request_training_slot("hexsmall", 2, node_id="other") is None
    assert can_train("hex8", 3, node_id="other")
    assert release_training_slot(job, "completed", final_val_loss=0.5, final_elo=1600.0)
    assert not release_training_slot(job)
    [task] = TaskCoordinator().get_tasks(status="completed")
    expected = {"config_key": "hex8_2p", "model_version": "v2", "why": "test", "final_elo": 1600.0}
    assert expected.items() <= task.metadata.items()
    assert can_train("hex8", 2, node_id="other")


def test_slots_are_tasks_under_the_same_limits() -> None:
    """One training on a node and three in the cluster, for every caller and under every name."""
    slots = [request_training_slot("hex8", players, node_id=f"node-{players}") for players in (2, 3, 4)]
    assert all(slots)

    assert request_training_slot("square8", 2, node_id="node-5") is None
    assert not can_spawn("training", "node-5")[0]
    assert TaskCoordinator().get_stats()["by_type"] == {"training": 3}
    TaskCoordinator().complete_task(str(slots[0]))
    assert request_training_slot("square8", 2, node_id="node-5")
    assert request_training_slot("square8", 3, node_id="node-5") is None


def test_a_refused_slot_leaves_its_verdict() -> None:
    """``ringrift why`` of the variant can show what its training waits for."""
    request_training_slot("hex8", 2)
    request_training_slot("square8", 2)

    async def read() -> list[str]:
        async with embedded.node().store.read() as view:
            return [str(verdict) for verdict in await VERDICTS.all(view, "variant", "square8_2p")]

    here = embedded.node().settings.node.id
    assert embedded.call(read()) == [f"task.training: waits — tasks of type training on node {here}: 1 of 1"]


def test_a_body_holds_the_slot_while_it_runs() -> None:
    """It gets the id, or None if no slot is free in time; its error is the end of the training."""
    with training_slot("hex8", 2, "v2", timeout=5) as job:
        assert job is not None
        with training_slot("hex8", 2, timeout=0.1) as none:
            assert none is None
    with pytest.raises(ValueError, match="nan"), training_slot("hex8", 2):
        raise ValueError("nan")

    assert [task.state for task in TaskCoordinator().get_tasks(status=None)] == ["completed", "failed"]


def test_an_unknown_variant_is_refused() -> None:
    """A board or a number of players that no document lists takes no slot."""
    with pytest.raises(ValueError, match="chess"):
        request_training_slot("chess", 2)
    with pytest.raises(RingriftError):
        request_training_slot("hex8", -1)


@async_test
async def test_slots_can_be_awaited() -> None:
    """The same slots, without blocking the loop; a waiter gets the next one."""
    job = await async_request_training("hex8", 2)
    assert job is not None
    assert not await async_can_train("hex8", 2)

    waiting = asyncio.ensure_future(async_request_training("hex8", 2, timeout=30.0))
    await asyncio.sleep(0)
    assert await async_release_training(job)
    second = await waiting
    assert second is not None
    assert await async_release_training(second)
    assert await async_can_train("hex8", 2)
