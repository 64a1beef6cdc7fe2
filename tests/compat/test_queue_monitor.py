"""The documented backpressure is measured from the store, and throttles at every level."""

import asyncio
from pathlib import Path

import pytest

from compat.subscribers import home
from ringrift.jobs import Distribute, Export, Job, Match, Sync, Verify
from ringrift.pipeline.line import Batch, Line, _BatchCounts
from ringrift.pipeline.records import save_line
from ringrift.store.ports import Put
from ringrift.work.desk import enqueue
from ringrift.work.pressure import _LEVELS, BOUNDS, PRESSURES, QueuePressure
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.queue_monitor import (
    _measure,
    check_backpressure,
    should_throttle_production,
)
from ringrift_compat.types import BackpressureLevel, QueueType

__all__ = ["home"]
V = "hex8_2p"


def wait_in_line(*jobs: Job) -> None:
    """Ask for *jobs*."""
    node = embedded.node()

    async def write() -> None:
        async with node.store.begin() as tx:
            await enqueue(tx, jobs, node.envelopes, node.clock.now())

    embedded.call(write())


def keep(line: Line) -> None:
    """Write *line* down."""
    node = embedded.node()

    async def write() -> None:
        async with node.store.begin() as tx:
            await save_line(tx, line)

    embedded.call(write())


def exports(count: int) -> list[Job]:
    """So many different exports."""
    return [Export(variant=V, batches=("b",), seed=seed) for seed in range(count)]


@pytest.mark.parametrize(
    ("count", "level"),
    list(zip((0, 10, 15, 20, 50, 75, 90, 100), BackpressureLevel, strict=True)),
    ids=[level.value for level in BackpressureLevel],
)
def test_production_slows_down_at_every_level(count: int, level: BackpressureLevel) -> None:
    """Finding 6: each of the eight levels throttles as it should, and none of them raises."""
    wait_in_line(*exports(count))

    assert check_backpressure(QueueType.EXPORT) is level
    assert should_throttle_production(QueueType.EXPORT) == (level > BackpressureLevel.NONE)
    assert (level >= BackpressureLevel.HIGH) == (count >= 75)
    assert check_backpressure(QueueType.SYNC) is BackpressureLevel.NONE, "another queue"
    assert check_backpressure() is level, "the hardest of all"


def test_each_queue_counts_its_waiting_items() -> None:
    """Jobs by their kinds, games that wait for an export, batches that wait for their copies."""
    syncs = [Sync(variant=V, blob=blob, kind_of="games", source="n") for blob in "bc"]
    match, checks = Match(variant=V, candidate="x", champion="y", first=0, count=1), [Verify(variant=V, model="x")]
    checks.append(Verify(variant=V, model="z"))
    wait_in_line(*syncs, match, *checks, Distribute(variant=V, model="x"), *exports(4))
    pending = (Batch(blob="p", games=100), Batch(blob="q", games=100))
    counts = _BatchCounts(batches=2, games=200)
    keep(Line(variant=V, workload="w", players=2, fresh=250_000, pending=pending, counts=counts))
    keep(Line(variant="hex8_3p", workload="w", players=3, fresh=100))

    depths = {"training_data": 250_100, "pending_games": 2, "evaluation": 3, "promotion": 1, "sync": 2, "export": 4}
    assert {queue: pressure.depth for queue, pressure in embedded.query(_measure).items()} == depths
    assert check_backpressure(QueueType.TRAINING_DATA) is BackpressureLevel.HARD


@pytest.mark.parametrize(("rate", "level"), [(1.0, BackpressureLevel.NONE), (1 / 1800, BackpressureLevel.STOP)])
def test_a_measured_rate_decides_instead_of_the_count(rate: float, level: BackpressureLevel) -> None:
    """Thirty exports that are done in half a minute throttle nothing; at half an hour for each they stop production."""
    node = embedded.node()
    before = QueuePressure(
        queue="export", depth=0, drain_seconds=0.0, level="none", trend="steady", since=1.0, limit=36_000.0, rate=rate
    )

    async def write() -> None:
        async with node.store.begin() as tx:
            await PRESSURES.put(tx, [before])

    embedded.call(write())
    wait_in_line(*exports(30))

    assert check_backpressure(QueueType.EXPORT) is level
    assert should_throttle_production(QueueType.EXPORT) is (level is BackpressureLevel.STOP)


def test_the_documented_levels_and_queues_are_those_of_the_loop() -> None:
    """Both are in the order of the loop, so that what a program compares is what the loop obeys."""
    assert [level.value for level in BackpressureLevel] == list(_LEVELS)
    assert [queue.value for queue in QueueType] == list(BOUNDS)


def test_the_monitor_works_on_a_running_loop() -> None:
    """The plain calls work inside a user's async code."""

    async def ask_there() -> BackpressureLevel:
        return check_backpressure(QueueType.TRAINING_DATA)

    assert asyncio.run(ask_there()) is BackpressureLevel.NONE


def test_a_store_that_cannot_be_opened_stops_production(home: Path) -> None:
    """The fill of the queues is unknown, so nothing is let through, and nothing raises."""
    (home / "coordination").mkdir()
    (home / "coordination" / "coordinator.db").write_bytes(b"this is no database, despite its name" * 100)

    assert check_backpressure(QueueType.SYNC) is BackpressureLevel.STOP
    assert should_throttle_production(QueueType.SYNC)


def test_a_record_that_cannot_be_read_stops_production() -> None:
    """An unreadable line is not an empty one."""
    node = embedded.node()

    async def spoil() -> None:
        async with node.store.begin() as tx:
            await tx.put([Put(kind="line", id=V, body=b"not a line")])

    assert check_backpressure() is BackpressureLevel.NONE
    embedded.call(spoil())

    assert check_backpressure() is BackpressureLevel.STOP


def test_an_unknown_queue_is_an_error() -> None:
    """A misspelt queue is not an empty one."""
    with pytest.raises(ValueError, match="trainingdata"):
        check_backpressure("trainingdata")
