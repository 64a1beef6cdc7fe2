"""Faults of a cluster over the wire: processes, machines and the network between them, drawn from the seed."""

import asyncio
from random import Random

from ringrift.sim.network import Link
from ringrift.sim.remote_world import COORDINATOR, PROCESSES, WORKERS, RemoteWorld

_WORKERS = [member.id for member in WORKERS]
_KINDS = ("kill", "kill", "vanish", "pause", "stop", "lead", "lead", "hang", "power", "clock", "errors")
_NETWORK = ("cut", "cut", "cut one way", "rough", "rough", "rough")
_DAY_SECONDS = 86_400.0
_HUNG_SECONDS = 7.0  # after which a coordinator that hangs must have been noticed, whatever clocks do


class RemoteNemesis:
    """Injects faults into one world for a while, then heals it."""

    def __init__(self, world: RemoteWorld, rng: Random) -> None:
        self._world, self._rng = world, rng
        # Every seed draws its own mixture, so that rare combinations are common in some worlds.
        self._kinds = [kind for kind in _KINDS + _NETWORK if rng.random() < 0.6] or ["cut", "lead"]
        self._lasting: list[asyncio.Task[None]] = []

    async def run(self, seconds: float) -> None:
        """One fault after another for *seconds* of virtual time, then everything is up again."""
        world, end = self._world, self._world.loop.time() + seconds
        while world.loop.time() < end:
            await asyncio.sleep(self._rng.uniform(0.3, 2.5))
            await self._inject(self._rng.choice(self._kinds), self._rng.choice(_WORKERS))
        for task in self._lasting:
            task.cancel()
        for name in (*PROCESSES, *_WORKERS):
            world.network.heal(name)
        for store in world.stores.values():
            store.error_share = 0.0
        for name in (COORDINATOR.id, *_WORKERS):
            world.loop.drift(name, 1.0)
        await world.until(world.is_whole, 30.0, "starting every process")
        world.log("no more faults: every process runs")

    async def _inject(self, kind: str, name: str) -> None:
        world, rng = self._world, self._rng
        holder = world.holder[0] if world.holder else PROCESSES[0]
        match kind:
            case "kill" | "vanish" if name in world.workers:
                world.kill(name, wipe=kind == "vanish")
                await asyncio.sleep(rng.uniform(0.0, 4.0))
                world.start(name)
            case "pause" if name in world.workers:
                await self._pause(name)
            case "stop" if name in world.workers:
                await world.stop(name)
                world.start(name)
            case "lead" if holder in world.nodes:
                world.kill(holder)
                await asyncio.sleep(rng.uniform(0.0, 4.0))
                world.start(holder)
            case "hang" if holder in world.nodes:
                await self._pause(holder)
            case "power":
                await world.cut_power()
            case "clock":
                host = rng.choice((COORDINATOR.id, name))
                rate, seconds = rng.uniform(0.9, 1.1), rng.choice((-_DAY_SECONDS, -1.0, 3600.0))
                world.log(f"the clock of {host} runs at {rate:.3f} of real time and jumps by {seconds:g} s")
                world.loop.drift(host, rate)
                world.loop.clock(host).offset += seconds
            case "errors" if holder in world.nodes:
                self._last(kind, holder)
            case "cut" | "cut one way" | "rough":
                self._last(kind, name)

    async def _pause(self, name: str) -> None:
        """Stop a process for a while.  The standby of one that leads tells, and kills it if it may."""
        world, seconds, start = self._world, self._rng.uniform(0.2, 9.0), self._world.starts[name]
        reports, is_watched = len(world.reports), name in PROCESSES and bool(world.waiting)
        world.pause(name)
        await asyncio.sleep(seconds)
        if is_watched and seconds > _HUNG_SECONDS and len(world.reports) == reports:
            world.late.append(f"nobody noticed that {name} hung for {seconds:.1f} s")
        if world.starts[name] != start:
            return  # its standby has killed it
        if is_watched and seconds > _HUNG_SECONDS and world.kill_hung:
            world.late.append(f"{name} hung for {seconds:.1f} s, and its standby did not take over")
        world.resume(name)

    def _last(self, kind: str, name: str) -> None:
        """Begin a fault that lasts while others come and go."""
        self._lasting.append(self._world.loop.create_task(self._suffer(kind, name, self._rng.uniform(0.5, 9.0))))

    async def _suffer(self, kind: str, name: str, seconds: float) -> None:
        world, rng, network = self._world, self._rng, self._world.network
        world.log(f"{kind} on {name} for {seconds:.1f} s")
        match kind:
            case "errors":
                world.stores[name].error_share = 0.3
            case "rough":
                loss, delay, duplicates = rng.uniform(0.0, 0.4), rng.uniform(0.0, 0.5), rng.uniform(0.0, 0.5)
                network.links[name] = Link(delay_seconds_max=delay, loss=loss, duplicates=duplicates)
            case _:
                to = rng.random() < 0.5
                for process in PROCESSES:
                    ends = (process, name) if to else (name, process)
                    network.cut(*ends, both_ways=kind == "cut")
        await asyncio.sleep(seconds)
        if kind == "errors":
            world.stores[name].error_share = 0.0
        else:
            network.heal(name)
