"""Traffic: transfers in virtual time that move bytes for ever, and how many of each passed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.sim.loop import SimLoop, run
from ringrift.sync.shaper import Shaper, _Reserved

KB, MB, CHUNK = 1000, 1_000_000, 1024 * 1024


def simulate(story: Callable[[Callable[..., Shaper]], Awaitable[None]]) -> None:
    """Run *story* in virtual time; what it gets makes shapers of settings."""

    async def main(loop: SimLoop) -> None:
        def make(reserved: _Reserved | None = None, **limits: Any) -> Shaper:
            return Shaper(BandwidthSettings(**limits), loop.clock("here"), reserved)

        await story(make)

    run(1, main)


class Traffic:
    """Transfers that go on for ever, and how many bytes of each passed."""

    def __init__(self, shaper: Shaper) -> None:
        self.shaper, self.passed = shaper, dict[str, int]()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def start(
        self, name: str, transfer_class: str = "mirror", host: str = "far", chunk: int = 65_536, rate: float = 0.0
    ) -> None:
        """Begin one."""
        self.passed[name] = 0
        self.tasks[name] = asyncio.get_running_loop().create_task(self._send(name, transfer_class, host, chunk, rate))

    async def _send(self, name: str, transfer_class: str, host: str, chunk: int, rate: float) -> None:
        async with self.shaper.place(host, transfer_class, rate) as place:
            while True:
                await place.take(chunk)
                self.passed[name] += chunk

    async def stop(self, *names: str) -> None:
        """End these, or all."""
        tasks = [self.tasks.pop(name) for name in names or tuple(self.tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def measure(self, seconds: float) -> Mapping[str, float]:
        """Bytes a second of each from now on."""
        before = dict(self.passed)
        await asyncio.wait(self.tasks.values(), timeout=seconds)
        return {name: (size - before[name]) / seconds for name, size in self.passed.items()}


def places_of(shaper: Shaper) -> tuple[dict[str, int], int]:
    """How many transfers have a place, by host, and how many wait for one."""
    return dict(Counter(place.host for place in shaper._open.values())), len(shaper._waiting)
