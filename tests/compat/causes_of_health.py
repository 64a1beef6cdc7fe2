"""What can happen to daemons, handlers, breakers, alerts and everything that fails and is healed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from compat.scene import Scene
from ringrift.cluster.activity import ActivityTracker
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons import alert, rescue
from ringrift.daemons.beat import _ClockWatch, beat
from ringrift.events.base import Event
from ringrift.events.daemon import Failed
from ringrift.events.health import Changed
from ringrift.jobs import Export, Job, Play
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.settings import BreakerSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Lease, Renewal
from ringrift.supervision.hang_detector import CheckIntervals
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor
from ringrift.work.desk import Done, Fault
from ringrift.work.durations import JobRun
from unit.daemons.test_heal import FAILED, REST, STEP, WELL, Rig
from unit.pipeline.story import VARIANT
from unit.supervision.watched import PARTS, QUICK, supervisor, ticking
from wait import wait_until

LATER = Backoff(first_seconds=80_000.0, seconds_max=80_000.0, tries=99)
"""A failed job does not come back within a story."""
LIMITS = BreakerSettings()


# -- daemons -----------------------------------------------------------------------------------------------------------


async def _well() -> None:
    """A body that does nothing, and does it well."""


def _failing(times: int, error: Exception) -> Callable[[], Any]:
    count = 0

    async def body() -> None:
        nonlocal count
        count += 1
        if count <= times:
            raise error

    return body


async def _supervise(
    scene: Scene, daemon: Daemon, is_over: Callable[[Supervisor], bool | Awaitable[bool]], **options: Any
) -> None:
    sup = supervisor(scene.world, **options)
    await scene.listen()
    async with sup.run([daemon], PARTS, "full"):
        await wait_until(lambda: is_over(sup))
        await scene.end_listening()


async def a_daemon_starts(scene: Scene) -> None:
    """For the first time."""
    await _supervise(scene, ticking("d", _well), lambda sup: sup.status("d").runs > 0)


async def a_daemon_stops(scene: Scene) -> None:
    """On request."""
    sup = supervisor(scene.world)
    async with sup.run([ticking("d", _well)], PARTS, "full"):
        await wait_until(lambda: sup.status("d").runs > 0)
        await scene.listen()


async def a_daemon_fails_once(scene: Scene) -> None:
    """After it worked; it is started again."""
    body = _failing(1, ValueError("no"))

    async def late() -> None:
        if sup.status("d").runs > 1:
            await body()

    sup = supervisor(scene.world)
    await scene.listen()
    async with sup.run([ticking("d", late)], PARTS, "full"):
        await wait_until(lambda: sup.status("d").restarts > 0)
        await scene.end_listening()


async def a_daemon_fails_at_its_start(scene: Scene) -> None:
    """It fails before it has made any progress."""
    await _supervise(scene, ticking("d", _failing(1, ValueError("no"))), lambda sup: sup.status("d").restarts > 0)


async def a_daemon_is_given_up(scene: Scene) -> None:
    """It fails more often than it may."""
    await _supervise(scene, ticking("d", _failing(99, ValueError("no"))), lambda sup: scene.has(Failed))


async def a_daemon_has_a_final_error(scene: Scene) -> None:
    """It fails with an error after which it never starts."""
    daemon = ticking("d", _failing(99, LookupError("no")), final=(LookupError,))
    await _supervise(scene, daemon, lambda sup: scene.has(Failed))


async def a_daemon_finds_no_room(scene: Scene) -> None:
    """The disk is full."""
    await _supervise(scene, ticking("d", _failing(99, NoRoom("/data"))), lambda sup: sup.status("d").waits > 0)


async def a_daemon_hangs(scene: Scene) -> None:
    """It makes no progress and is ended."""

    async def hang(*, alive: Callable[[], None]) -> None:
        alive()
        await asyncio.Event().wait()

    daemon = Daemon(name="d", run=hang, serve=True, restart=QUICK, seconds_max=0.05, check_seconds=0.05)
    await _supervise(scene, daemon, lambda sup: sup.status("d").restarts > 0, clock=SystemClock())


async def a_daemon_blocks_the_loop(scene: Scene) -> None:
    """The event loop stands still for a while."""
    blocked = False

    async def block() -> None:
        nonlocal blocked
        if not blocked:
            blocked = True
            end = SystemClock().tick() + 0.5
            while SystemClock().tick() < end:
                pass

    await _supervise(
        scene,
        ticking("d", block),
        lambda sup: sup.status("d").stalls > 0,
        clock=SystemClock(),
        intervals=CheckIntervals(stall_seconds_max=0.1),
    )


# -- health and alerts -------------------------------------------------------------------------------------------------


class _Heart:
    """The heartbeat of a node whose only daemon is well or not."""

    def __init__(self, scene: Scene, profile: str) -> None:
        self._scene, self._activity = scene, ActivityTracker("here")
        self._record = NodeRecord(id="here", profile=profile, address="", beat=0)

    async def beat(self, sup: Supervisor) -> None:
        world = self._scene.world
        await beat(
            roster=world.roster, record=self._record, clock=world.clock, activity=self._activity, supervisor=sup,
            router=world.router, facts=FactsMeter("", {}, None), memory=_ClockWatch(),
        )  # fmt: skip


async def _sick(scene: Scene, profile: str, *, fails: int, recovers: bool = False) -> None:
    """A daemon fails so often; with *recovers* only the way back is listened to."""
    sup, heart = supervisor(scene.world), _Heart(scene, profile)
    is_bad = fails > QUICK.times
    async with sup.run([ticking("d", _failing(fails, ValueError("no")))], PARTS, "full"):
        await wait_until(lambda: scene.has(Failed) if is_bad else sup.status("d").ready)
        if not recovers:
            await scene.listen()
        await heart.beat(sup)
        if recovers:
            await sup.clear("d")
            await wait_until(lambda: sup.status("d").ready)
            await scene.listen()
            await heart.beat(sup)
        await scene.end_listening()


async def a_coordinator_is_unhealthy(scene: Scene) -> None:
    """A daemon of a node that leads was given up."""
    await _sick(scene, "full", fails=99)


async def a_player_is_unhealthy(scene: Scene) -> None:
    """A daemon of a node that only plays was given up."""
    await _sick(scene, "selfplay", fails=99)


async def a_coordinator_is_degraded(scene: Scene) -> None:
    """A daemon of a node that leads failed lately."""
    await _sick(scene, "full", fails=1)


async def a_coordinator_is_well_again(scene: Scene) -> None:
    """An operator cleared the daemon that was given up."""
    await _sick(scene, "full", fails=3, recovers=True)


async def a_player_is_well_again(scene: Scene) -> None:
    """The same for a node that only plays."""
    await _sick(scene, "selfplay", fails=3, recovers=True)


async def _alert_about(scene: Scene, event: Event) -> None:
    envelope = await scene.world.router.publish(event)
    await scene.listen()
    async with scene.world.store.begin() as tx:
        await alert.alert(event, envelope, tx, envelopes=scene.world.envelopes)


async def an_alert_is_severe(scene: Scene) -> None:
    """A daemon was given up, and the list of alerts says so."""
    await _alert_about(scene, Failed(daemon="d", node="n", error="no", times=3, seconds=9.0))


async def an_alert_is_about_health(scene: Scene) -> None:
    """A node is degraded, and the list of alerts says so."""
    await _alert_about(scene, Changed(node="n", status="degraded", before="healthy"))


# -- recovery and breakers ---------------------------------------------------------------------------------------------


async def _heal(scene: Scene, before: float, after: float, *, mended: bool = False) -> None:
    """A daemon stays failed for so long; only what comes after is listened to."""
    rig = Rig(scene.world)
    rig.daemons["n1"] = (*WELL, FAILED)
    await rig.look(before)
    await rig.run_commands()
    if mended:
        rig.daemons["n1"] = WELL
    await scene.listen()
    await rig.look(after)


async def a_node_is_healed(scene: Scene) -> None:
    """A step against the trouble of a node helped."""
    rig = Rig(scene.world)
    rig.daemons["n2"] = WELL
    await rig.open_breaker("node:n2")
    await rig.look(2 * REST + STEP)
    await rig.run_commands()
    await rig.close_breaker("node:n2")
    await scene.listen()
    await rig.look(REST + STEP)


async def a_first_step_is_taken(scene: Scene) -> None:
    """A daemon that was given up is restarted."""
    await _heal(scene, REST - STEP, STEP)


async def a_step_does_not_help(scene: Scene) -> None:
    """It fails again, and the next step is taken."""
    await _heal(scene, REST, REST + STEP)


async def a_step_helps(scene: Scene) -> None:
    """It works again."""
    await _heal(scene, REST, REST + STEP, mended=True)


def _jobs(kind: type[Job], count: int) -> list[Job]:
    if kind is Export:
        return [Export(variant=VARIANT, batches=(f"{n:064d}",), seed=n) for n in range(count)]
    return [Play(variant=VARIANT, model="m" * 64, games=1, seed=n) for n in range(count)]


async def _fail_all(scene: Scene, jobs: list[Job]) -> None:
    """Let every job fail once, on two nodes."""
    for number, job in enumerate(jobs):
        desk = scene.world.desk(("here", "there")[number % 2], retry=LATER)
        await desk.enqueue([job])
        leases = await desk.claim({job.kind()}, 1)
        await desk.fail([Fault(lease=lease, error="no") for lease in leases])


async def _rescue(scene: Scene, memory: StallDetector, seconds: float) -> None:
    world = scene.world
    world.clock.seconds += seconds
    roles = await world.roles()
    await rescue.rescue(
        store=world.store, desk=world.desk(), envelopes=world.envelopes, roles=roles, clock=world.clock, memory=memory
    )
    await roles.resign()


async def _stage_breaker(scene: Scene, until: str) -> None:
    """Exports fail until their breaker opens, is tried and closes; the last of it is listened to."""
    memory = StallDetector()
    if until == "open":
        await scene.listen()
    await _fail_all(scene, _jobs(Export, LIMITS.stage_failures_max))
    if until == "open":
        return
    await _rescue(scene, memory, 0.0)
    if until == "half_open":
        await scene.listen()
    await _rescue(scene, memory, 61.0)
    if until == "half_open":
        return
    desk = scene.world.desk("here")
    await desk.enqueue([Export(variant=VARIANT, batches=("f" * 64,), seed=99)])
    leases = await desk.claim({"export"}, 1)
    await scene.listen()
    await _finish(scene, leases)


async def _finish(scene: Scene, leases: Any) -> None:
    done = [
        Done(lease=Renewal(job=lease.job, fence=lease.fence), run=JobRun(kind=lease.kind, variant=VARIANT))
        for lease in leases
    ]
    await scene.world.desk("here").finish(done)


async def a_stage_keeps_failing(scene: Scene) -> None:
    """Its breaker opens."""
    await _stage_breaker(scene, "open")


async def a_stage_is_tried_again(scene: Scene) -> None:
    """Its breaker lets one job through."""
    await _stage_breaker(scene, "half_open")


async def a_stage_works_again(scene: Scene) -> None:
    """Its breaker closes."""
    await _stage_breaker(scene, "closed")


async def _node_breaker(scene: Scene, until: str) -> None:
    memory = StallDetector()
    if until == "open":
        await scene.listen()
    for job in _jobs(Play, LIMITS.node_failures_max):
        desk = scene.world.desk("here", retry=LATER)
        await desk.enqueue([job])
        leases: list[Lease] = list(await desk.claim({"play"}, 1))
        await desk.fail([Fault(lease=lease, error="no") for lease in leases])
    if until == "open":
        return
    await _rescue(scene, memory, 0.0)
    if until == "half_open":
        await scene.listen()
    await _rescue(scene, memory, 61.0)
    if until == "half_open":
        return
    await scene.world.desk("here").enqueue([Play(variant=VARIANT, model="m" * 64, games=1, seed=99)])
    leases = list(await scene.world.desk("here").claim({"play"}, 1))
    await scene.listen()
    await _finish(scene, leases)


async def a_node_keeps_failing(scene: Scene) -> None:
    """Its breaker opens."""
    await _node_breaker(scene, "open")


async def a_node_is_tried_again(scene: Scene) -> None:
    """Its breaker lets one job through."""
    await _node_breaker(scene, "half_open")


async def a_node_works_again(scene: Scene) -> None:
    """Its breaker closes."""
    await _node_breaker(scene, "closed")
