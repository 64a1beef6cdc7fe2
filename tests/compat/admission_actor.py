"""Another process of a cluster: claims jobs, registers tasks and sets brakes on the store of a test, line by line."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import Any

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.jobs import Play, Train
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import StoreSettings, WorkSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Lease, Renewal, Store
from ringrift.work import processes
from ringrift.work.desk import Done, Fault, StoreDesk
from ringrift.work.run_states import set_run_state
from ringrift.work.tasks import HostTick, Limit, Task
from ringrift_compat.tasks.task_admission import Admission
from ringrift_compat.tasks.task_limits import TaskLimits

KINDS = ("play", "train")


class Member:
    """One node and one program of the cluster, in this process."""

    def __init__(self, store: Store, node: str) -> None:
        clock = SystemClock()
        process = processes.find(os.getpid())
        assert process is not None
        self._store, self._clock, self._node, self._process = store, clock, node, process
        self._envelopes = EnvelopeFactory(node, clock, Ids(clock, SystemRandom()))
        self._desk = StoreDesk(store, clock, self._envelopes, WorkSettings())
        self._tasks = Admission(store, clock, process.host, self._envelopes)

    async def enqueue(self, kind: str, variant: str, seed: int) -> None:
        """Enqueue one job."""
        play = Play(variant=variant, model="m", games=1, seed=seed)
        job = play if kind == "play" else Train(variant=variant, generation=1, seed=seed)
        await self._desk.enqueue([job])

    async def claim(self, limit: int) -> int:
        """Claim jobs."""
        return len(await self._desk.claim(KINDS, limit))

    async def _leases(self) -> list[Lease]:
        async with self._store.read() as view:
            rows = await view.jobs(("claimed",), 100, holder=self._node)
        names = ("kind", "variant", "key", "body", "holder", "fence", "renewals", "seconds", "attempts")
        return [Lease(job=row.id, **{name: getattr(row, name) for name in names}) for row in rows]

    async def finish(self, index: int) -> None:
        """Finish one of our jobs."""
        if leases := await self._leases():
            lease = leases[index % len(leases)]
            await self._desk.finish([Done(lease=Renewal(job=lease.job, fence=lease.fence))])

    async def fail(self, index: int) -> None:
        """Give one of our jobs back."""
        if leases := await self._leases():
            await self._desk.fail([Fault(lease=leases[index % len(leases)], error="x", started=False)])

    async def recover(self) -> None:
        """Revoke the leases that an earlier process of this node left behind."""
        await self._desk.revoke_own("it started again", started=True)

    async def admit(self, id: str, type: str, variant: str, node: str) -> None:
        """Register a task of this process, which may run on any node."""
        beat_at = HostTick(host=self._process.host, tick=0.0)
        task = Task(id=id, type=type, node=node, variant=variant, process=self._process, beat_at=beat_at)
        await self._tasks.admit(task)

    async def beat(self, id: str) -> None:
        """Send a beat for a task."""
        await self._tasks.beat([id])

    async def end(self, id: str, end: str) -> None:
        """End a task."""
        await self._tasks.finish(id, end)

    async def sweep(self) -> int:
        """End the tasks of dead processes."""
        return len(await self._tasks.sweep())

    async def brake(self, scope: str, state: str, seconds: float | None) -> None:
        """Set a run state."""
        now = self._clock.now()
        until = None if seconds is None or state == "running" else now + seconds
        async with self._store.begin() as tx:
            await set_run_state(tx, self._envelopes, scope=scope, state=state, until=until, now=now)

    async def limits(self, selfplay: list[int], training: list[int]) -> None:
        """Store limits: of the node and the cluster, without rates that matter."""
        rows = dict.fromkeys(("selfplay", "gpu_selfplay", "hybrid_selfplay"), selfplay) | {"training": training}
        table = {type: Limit(node_max=node, cluster_max=cluster) for type, (node, cluster) in rows.items()}
        fast = dict.fromkeys(("spawns_per_minute_max", "selfplay_spawns_per_minute_max", "burst_max"), 1000)
        await self._tasks.set_limits(TaskLimits(table=TaskLimits().table | table, selfplay_burst_max=1000, **fast))


async def _serve(stack: AsyncExitStack) -> None:
    member: Member | None = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *arguments = json.loads(line)
        answer: Any
        if verb == "open":
            await stack.aclose()
            path, node = arguments
            store = await stack.enter_async_context(open_store(StoreSettings(path=path), SystemClock()))
            member, answer = Member(store, node), "open"
        else:
            method: Callable[..., Awaitable[Any]] = getattr(member, verb)
            try:
                answer = await method(*arguments)
            except RingriftError as error:
                answer = type(error).__name__
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


async def main() -> None:
    """Obey until the input ends."""
    async with AsyncExitStack() as stack:
        await _serve(stack)


if __name__ == "__main__":
    asyncio.run(main())
