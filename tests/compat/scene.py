"""Scene: a real store, bus, desk and daemons, and subscribers to old names that note what they get."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ringrift.cluster.alerts import EVENTS as ALERT_EVENTS
from ringrift.daemons import alert, fill, pipeline
from ringrift.events import catalog
from ringrift.events.base import Event, Unknown
from ringrift.events.pipeline import Opened
from ringrift.jobs import Job, Match, decode, purpose_of
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.settings import BusSettings, NodeSettings, Policy, Settings
from ringrift.pipeline.line import Line, Stage
from ringrift.store.ports import Lease, Renewal
from ringrift.threads import Threads
from ringrift.work.desk import Done, Fault, JobOutcome
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.router_event import EventSource, RouterEvent
from ringrift_compat.events.subscriptions import Subscriptions
from ringrift_compat.variables import PublishOptions
from unit.pipeline.story import POLICY, VARIANT, WIN, result
from unit.work.world import World, play
from wait import wait_until

Cause = Callable[["Scene"], Awaitable[None]]
_LAST_TRY = Backoff(first_seconds=1.0, seconds_max=1.0, tries=1)
_ROUNDS_MAX = 200


class Scene:
    """A world, and subscribers to *names* from :meth:`listen` on."""

    def __init__(self, world: World, names: Collection[str], folder: Path) -> None:
        self.world, self.names, self.folder = world, names, folder
        self.received: dict[str, list[RouterEvent]] = {}
        self.memory_events: set[type[Event]] = set()  # the kinds of event that need not be durable
        self._stack = AsyncExitStack()
        self._is_listening = True

    async def listen(self) -> None:
        """Subscribe to the names, each as a program does; what happened before is not heard."""
        world, threads = self.world, Threads(2, "callback")
        self._stack.callback(threads.close)
        settings = Settings(node=NodeSettings(id="here"), bus=BusSettings(poll_seconds=0.05))
        loop, options = asyncio.get_running_loop(), PublishOptions()
        parts = (settings, world.clock, world.ids, world.envelopes, world.store, world.router, loop, threads)
        node = EmbeddedNode(*parts, "app_1", frozenset(), {}, self._stack, options)
        subscriptions = node.extension(Subscriptions)
        for name in sorted(self.names):
            await subscriptions.add((EventSource.ROUTER, name, self._note(name)), loop)
        await wait_until(self._are_registered)

    def _note(self, name: str) -> Callable[[RouterEvent], Awaitable[None]]:
        async def note(event: RouterEvent) -> None:
            if self._is_listening:
                self.received.setdefault(name, []).append(event)

        return note

    async def _readers(self) -> dict[str, int]:
        async with self.world.store.read() as view:
            return {name: at for name, at in (await view.positions()).items() if name.startswith("app_1.")}

    async def _are_registered(self) -> bool:
        return len(await self._readers()) == len(self.names)

    async def _have_read_everything(self) -> bool:
        waiting = sum(subscription.waiting for subscription in self.world.router.subscriptions)
        return not waiting and all(at >= self.world.store.position for at in (await self._readers()).values())

    async def end_listening(self) -> None:
        """Wait until every subscriber has got what happened; what comes after it is not heard."""
        await wait_until(self._have_read_everything)
        self._is_listening = False

    async def end(self) -> None:
        """End the subscriptions."""
        if self._is_listening:
            await self.end_listening()
        await self.world.router.close()
        await self._stack.aclose()

    async def has(self, kind: type[Event]) -> bool:
        """Whether the log has an event of *kind*."""
        return bool(await self.world.events(kind))

    async def publish(self, event: Event) -> None:
        """Let *event* happen, as a daemon publishes it."""
        await self.world.router.publish(event)

    def publish_memory(self, event: Event) -> None:
        """Let *event* happen, as a runner publishes what need not be durable."""
        self.world.router.publish_memory(event)
        self.memory_events.add(type(event))


def names_at(cause: Cause, names: Collection[str]) -> frozenset[str]:
    """Those of *names* under which a subscriber got anything while *cause* happened."""
    return frozenset(_names_during(cause, frozenset(names)))


@cache
def _names_during(cause: Cause, names: frozenset[str]) -> frozenset[str]:
    with tempfile.TemporaryDirectory() as folder:

        async def story(world: World) -> frozenset[str]:
            scene = Scene(world, names, Path(folder))
            await cause(scene)
            await scene.end()
            return frozenset(scene.received)

        return play(Path(folder), story)


class Loop:
    """The loop of one line: the daemons pipeline, fill and alert, and a desk that ends their jobs."""

    def __init__(self, scene: Scene, **changes: Any) -> None:
        import msgspec

        self.scene, self.world = scene, scene.world
        self.policy: Policy = msgspec.structs.replace(POLICY, **changes)
        self._position = 0

    async def open(self) -> "Loop":
        """Open the line."""
        await self.publish(Opened(variant=VARIANT, workload="fake"))
        return self

    async def publish(self, event: Event) -> None:
        """Let *event* happen, and everything that follows from it."""
        await self.scene.publish(event)
        await self.settle()

    async def settle(self) -> None:
        """Hand every new event to the daemons that react to it."""
        for _ in range(_ROUNDS_MAX):
            async with self.world.store.read() as view:
                envelopes = await view.read(self._position, 100)
            if not envelopes:
                return
            for envelope in envelopes:
                event = catalog.decode(envelope.name, envelope.body)
                assert not isinstance(event, Unknown)
                self._position = envelope.position
                async with self.world.store.begin() as tx:
                    parts: dict[str, Any] = {"envelopes": self.world.envelopes}
                    if type(event) in pipeline.SPEC.on:
                        await pipeline.pipeline(event, envelope, tx, policy=self.policy, **parts)
                    if type(event) in fill.SPEC.on:
                        await fill.fill(event, envelope, tx, policy=self.policy, **parts)
                    if type(event) in ALERT_EVENTS:
                        await alert.alert(event, envelope, tx, **parts)
        raise AssertionError("the loop does not come to rest")

    async def line(self) -> Line:
        """The line as it is stored."""
        return await self.world.line(VARIANT)

    async def claim(self, kind: str, purpose: str = "") -> tuple[Lease, Job]:
        """A lease on the next job of *kind*; others of the kind that have another purpose are given back."""
        for _ in range(_ROUNDS_MAX):
            [lease] = await self.world.desk().claim({kind}, 1)
            job = decode(lease.kind, lease.body)
            if not purpose or purpose_of(job) == purpose:
                return lease, job
            await self.world.desk().fail([Fault(lease=lease, error="not this one", started=False)])
        raise AssertionError(f"no {kind} for {purpose}")

    async def finish(self, kind: str, scores: tuple[float, ...] = WIN, purpose: str = "") -> None:
        """End the next job of *kind* well."""
        lease, job = await self.claim(kind, purpose)
        self.world.clock.seconds += 1.0
        outcome = JobOutcome(events=(result(job, scores),))
        await self.world.desk().finish([Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome)])
        await self.settle()

    async def bury(self, kind: str, blob: str | None = None, purpose: str = "") -> None:
        """End the next job of *kind* for good; *blob* is at fault."""
        lease, _ = await self.claim(kind, purpose)
        await self.world.desk().fail([Fault(lease=lease, error="exit 13", retry=False, blob=blob)])
        await self.settle()

    async def lose(self, kind: str, blob: str) -> None:
        """End the last try at the next job of *kind*: no copy of its input *blob* is left."""
        lease, _ = await self.claim(kind)
        await self.world.desk(retry=_LAST_TRY).fail([Fault(lease=lease, error="no copy is left", blob=blob)])
        await self.settle()

    async def ready(self) -> list[Job]:
        """The jobs that wait, oldest first."""
        return [decode(row.kind, row.body) for row in await self.world.jobs("ready")]

    async def play_batch(self) -> None:
        """Play a batch of games and copy it."""
        await self.finish("play")
        await self.finish("sync", purpose="games")

    async def go(self, stage: Stage) -> "Loop":
        """Go on, every job done well, until *stage*."""
        for _ in range(_ROUNDS_MAX):
            if (await self.line()).stage is stage:
                return self
            jobs = [job for job in await self.ready() if job.kind() != "play"]
            if jobs:
                await self.finish(jobs[0].kind(), purpose=purpose_of(jobs[0]) if isinstance(jobs[0], Match) else "")
            else:
                await self.finish("play")
        raise AssertionError(f"never came to {stage}")


@asynccontextmanager
async def loop_at(scene: Scene, stage: Stage, promotions: int = 0, **changes: Any) -> AsyncIterator[Loop]:
    """A line in *stage* after so many promotions on evidence, and subscribers from there on."""
    loop = await Loop(scene, **changes).open()
    for _ in range(promotions):
        await loop.go(Stage.EVALUATING)
        await loop.go(Stage.DISTRIBUTING)
        await loop.go(Stage.COLLECTING)
    await loop.go(stage)
    await scene.listen()
    yield loop


def is_true(name: str) -> bool:
    """Whether one of our events has this old name."""
    return old_names.names()[name].event is not None
