"""What programs reserve: granted by class and age within the limits, ended when it is not renewed."""

from pathlib import Path

import pytest

from ringrift.kernel.errors import Backpressure
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.kernel.value import changed
from ringrift.sync.reservations import _RESERVATIONS, Reservation, Reservations, _choose
from unit.work.world import World, play

LIMITS = BandwidthSettings(transfers_per_host_max=2, transfers_max=3, hosts={"far": 100.0})


def row(
    id: str, host: str = "far", transfer_class: str = "second", rate: float = 10.0, **fields: object
) -> Reservation:
    """A reservation that waits."""
    blank = Reservation(
        id=id, host=host, transfer_class=transfer_class, bytes_per_second=rate, owner="me", seconds=30.0
    )
    return changed(blank, **fields)


def names(rows: list[Reservation]) -> list[str]:
    """Their ids."""
    return [row.id for row in rows]


def test_the_most_urgent_and_then_the_oldest_is_granted() -> None:
    """By class and number, as many as fit for the host and in all."""
    rows = [
        row("a", number=1),
        row("b", number=2),
        row("c", transfer_class="urgent", number=3),
        row("d", "near", number=4),
    ]

    assert names(_choose(rows, LIMITS, 0.0)) == ["c", "a", "d"]


def test_none_passes_one_that_waits_before_it() -> None:
    """A small one does not go before a large one that waits for the same host, but one for another host does."""
    rows = [row("large", rate=70.0, number=2), row("small", rate=1.0, number=3), row("other", "near", number=4)]

    assert names(_choose([row("a", rate=40.0, granted=True), *rows], LIMITS, 0.0)) == ["other"]


def test_the_total_holds_all_back() -> None:
    """What does not fit into the rate of all hosts waits, and so do those after it."""
    rows = [row("a", "x", rate=60.0, number=1), row("b", "y", rate=60.0, number=2), row("c", "z", rate=1.0, number=3)]

    assert names(_choose(rows, LIMITS, 100.0)) == ["a"]


def test_one_alone_is_always_granted() -> None:
    """Asking for more than there is means to wait until nothing else moves, not for ever."""
    assert names(_choose([row("a", rate=5000.0)], LIMITS, 100.0)) == ["a"]


def test_what_is_not_renewed_ends(tmp_path: Path) -> None:
    """Its place goes to one that waits; who comes back has to ask again."""

    async def story(world: World) -> None:
        reservations = Reservations(world.store, world.clock)
        limits = BandwidthSettings(transfers_max=1)
        for id in ("a", "b"):
            await reservations.request(row(id))
        first = await reservations.settle("a", limits)
        second = await reservations.settle("b", limits)
        assert first is not None
        assert second is not None
        assert (first.granted, second.granted) == (True, False)
        assert await reservations.in_force() == {"far": 10.0}
        for _ in range(4):
            world.clock.seconds += 10.0
            second = await reservations.settle("b", limits)

        assert second is not None
        assert second.granted
        assert await reservations.settle("a", limits) is None
        assert names(await reservations.rows()) == ["b"]
        released = await reservations.release("b")
        assert released is not None
        assert await reservations.release("b") is None
        assert await reservations.in_force() == {}

    play(tmp_path, story)


def test_what_is_renewed_stays(tmp_path: Path) -> None:
    """As long as its holder renews it in time, others wait."""

    async def story(world: World) -> None:
        reservations, limits = Reservations(world.store, world.clock), BandwidthSettings(transfers_max=1)
        for id in ("a", "b"):
            await reservations.request(row(id))
        for _ in range(6):
            world.clock.seconds += 20.0
            first, second = await reservations.settle("a", limits), await reservations.settle("b", limits)

        assert first is not None
        assert second is not None
        assert (first.granted, second.granted) == (True, False)

    play(tmp_path, story)


def test_the_rows_of_a_dead_process_end_at_once(tmp_path: Path) -> None:
    """No time has to pass."""

    async def story(world: World) -> None:
        dead: set[str] = set()
        reservations = Reservations(world.store, world.clock, dead.__contains__)
        await reservations.request(row("a", owner="killed", granted=True))
        assert await reservations.in_force() == {"far": 10.0}
        dead.add("killed")

        assert await reservations.in_force() == {}

    play(tmp_path, story)


def test_the_queue_has_a_limit(tmp_path: Path) -> None:
    """Beyond it a request is refused, and leaves nothing."""

    async def story(world: World) -> None:
        reservations = Reservations(world.store, world.clock)
        async with world.store.begin() as tx:
            await _RESERVATIONS.put(tx, [row(f"r{number}") for number in range(1000)])
        with pytest.raises(Backpressure):
            await reservations.request(row("more"))

        assert len(await reservations.rows()) == 1000

    play(tmp_path, story)
