"""Places of transfers: so many for each host and in all, the most urgent first, and none for who moves nothing."""

import asyncio
from collections.abc import Callable

import pytest

from ringrift.kernel.errors import Backpressure
from ringrift.sync.shaper import Shaper
from unit.sync.traffic import KB, MB, Traffic, places_of, simulate


def test_places_are_limited_for_each_host_and_in_all() -> None:
    """Two for a host and three in all; the next begins when one has ended."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(transfers_per_host_max=2, transfers_max=3, bytes_per_second=MB))
        for name, host in (("a", "far"), ("b", "far"), ("c", "far"), ("d", "near"), ("e", "near")):
            traffic.start(name, host=host)
        await traffic.measure(5.0)

        assert places_of(traffic.shaper) == ({"far": 2, "near": 1}, 2)
        assert traffic.passed["c"] == traffic.passed["e"] == 0
        await traffic.stop("a")
        await traffic.measure(5.0)

        assert places_of(traffic.shaper) == ({"far": 2, "near": 1}, 1)
        assert traffic.passed["c"] > 0
        await traffic.stop()

        assert places_of(traffic.shaper) == ({}, 0)

    simulate(story)


def test_the_most_urgent_gets_the_next_place() -> None:
    """Those that wait go by class, and within a class by how long they wait."""

    async def story(make: Callable[..., Shaper]) -> None:
        shaper, order = make(transfers_max=1), list[str]()

        async def move(name: str, transfer_class: str) -> None:
            async with shaper.place("far", transfer_class):
                order.append(name)
                await asyncio.sleep(0)

        waiting = [
            ("a", "mirror"),
            ("b", "mirror"),
            ("c", "second"),
            ("d", "urgent"),
            ("e", "champion"),
            ("f", "urgent"),
        ]
        async with shaper.place("far", "mirror"):
            tasks = [asyncio.ensure_future(move(*row)) for row in waiting]
            await asyncio.wait(tasks, timeout=1.0)
            assert not order
        await asyncio.gather(*tasks)

        assert order == ["d", "f", "e", "c", "a", "b"]

    simulate(story)


def test_a_place_that_is_not_used_goes_to_one_that_waits() -> None:
    """A transfer that moved nothing for its time loses its place, and waits for one when it goes on."""

    async def story(make: Callable[..., Shaper]) -> None:
        shaper = make(transfers_max=1, expiry_seconds=30.0)
        traffic = Traffic(shaper)
        async with shaper.place("slow", "urgent") as place:
            await place.take(1000)
            traffic.start("next", chunk=1000, rate=10 * KB)
            await traffic.measure(25.0)
            assert traffic.passed["next"] == 0
            await traffic.measure(10.0)
            assert traffic.passed["next"] > 0
            again = asyncio.ensure_future(place.take(1000))
            await asyncio.wait((again,), timeout=5.0)
            assert not again.done()
            await traffic.stop()
            await again

        assert places_of(shaper) == ({}, 0)

    simulate(story)


def test_a_place_that_waits_for_its_bytes_does_not_expire() -> None:
    """A slow rate is no reason to lose it."""

    async def story(make: Callable[..., Shaper]) -> None:
        shaper = make(transfers_max=1, expiry_seconds=5.0, bytes_per_second=KB)
        traffic = Traffic(shaper)
        traffic.start("slow", chunk=60 * KB)
        traffic.start("next", chunk=KB)
        await traffic.measure(50.0)

        assert (places_of(shaper)[0], traffic.passed["next"]) == ({"far": 1}, 0)
        await traffic.stop()

    simulate(story)


def test_too_many_that_wait_are_refused() -> None:
    """The queue of transfers has a limit."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(transfers_max=1))
        async with traffic.shaper.place("far", "mirror"):
            for number in range(1000):
                traffic.start(str(number))
            await traffic.measure(1.0)
            with pytest.raises(Backpressure):
                async with traffic.shaper.place("far", "urgent"):
                    pass
            await traffic.stop()

    simulate(story)
