"""Faults: what goes wrong in a world, drawn from its seed."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from ringrift.sim.world import MEMBERS, SETTINGS, World

_NAMES = [member.id for member in MEMBERS]
# Faults that last while others come and go: where the switch is, its name, and its values for on and off.
_LASTING: dict[str, tuple[Callable[[World, str], Any], str, Any, Any]] = {
    "store errors": (lambda world, name: world.stores[name], "error_share", 0.4, 0.0),
    "blobs away": (lambda world, name: world.blobs[name], "away", True, False),
    "no workers": (lambda world, name: world.launches[name], "is_broken", True, False),
    "disk full": (lambda world, _: world.disk, "room", 0, None),
    "stuck handler": (lambda world, _: world.probes, "stuck", True, False),
}
_KINDS = ("kill", "kill", "wipe", "pause", "pause", "cut", "drift", "wall", "stop", "corrupt", *_LASTING)
_SHARED = 0.3  # share of the disks that all nodes have in common
_IN_BODY = 0.5  # share of the pauses that fall into a transaction
_DAY_SECONDS = 86_400.0
_GRACE_MARGIN_SECONDS = 1.0


class Nemesis:
    """Injects faults into one world for a while, then heals it."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world, self._rng = world, rng
        # Every seed draws its own mixture, so that rare combinations are common in some worlds.
        self._kinds = [kind for kind in _KINDS if rng.random() < 0.7] or ["kill"]
        self.slow_stops: list[str] = []
        self.destroyed: set[str] = set()  # blobs of which a copy was destroyed
        self._lasting: list[asyncio.Task[None]] = []

    async def run(self, seconds: float) -> None:
        """One fault after another for *seconds* of virtual time, then everything is up again."""
        world, end = self._world, self._world.loop.time() + seconds
        while world.loop.time() < end:
            await asyncio.sleep(self._rng.uniform(0.3, 4.0))
            await self._inject(self._rng.choice(self._kinds), self._rng.choice(_NAMES))
        for task in self._lasting:
            task.cancel()
        for name in _NAMES:
            for place, switch, _, off in _LASTING.values():
                setattr(place(world, name), switch, off)
            world.loop.drift(name, 1.0)
        await world.until(lambda: len(world.nodes) == len(_NAMES), 30.0, "starting every node")
        world.log("no more faults: every node runs")

    async def _inject(self, kind: str, name: str) -> None:
        world, rng = self._world, self._rng
        match kind:
            case "kill" | "wipe" if name in world.nodes:
                self.destroyed.update(world.blobs[name].files if kind == "wipe" else ())
                world.kill(name, wipe=kind == "wipe")
                await asyncio.sleep(rng.uniform(0.0, 5.0))
                world.start(name)
            case "pause" if name in world.nodes:
                if rng.random() < _IN_BODY:
                    world.stores[name].pauses_in_body = True
                else:
                    world.pause(name)
                await asyncio.sleep(rng.uniform(0.2, 9.0))
                world.resume(name)
            case "cut":
                await world.cut_power()
            case "drift":
                rate = rng.uniform(0.9, 1.1)
                world.log(f"the clock of {name} runs at {rate:.3f} of real time")
                world.loop.drift(name, rate)
            case "wall":
                seconds = rng.choice((-_DAY_SECONDS, -3600.0, -1.0, 60.0, 3600.0, _DAY_SECONDS))
                world.log(f"the wall clock of {name} jumps by {seconds:g} s")
                world.loop.clock(name).offset += seconds
            case "stop" if name in world.nodes:
                lasting = any(not task.done() for task in self._lasting)
                seconds = await world.stop(name)
                if seconds > SETTINGS.work.grace_seconds + _GRACE_MARGIN_SECONDS and not lasting:
                    self.slow_stops.append(f"I17: {name} took {seconds:.2f} s to stop")
                world.start(name)
            case "corrupt" if files := world.blobs[name].files:
                blob = rng.choice(sorted(files))
                self.destroyed.add(blob)
                files[blob] = bytes([files[blob][0] ^ 1]) + files[blob][1:]
                world.log(f"a bit of blob {blob[:8]} on {name} flips")
            case _ if kind in _LASTING and name in world.nodes:
                # A disk may be one that all nodes share.
                names = _NAMES if kind == "blobs away" and rng.random() < _SHARED else [name]
                seconds = rng.uniform(1.0, 20.0)
                self._lasting += [world.loop.create_task(self._last(kind, node, seconds)) for node in names]

    async def _last(self, kind: str, name: str, seconds: float) -> None:
        """A fault that lasts: of this process of *name*, or of its disk."""
        place, switch, on, off = _LASTING[kind]
        subject = place(self._world, name)
        self._world.log(f"{kind} on {name} for {seconds:.1f} s")
        setattr(subject, switch, on)
        await asyncio.sleep(seconds)
        setattr(subject, switch, off)
