"""When a transfer has stalled: by silence, by a rate below the floor, and never by our own slowness."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.kernel.errors import NodeAway
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.wire_errors import Stalled
from ringrift.sim.loop import SimLoop
from ringrift.sync.stall import _Arrivals, _count, _find_stall, watch, watch_append
from ringrift.sync.transports.ports import Endpoint, OnBytes

LIMITS = LinkSettings(silence_seconds_max=30.0, bytes_per_second_min=1000.0, window_seconds=60.0)
ENDPOINT = Endpoint(node="far", transport="ssh")
SLOW_SECONDS = 100.0


def simulate(story: Coroutine[Any, Any, None]) -> None:
    """Run *story* under virtual time."""
    loop = SimLoop(Random(7))
    loop.run_until_complete(loop.spawn("here", story))
    loop.close()


class Sender:
    """Sends *size* bytes after each of *pauses*, and then nothing for ever or no more."""

    def __init__(self, size: int, pauses: list[float], *, hangs: bool = False) -> None:
        self._size, self._pauses, self._hangs, self.is_closed = size, pauses, hangs, False

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for seconds in self._pauses:
                await asyncio.sleep(seconds)
                yield bytes(self._size)
            if self._hangs:
                await asyncio.Event().wait()
        finally:
            self.is_closed = True


def test_a_sender_that_falls_silent_is_left_after_the_time_that_it_may_be() -> None:
    """Not before, not much later; its connection is closed, and the error is that of a node that is away."""

    async def story() -> None:
        sender, loop, sizes = Sender(10_000, [1.0, 29.0], hangs=True), asyncio.get_running_loop(), list[int]()

        async def read() -> None:
            async for chunk in watch(sender.chunks(), LIMITS, ENDPOINT):
                sizes.append(len(chunk))

        with pytest.raises(Stalled, match="no bytes for 30 s") as caught:
            await read()
        assert isinstance(caught.value, NodeAway)
        assert (caught.value.node, caught.value.transport) == ("far", "ssh")
        assert (sizes, round(loop.time()), sender.is_closed) == ([10_000, 10_000], 60, True)

    simulate(story())


def test_a_sender_below_the_floor_is_left_after_a_window() -> None:
    """It sends all the time, and too little."""

    async def story() -> None:
        sender, loop = Sender(900, [1.0] * 1000), asyncio.get_running_loop()
        with pytest.raises(Stalled, match="900 bytes/s over 60 s, below 1000"):
            assert not [chunk async for chunk in watch(sender.chunks(), LIMITS, ENDPOINT)]
        assert (round(loop.time()), sender.is_closed) == (60, True)

    simulate(story())


def test_a_fast_start_does_not_pay_for_a_slow_rest() -> None:
    """The rate is that of a window, not of the whole."""

    async def story() -> None:
        sender, loop = Sender(10_000_000, [1.0] * 60), asyncio.get_running_loop()
        slow = Sender(900, [1.0] * 1000)

        async def both() -> AsyncIterator[bytes]:
            for part in (sender, slow):
                async for chunk in part.chunks():
                    yield chunk

        with pytest.raises(Stalled):
            assert not [chunk async for chunk in watch(both(), LIMITS, ENDPOINT)]
        assert round(loop.time()) == 120

    simulate(story())


def test_time_that_the_reader_takes_does_not_count() -> None:
    """A limit of ours makes it slow: 10 bytes/s for ten hours, and nothing stalls."""

    async def story() -> None:
        sender = Sender(1000, [0.1] * 360)
        async for _ in watch(sender.chunks(), LIMITS, ENDPOINT):
            await asyncio.sleep(SLOW_SECONDS)  # of virtual time
        assert sender.is_closed

    simulate(story())


class FileWriter:
    """A transport that writes *size* bytes after each of *pauses*."""

    name = "rsync"

    def __init__(self, size: int, pauses: list[float]) -> None:
        self._size, self._pauses, self.has_ended = size, pauses, False

    async def append(self, endpoint: Endpoint, blob: str, part: Path, on_bytes: OnBytes) -> None:
        """Sleep and count."""
        try:
            for seconds in self._pauses:
                await asyncio.sleep(seconds)
                on_bytes(self._size)
        finally:
            self.has_ended = True


@pytest.mark.parametrize(("size", "pauses", "seconds"), [(10_000, [5.0, 40.0], 35), (900, [1.0] * 999, 60)])
def test_a_transport_that_writes_files_itself_is_watched_alike(size: int, pauses: list[float], seconds: int) -> None:
    """By the bytes that it reports; it has ended before the error is raised."""

    async def story() -> None:
        writer, loop = FileWriter(size, pauses), asyncio.get_running_loop()
        with pytest.raises(Stalled):
            await watch_append(writer, ENDPOINT, "b", Path(), lambda size: None, LIMITS)
        assert writer.has_ended
        assert loop.time() == pytest.approx(seconds, abs=3.5)

    simulate(story())


def test_a_transport_that_works_is_not_disturbed() -> None:
    """Slow, but above both limits."""

    async def story() -> None:
        writer, sizes = FileWriter(100_000, [28.0] * 100), list[int]()
        await watch_append(writer, ENDPOINT, "b", Path(), sizes.append, LIMITS)
        assert sum(sizes) == 10_000_000

    simulate(story())


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 29)), max_size=200))
def test_whatever_arrives_the_two_limits_decide(steps: list[tuple[int, float]]) -> None:
    """A stall is silence for its time or a window below the floor; without either there is none."""
    arrivals, silence, window_bytes, window_seconds = _Arrivals(), 0.0, 0, 0.0
    for size, seconds in steps:
        arrivals = _count(arrivals, size, seconds, LIMITS)
        silence = 0.0 if size else silence + seconds
        window_bytes, window_seconds = window_bytes + size, window_seconds + seconds
        is_slow = window_seconds >= 60 and window_bytes < 1000 * window_seconds
        assert bool(_find_stall(arrivals, LIMITS)) == (silence >= 30 or is_slow)
        if silence >= 30 or is_slow:
            return
        if window_seconds >= 60:
            window_bytes, window_seconds = 0, 0.0
