"""Requests that come close together share a moment, and one that comes alone does not wait."""

import asyncio

from ringrift.coordinator.together import _SECONDS, Together
from ringrift.sim.loop import SimLoop, run


def test_whoever_comes_alone_passes_at_once() -> None:
    """Also the next one, if it comes later than the window."""

    async def main(loop: SimLoop) -> None:
        together = Together()
        for _ in range(3):
            before = loop.time()
            await together.wait()
            assert loop.time() == before
            await asyncio.sleep(2 * _SECONDS)

    run(1, main)


def test_those_that_come_close_together_go_on_together() -> None:
    """Ten within a window: the first at once, all others at one later moment; then it begins anew."""

    async def main(loop: SimLoop) -> None:
        together, passed = Together(), list[float]()

        async def come(number: int) -> None:
            await asyncio.sleep(number * _SECONDS / 20)
            await together.wait()
            passed.append(loop.time())

        begun = loop.time()
        await asyncio.gather(*(come(number) for number in range(10)))
        assert len({round(time, 4) for time in passed}) == 2
        assert _SECONDS <= max(passed) - begun < 1.01 * _SECONDS

    run(1, main)


def test_one_that_is_cancelled_leaves_the_others_their_moment() -> None:
    """They go on when it comes."""

    async def main(_: SimLoop) -> None:
        together = Together()
        await together.wait()
        first, second = (asyncio.ensure_future(together.wait()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()

    run(1, main)
