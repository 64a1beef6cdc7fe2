"""A real cluster on a real store heals itself: steps in order, a person asked once, and the loop paused and resumed."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from contract.engines import Engine
from contract.test_trust import LyingPool, LyingWorker, batches, log, until
from ringrift.blobs.ports import Blobs
from ringrift.cluster.alerts import open_alerts
from ringrift.cluster.recovery import ERRORS, RECOVERIES, ErrorReport
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events.daemon import CommandDone, Failed
from ringrift.events.data import Lost
from ringrift.events.health import RecoveryFinished, RecoveryStarted
from ringrift.events.node import Quarantined
from ringrift.events.pipeline import Opened
from ringrift.events.work import RunStateChanged
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import ChildDied
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.pipeline.line import LINES
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon, Restart
from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.work.run_states import load_run_states
from ringrift.workload.api import JobResult, JobSpec

VARIANT, BAD = "hex8_2p", "n3"
MEMBERS = (Member(id="n1"), Member(id="n2", profile="selfplay"), Member(id=BAD, profile="selfplay"))
SETTINGS = Settings().overlaid(
    {
        "cluster": {"beat_seconds": 0.2, "elect_seconds": 0.1, "role_seconds": 1.0, "grace_seconds": 0.0},
        "cluster.heal_seconds": 0.05,
        "cluster.heal_rest_seconds": 0.5,
        "cluster.heal_pause_seconds": 0.2,
        "work.breakers": {"node_failures_max": 3, "reset_seconds": 0.2},
        "work.retry.first_seconds": 0.01,
        "policy": {"variants": (VARIANT,), "games_per_batch": 50, "games_per_export": 100_000, "play_jobs_open": 6},
        "policy.window_batches_max": 256,  # the first games stay in it while the test runs
        "replicas.copies_min": 1,
    }
)


class FragileWorker(LyingWorker):
    """A worker that dies in the middle of every job while its machine is broken."""

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        if self._pool.is_broken:
            report(Progress(0.0, {}))
            await asyncio.sleep(0)
            raise ChildDied("no gpu")
        return await super().run(spec, resume, report)


class FragilePool(LyingPool):
    """A pool whose workers all die while it is broken."""

    is_broken = False

    async def start(self, workload: str) -> LyingWorker:
        """Start another worker."""
        return FragileWorker(self._blobs, self)


@asynccontextmanager
async def fleet(
    store: Store,
    members: tuple[Member, ...],
    extra: tuple[Daemon, ...] = (),
    pools: dict[str, FragilePool] | None = None,
) -> AsyncIterator[list[Node]]:
    """Nodes at work on one line, with their *pools* by node."""
    blobs = {member.id: MemoryBlobs(member.id) for member in members}
    pools = {} if pools is None else pools

    async def reach(name: str) -> Blobs:
        return blobs[name]

    async with AsyncExitStack() as stack:
        nodes = []
        for member in members:
            pools[member.id] = FragilePool(blobs[member.id])
            parts = {"store": store, "blobs": blobs[member.id], "reach": reach, "extra": extra}
            parts["launch"] = pools[member.id]
            opened = Node.open(settings_of(SETTINGS, member), SystemClock(), Random(member.id), **parts)
            nodes.append(await stack.enter_async_context(opened))
            await nodes[-1].router.publish(Opened(variant=VARIANT, workload="fake"), id="opened")
        yield nodes


async def steps(store: Store) -> list[str]:
    """The steps that began, in order."""
    return [f"{event.subject} {event.step}" for event in await log(store, RecoveryStarted)]


async def alerts(store: Store, kind: str) -> list[str]:
    """The subjects of the open alerts of *kind*."""
    async with store.read() as view:
        return [alert.subject for alert in await open_alerts(view) if alert.kind == kind]


async def _contains(store: Store, step: str) -> bool:
    return step in await steps(store)


async def _is_open(store: Store, kind: str, subject: str) -> bool:
    return subject in await alerts(store, kind)


async def _is_paused(store: Store) -> bool:
    async with store.read() as view:
        return (await load_run_states(view)).find(now=SystemClock().now()) is not None


async def _is_running(store: Store) -> bool:
    return not await _is_paused(store)


def test_a_daemon_that_keeps_failing_is_restarted_in_order_and_then_a_person_is_asked_once(engine: Engine) -> None:
    """The supervisor gives up, the healer has it cleared twice, each time it fails again; then one alert stays open."""
    subject = "daemon:n1/broken"

    async def broken() -> None:
        raise ValueError("no disk")

    async def story(store: Store) -> None:
        spec = Daemon(name="broken", run=broken, every=0.01, restart=Restart(times=0))
        async with fleet(store, MEMBERS[:1], (spec,)):
            await until(store, lambda: _contains(store, f"{subject} ask_person"))
            await until(store, lambda: _is_open(store, "recovery", subject))
            assert await steps(store) == [f"{subject} restart_daemon"] * 2 + [f"{subject} ask_person"]
            done = await log(store, CommandDone)
            assert [(event.daemon, event.action, event.error) for event in done] == [("broken", "clear", "")] * 2
            assert len(await log(store, Failed)) == 3
            outcomes = [(event.step, event.helped) for event in await log(store, RecoveryFinished)]
            assert outcomes == [("restart_daemon", False)] * 2
            await batches(store, 5)
            assert (await steps(store))[3:] == []

    engine.run(story)


def test_a_node_whose_jobs_all_fail_gets_no_new_jobs_until_it_works_and_its_earlier_games_count(engine: Engine) -> None:
    """Its work daemon is restarted, then it is paused; the others play on; it is mended, tried and plays again."""

    async def story(store: Store) -> None:
        pools: dict[str, FragilePool] = {}
        async with fleet(store, MEMBERS, pools=pools):
            await until(store, lambda: _has_games(store, BAD))
            earlier = set(await games_of(store, BAD))
            pools[BAD].is_broken = True
            await until(store, lambda: _contains(store, f"node:{BAD} quarantine_node"))
            own = [step for step in await steps(store) if step.startswith("node:")]
            assert own == [f"node:{BAD} restart_daemon", f"node:{BAD} quarantine_node"]
            [change] = await log(store, RunStateChanged)
            assert (change.scope, change.state, change.by) == (f"node:{BAD}", "paused", "heal")
            assert "no gpu" in change.reason
            assert {"n1", "n2"} >= set(await batches(store, 40))
            assert (await log(store, Quarantined), await log(store, Lost)) == ([], [])
            pools[BAD].is_broken = False
            await until(store, lambda: _has_ended(store, f"node:{BAD}"))
            changes = [(change.scope, change.state) for change in await log(store, RunStateChanged)]
            assert changes[:2] == [(f"node:{BAD}", "paused"), (f"node:{BAD}", "running")]
            await until(store, lambda: _has_games(store, BAD, earlier))
            async with store.read() as view:
                assert [line.counts.lost for line in await LINES.all(view)] == [0]

    engine.run(story)


async def games_of(store: Store, node: str) -> list[str]:
    """The batches of *node* that count for the line."""
    async with store.read() as view:
        line = await LINES.get(view, VARIANT)
    return [batch.blob for batch in line.window if batch.node == node] if line else []


async def _has_games(store: Store, node: str, earlier: Collection[str] = ()) -> bool:
    return not set(earlier).issuperset(await games_of(store, node))


async def _has_ended(store: Store, subject: str) -> bool:
    async with store.read() as view:
        return await RECOVERIES.get(view, subject) is None


def test_the_loop_is_paused_while_health_is_critical_and_resumes(engine: Engine) -> None:
    """Most of the nodes vanish while errors pile up: the loop pauses; they are back, and it goes on by itself."""

    async def story(store: Store) -> None:
        async with fleet(store, MEMBERS[:1]) as [node]:
            await batches(store, 2)
            async with store.begin() as tx:
                lost = [NodeRecord(id=id, profile="selfplay", address="", beat=1) for id in ("x1", "x2")]
                await NODES.put(tx, lost)
                for number in range(20):
                    facts = {"component": f"c{number}", "error": "no", "severity": "error", "node": "n1"}
                    await ERRORS.put(
                        tx, [ErrorReport(id=str(number), time=node.clock.now(), tick=node.clock.tick(), **facts)]
                    )
            await until(store, lambda: _is_paused(store))
            [change] = await log(store, RunStateChanged)
            assert (change.scope, change.state, change.by) == ("cluster", "paused", "heal")
            assert "errors reported in the last hour" in change.reason
            async with store.begin() as tx:
                await tx.delete("node", ["x1", "x2"])
                await tx.delete("reported_error", [str(number) for number in range(20)])
            await until(store, lambda: _is_running(store))
            await batches(store, 2)
            changes = [(event.state, event.by) for event in await log(store, RunStateChanged)]
            assert changes == [("paused", "heal"), ("running", "heal")]
            async with store.read() as view:
                assert await RECOVERIES.all(view) == []

    engine.run(story)
