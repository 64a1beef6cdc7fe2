"""Faults: what goes wrong in a world, drawn from its seed."""

import asyncio
from random import Random

from ringrift.sim.world import MEMBERS, SETTINGS, World

NAMES = [member.id for member in MEMBERS]
KINDS = ("kill", "kill", "wipe", "pause", "pause", "cut", "drift", "wall", "stop", "corrupt")
GRACE_MARGIN_SECONDS = 1.0


class Nemesis:
    """Breaks one world for a while, and knows what it has broken."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world, self._rng = world, rng
        # Every seed draws its own mixture, so that rare combinations are common in some worlds.
        self._kinds = [kind for kind in KINDS if rng.random() < 0.7] or ["kill"]
        self.slow_stops: list[str] = []

    async def rage(self, seconds: float) -> None:
        """One fault after another for *seconds* of virtual time, then everything is up again."""
        world, end = self._world, self._world.loop.time() + seconds
        while world.loop.time() < end:
            await asyncio.sleep(self._rng.uniform(0.3, 4.0))
            await self._strike(self._rng.choice(self._kinds), self._rng.choice(NAMES))
        for name in NAMES:
            world.loop.resume(name)
            world.loop.drift(name, 1.0)
            await self._restore(name)
        world.say("healed")

    async def _strike(self, kind: str, name: str) -> None:
        world, rng = self._world, self._rng
        match kind:
            case "kill" | "wipe" if name in world.nodes:
                world.kill(name, wipe=kind == "wipe")
                await asyncio.sleep(rng.uniform(0.0, 5.0))
                world.start(name)
            case "pause" if name in world.nodes:
                world.say(f"pause {name}")
                world.loop.pause(name)
                await asyncio.sleep(rng.uniform(0.2, 9.0))
                world.loop.resume(name)
                world.say(f"resume {name}")
            case "cut":
                await world.cut()
            case "drift":
                world.loop.drift(name, rng.uniform(0.9, 1.1))
            case "wall":
                world.loop.step_wall(name, rng.choice((-3600.0, -1.0, 60.0, 3600.0)))
            case "stop" if name in world.nodes:
                took = await world.stop(name)
                if took > SETTINGS.work.grace_seconds + GRACE_MARGIN_SECONDS:
                    self.slow_stops.append(f"I17: {name} took {took:.2f} s to stop")
                world.start(name)
            case "corrupt":
                self._flip(name)

    def _flip(self, name: str) -> None:
        """Flip a bit of a file at rest."""
        files = self._world.blobs[name].files
        if files:
            blob = self._rng.choice(sorted(files))
            files[blob] = bytes([files[blob][0] ^ 1]) + files[blob][1:]
            self._world.say(f"a bit of {blob[:8]} on {name} flips")

    async def _restore(self, name: str) -> None:
        world = self._world
        for _ in range(50):
            if name in world.nodes:
                return
            await asyncio.sleep(0.2)
        world.kill(name)
        world.start(name)
        await world.until(lambda: name in world.nodes, 20.0, f"starting {name}")
