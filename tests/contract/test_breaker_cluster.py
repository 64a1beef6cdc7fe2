"""A real cluster: a node whose workers die at every start gets no jobs, others go on, and it returns once mended."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from contract.engines import Engine
from contract.test_trust import VARIANT, batches, log, until
from ringrift.blobs.ports import Blobs
from ringrift.cluster.alerts import open_alerts
from ringrift.events.health import BreakerChanged
from ringrift.events.pipeline import Opened
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import ChildDied
from ringrift.kernel.settings import ClusterSettings, Policy, Settings
from ringrift.kernel.transfer_settings import Replicas
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import SimLaunch, WorkerBehaviour, _SimWorker
from ringrift.store.ports import Store
from ringrift.work.breakers import BREAKERS
from unit.cli.command_output import ask

MEMBERS = (Member(id="n1"), Member(id="n2", profile="selfplay"))
SETTINGS = Settings(
    cluster=ClusterSettings(beat_seconds=0.2, elect_seconds=0.1, role_seconds=1.0),
    policy=Policy(variants=(VARIANT,), games_per_batch=20, games_per_export=100_000, play_jobs_open=6),
    replicas=Replicas(copies_min=1),
).overlaid(
    {
        "work.rescue_seconds": 0.05,
        "work.retry": {"first_seconds": 0.05, "seconds_max": 0.05, "tries": 1},
        "work.breakers": {"node_failures_max": 3, "reset_seconds": 0.5},
    }
)
BAD = "n2"


class BrokenLaunch(SimLaunch):
    """Starts workers; while it *is_broken* each dies at its start, and the starts are counted."""

    def __init__(self, blobs: MemoryBlobs) -> None:
        super().__init__(blobs, Random(0), WorkerBehaviour(seconds_max=0.1))
        self.is_broken, self.deaths = False, 0

    async def start(self, workload: str) -> _SimWorker:
        if self.is_broken:
            self.deaths += 1
            raise ChildDied("the worker ended with signal 11")
        return await super().start(workload)


@asynccontextmanager
async def fleet(store: Store) -> AsyncIterator[dict[str, BrokenLaunch]]:
    """Two nodes at work on one line; the workers of one die."""
    blobs = {member.id: MemoryBlobs(member.id) for member in MEMBERS}
    launches = {name: BrokenLaunch(actual) for name, actual in blobs.items()}
    launches[BAD].is_broken = True

    async def reach(name: str) -> Blobs:
        return blobs[name]

    async with AsyncExitStack() as stack:
        for member in MEMBERS:
            own, name = settings_of(SETTINGS, member), member.id
            engines = {"store": store, "blobs": blobs[name], "reach": reach, "launch": launches[name]}
            node = await stack.enter_async_context(Node.open(own, SystemClock(), Random(name), **engines))
            await node.router.publish(Opened(variant=VARIANT, workload="fake"), id="opened")
        yield launches


async def changes(store: Store, state: str) -> list[str]:
    """The subjects whose breaker came to *state*."""
    return [event.subject for event in await log(store, BreakerChanged) if event.state == state]


async def buried(store: Store) -> list[Buried]:
    """The jobs that were given up."""
    return await log(store, Buried)


async def alerts(store: Store) -> set[tuple[str, str]]:
    """Kind and subject of every open alert."""
    async with store.read() as view:
        return {(alert.kind, alert.subject) for alert in await open_alerts(view)}


def test_a_node_whose_workers_die_stops_itself_and_returns_once_mended(engine: Engine) -> None:
    """Its breaker opens and no other's; the other node plays on; its trials fail until it is mended, then it plays."""

    async def story(store: Store) -> None:
        async with fleet(store) as launches:

            async def has_opened() -> bool:
                return f"node:{BAD}" in await changes(store, "open") and ("breaker", f"node:{BAD}") in await alerts(
                    store
                )

            await until(store, has_opened)
            assert set(await batches(store, 6)) == {"n1"}

            async def has_retried() -> bool:
                return (await changes(store, "open")).count(f"node:{BAD}") >= 2

            await until(store, has_retried)
            deaths, trials = launches[BAD].deaths, (await changes(store, "half_open")).count(f"node:{BAD}")
            slots = SETTINGS.work.slots
            # Failures in a row, those that ran beside the last of them, and one for each trial.
            assert deaths <= 3 + slots + trials
            async with store.read() as view:
                assert [row.subject for row in await BREAKERS.all(view) if row.is_open()] == [f"node:{BAD}"]

            status = (await ask(store, "status")).text
            assert f"node {BAD} cannot start workers: the worker ended with signal 11, since " in status
            assert await buried(store) == []

            launches[BAD].is_broken = False

            async def plays_again() -> bool:
                nodes = {event.node for event in await log(store, BatchFinished)}
                return BAD in nodes and ("breaker", f"node:{BAD}") not in await alerts(store)

            await until(store, plays_again)
            assert set(await changes(store, "open")) == {f"node:{BAD}"}
            assert await changes(store, "closed") == [f"node:{BAD}"]

    engine.run(story)


def test_the_breaker_of_a_node_that_leaves_is_forgotten(engine: Engine) -> None:
    """Its alert is closed with it, so that nothing stays open for a node that is not there."""

    async def story(store: Store) -> None:
        async with fleet(store):

            async def has_opened() -> bool:
                return ("breaker", f"node:{BAD}") in await alerts(store)

            await until(store, has_opened)
        async with store.read() as view:
            assert [row.subject for row in await BREAKERS.all(view) if row.is_open()] == []

    engine.run(story)
