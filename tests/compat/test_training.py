"""The documented training slots: one for each variant, counted with all tasks, awaited or not."""

import asyncio

import pytest

from compat.ears import home, on_a_loop
from ringrift.kernel.errors import RingriftError
from ringrift.pipeline.records import verdicts_of
from ringrift_compat import training
from ringrift_compat.ambient import ambient
from ringrift_compat.tasks import TaskStatus, can_spawn, get_coordinator
from ringrift_compat.training import (
    async_can_train,
    async_release_training,
    async_request_training,
    async_training_slot,
    async_update_progress,
    can_train,
    get_training_bridge,
    get_training_coordinator,
    release_training_slot,
    request_training_slot,
    training_slot,
    update_training_progress,
)

__all__ = ["home"]


def test_there_is_one_slot_for_a_variant() -> None:
    """While one node trains it no other one may; another variant on another node may."""
    assert can_train("hex8", 2)
    job = request_training_slot("hex8", 2, "v2", {"why": "test"})
    assert job is not None

    assert not can_train("hex8", 2, node_id="other")
    assert request_training_slot("hexsmall", 2, node_id="other") is None
    assert can_train("hex8", 3, node_id="other")
    assert release_training_slot(job, "completed", 0.5, 1600.0)
    assert not release_training_slot(job)
    found = get_training_coordinator().get_job(job)
    assert found is not None
    assert found.status is TaskStatus.COMPLETED
    expected = {"config_key": "hex8_2p", "model_version": "v2", "why": "test", "final_elo": 1600.0}
    assert expected.items() <= found.metadata.items()
    assert can_train("hex8", 2, node_id="other")


def test_slots_are_tasks_under_the_same_limits() -> None:
    """One training on a node and three in the cluster, whoever asks and by whichever name."""
    slots = [request_training_slot("hex8", players, node_id=f"node-{players}") for players in (2, 3, 4)]
    assert all(slots)

    assert request_training_slot("square8", 2, node_id="node-5") is None
    assert not can_spawn("training", "node-5")[0]
    assert get_coordinator().count_tasks("training") == 3
    status = get_training_coordinator().get_status()
    assert (status["active_jobs"], status["max_concurrent"]) == (3, 3)
    assert status["configs"] == ["hex8_2p", "hex8_3p", "hex8_4p"]
    assert "tasks for training hex8_2p: 1 of 1" in get_training_coordinator().why_not("hex8", 2)
    get_coordinator().complete_task(str(slots[0]))
    assert request_training_slot("square8", 2, node_id="node-5")
    assert request_training_slot("square8", 3, node_id="node-5") is None


def test_a_refused_slot_leaves_its_verdict() -> None:
    """``ringrift why`` of the variant can say what its training waits for."""
    request_training_slot("hex8", 2)
    request_training_slot("square8", 2)

    async def read() -> list[str]:
        async with ambient.node().store.read() as view:
            return [str(verdict) for verdict in await verdicts_of(view, "square8_2p")]

    here = ambient.node().settings.node.id
    assert ambient.call(read()) == [f"task.training: waits — tasks of type training on node {here}: 1 of 1"]


def test_progress_is_noted() -> None:
    """Whatever it is called; one that has no slot is told so."""
    job = str(request_training_slot("hex8", 2))

    assert update_training_progress(job, epochs_completed=3, best_val_loss=0.5)
    [task] = get_training_coordinator().get_active_jobs()
    assert (task.metadata["epochs_completed"], task.metadata["best_val_loss"]) == (3, 0.5)
    assert not update_training_progress("nobody", epochs_completed=1)


def test_a_body_has_the_slot_while_it_runs() -> None:
    """It gets the id, or None where there is none in time; what it raises is how the training ended."""
    with training_slot("hex8", 2, "v2", timeout=5) as job:
        assert job is not None
        with training_slot("hex8", 2, timeout=0.1) as none:
            assert none is None
    with pytest.raises(ValueError, match="nan"), training_slot("hex8", 2):
        raise ValueError("nan")

    assert [task.status.value for task in get_coordinator().get_tasks(status=None)] == ["completed", "failed"]


def test_a_variant_that_nobody_plays_is_refused() -> None:
    """A board or a number of players that no document knows takes no slot."""
    with pytest.raises(ValueError, match="chess"):
        request_training_slot("chess", 2)
    with pytest.raises(RingriftError):
        request_training_slot("hex8", -1)


@on_a_loop
async def test_slots_can_be_awaited() -> None:
    """The same slots, without keeping the loop; who waits gets the next one."""
    job = await async_request_training("hex8", 2)
    assert job is not None
    assert await async_update_progress(job, epoch=1)
    assert not await async_can_train("hex8", 2)
    assert not can_train("hex8", 2)

    waiting = asyncio.ensure_future(async_request_training("hex8", 2, timeout=30.0))
    await asyncio.sleep(0)
    assert await async_release_training(job)
    second = await waiting
    assert second is not None
    assert await get_training_bridge().release_training(second)
    async with async_training_slot("hex8", 2) as third:
        assert third is not None
    assert await async_can_train("hex8", 2)


def test_one_coordinator_for_a_program() -> None:
    """Asked for twice it is the same, also by the documented names."""
    assert get_training_coordinator() is training.TrainingCoordinator.get_instance()
    assert get_training_coordinator().can_train("hex8", 2)
