"""The documented backpressure is measured from the store, and throttles at every level."""

import asyncio
from pathlib import Path

import pytest

from compat.ears import home
from ringrift.jobs import Distribute, Export, Job, Match, Sync, Verify
from ringrift.kernel.errors import StoreError
from ringrift.pipeline.line import Batch, Counts, Line
from ringrift.pipeline.records import save
from ringrift.store.ports import Put
from ringrift.work.desk import ask
from ringrift_compat.ambient import ambient
from ringrift_compat.levels import BackpressureLevel, QueueType
from ringrift_compat.pressure import (
    check_backpressure,
    get_queue_monitor,
    get_queue_status,
    get_throttle_factor,
    should_stop_production,
    should_throttle_production,
)

__all__ = ["home"]
V = "hex8_2p"


def wait_in_line(*jobs: Job) -> None:
    """Ask for *jobs*."""
    node = ambient.node()

    async def enqueue() -> None:
        async with node.store.begin() as tx:
            await ask(tx, jobs, node.ids, node.clock.now(), scribe=node.scribe)

    ambient.call(enqueue())


def keep(line: Line) -> None:
    """Write *line* down."""
    node = ambient.node()

    async def write() -> None:
        async with node.store.begin() as tx:
            await save(tx, line)

    ambient.call(write())


def exports(count: int) -> list[Job]:
    """So many different exports."""
    return [Export(variant=V, batches=("b",), seed=seed) for seed in range(count)]


@pytest.mark.parametrize(
    ("count", "level"),
    list(zip((0, 10, 15, 20, 50, 75, 90, 100), BackpressureLevel, strict=True)),
    ids=[level.value for level in BackpressureLevel],
)
def test_production_slows_down_at_every_level(count: int, level: BackpressureLevel) -> None:
    """Finding 6: at each of the eight levels throttling, stopping and the factor agree, and none of them raises."""
    wait_in_line(*exports(count))

    assert check_backpressure(QueueType.EXPORT) is level
    assert should_throttle_production(QueueType.EXPORT) == (level > BackpressureLevel.NONE)
    assert should_stop_production("export") == (level is BackpressureLevel.STOP)
    assert get_throttle_factor(QueueType.EXPORT) == level.factor
    assert (level >= BackpressureLevel.HIGH) == (count >= 75)
    assert check_backpressure(QueueType.SYNC) is BackpressureLevel.NONE, "another queue"
    assert check_backpressure() is level, "the hardest of all"


def test_each_queue_counts_what_waits_in_it() -> None:
    """Jobs by their kinds, games that wait for an export, batches that wait for their copies."""
    wait_in_line(
        Sync(variant=V, blob="b", kind_of="games", source="n"), Sync(variant=V, blob="c", kind_of="games", source="n"),
        Match(variant=V, candidate="x", champion="y", first=0, count=1), Verify(variant=V, model="x"),
        Verify(variant=V, model="z"), Distribute(variant=V, model="x"), *exports(4),
    )  # fmt: skip
    pending = (Batch(blob="p", games=100), Batch(blob="q", games=100))
    counts = Counts(batches=2, games=200)
    keep(Line(variant=V, workload="w", players=2, fresh=250_000, pending=pending, counts=counts))
    keep(Line(variant="hex8_3p", workload="w", players=3, fresh=100))

    monitor = get_queue_monitor()
    assert {queue.value: monitor.get_queue_depth(queue) for queue in QueueType} == {
        "sync": 2, "evaluation": 3, "promotion": 1, "export": 4, "training_data": 250_100, "pending_games": 2,
    }  # fmt: skip
    assert check_backpressure(QueueType.TRAINING_DATA) is BackpressureLevel.HARD
    status = get_queue_status(QueueType.TRAINING_DATA)
    assert (status.current_depth, status.hard_limit, status.trend) == (250_100, 500_000, "unknown")
    assert status.oldest_seconds is None
    oldest = get_queue_status("export").oldest_seconds
    assert oldest is not None
    assert 0 <= oldest < 60
    assert not monitor.health_check()
    assert monitor.health_check().message == "training_data: hard"


def test_it_can_be_asked_on_a_running_loop() -> None:
    """The plain calls work inside async code of a user's."""

    async def ask_there() -> BackpressureLevel:
        return check_backpressure(QueueType.TRAINING_DATA)

    assert asyncio.run(ask_there()) is BackpressureLevel.NONE
    assert get_queue_monitor().health_check()


def test_a_store_that_cannot_be_opened_stops_production(home: Path) -> None:
    """Nobody knows how full the queues are, so nothing is let through, and nothing raises."""
    (home / "coordination").mkdir()
    (home / "coordination" / "coordinator.db").write_bytes(b"this is no database, whatever its name says" * 100)

    assert check_backpressure(QueueType.SYNC) is BackpressureLevel.STOP
    assert should_throttle_production(QueueType.SYNC)
    assert should_stop_production()
    assert get_throttle_factor(QueueType.SYNC) == 0.0
    assert get_queue_status(QueueType.SYNC).current_depth is None
    assert not get_queue_monitor().health_check()
    with pytest.raises(StoreError):
        get_queue_monitor().get_queue_depth(QueueType.SYNC)


def test_a_record_that_cannot_be_read_stops_production() -> None:
    """A line that nobody understands is not an empty one."""
    node = ambient.node()

    async def spoil() -> None:
        async with node.store.begin() as tx:
            await tx.put([Put(kind="line", id=V, body=b"not a line")])

    assert check_backpressure() is BackpressureLevel.NONE
    ambient.call(spoil())

    assert check_backpressure() is BackpressureLevel.STOP


def test_a_queue_that_nobody_knows_is_an_error() -> None:
    """A misspelt queue is not an empty one."""
    with pytest.raises(ValueError, match="trainingdata"):
        check_backpressure("trainingdata")
