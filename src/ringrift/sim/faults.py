"""Faults: what goes wrong in a world, drawn from its seed."""

import asyncio
from random import Random

from ringrift.sim.world import MEMBERS, SETTINGS, World

_NAMES = [member.id for member in MEMBERS]
_KINDS = ("kill", "kill", "wipe", "pause", "pause", "cut", "drift", "wall", "stop", "corrupt")
_GRACE_MARGIN_SECONDS = 1.0


class Nemesis:
    """Injects faults into one world for a while, then heals it."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world, self._rng = world, rng
        # Every seed draws its own mixture, so that rare combinations are common in some worlds.
        self._kinds = [kind for kind in _KINDS if rng.random() < 0.7] or ["kill"]
        self.slow_stops: list[str] = []

    async def run(self, seconds: float) -> None:
        """One fault after another for *seconds* of virtual time, then everything is up again."""
        world, end = self._world, self._world.loop.time() + seconds
        while world.loop.time() < end:
            await asyncio.sleep(self._rng.uniform(0.3, 4.0))
            await self._inject(self._rng.choice(self._kinds), self._rng.choice(_NAMES))
        for name in _NAMES:
            world.loop.resume(name)
            world.loop.drift(name, 1.0)
            await self._restore(name)
        world.log("no more faults: every node runs")

    async def _inject(self, kind: str, name: str) -> None:
        world, rng = self._world, self._rng
        match kind:
            case "kill" | "wipe" if name in world.nodes:
                world.kill(name, wipe=kind == "wipe")
                await asyncio.sleep(rng.uniform(0.0, 5.0))
                world.start(name)
            case "pause" if name in world.nodes:
                world.log(f"{name} is paused (SIGSTOP)")
                world.loop.pause(name)
                await asyncio.sleep(rng.uniform(0.2, 9.0))
                world.loop.resume(name)
                world.log(f"{name} resumes")
            case "cut":
                await world.cut_power()
            case "drift":
                rate = rng.uniform(0.9, 1.1)
                world.log(f"the clock of {name} runs at {rate:.3f} of real time")
                world.loop.drift(name, rate)
            case "wall":
                seconds = rng.choice((-3600.0, -1.0, 60.0, 3600.0))
                world.log(f"the wall clock of {name} jumps by {seconds:g} s")
                world.loop.clock(name).offset += seconds
            case "stop" if name in world.nodes:
                seconds = await world.stop(name)
                if seconds > SETTINGS.work.grace_seconds + _GRACE_MARGIN_SECONDS:
                    self.slow_stops.append(f"I17: {name} took {seconds:.2f} s to stop")
                world.start(name)
            case "corrupt" if files := world.blobs[name].files:
                blob = rng.choice(sorted(files))
                files[blob] = bytes([files[blob][0] ^ 1]) + files[blob][1:]
                world.log(f"a bit of blob {blob[:8]} on {name} flips")

    async def _restore(self, name: str) -> None:
        world = self._world
        for _ in range(50):
            if name in world.nodes:
                return
            await asyncio.sleep(0.2)
        world.kill(name)
        world.start(name)
        await world.until(lambda: name in world.nodes, 20.0, f"starting {name}")
