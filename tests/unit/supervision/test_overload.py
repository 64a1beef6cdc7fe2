"""A store that is busy, full or slow is waited for: no daemon fails by it, and giving one up never fails."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ringrift.bus.router import Router
from ringrift.cluster.activity import ActivityTracker
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.daemons.beat import SPEC as BEAT
from ringrift.events.custom import Published
from ringrift.events.daemon import Cleared, Failed
from ringrift.events.health import Changed
from ringrift.kernel.errors import Backpressure, Busy, NoRoom, Overdue
from ringrift.kernel.health import Status
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import RESERVED
from ringrift.supervision.spec import Daemon, Restart
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import (
    PARTS,
    QUICK,
    failing,
    health,
    loop_clock,
    serving,
    supervisor,
    ticking,
    undisturbed,
)
from unit.work.refusal import RefusingStore
from unit.work.world import World, play
from wait import wait_until

PATIENT = 2_500.0
"""Seconds of virtual time in which a story must come to its end."""
LOCKED = Busy("/data", "another process has been writing for 10 s")
TRANSIENT = [Backpressure("store", 1), LOCKED, NoRoom("/"), Overdue(1)]
SLOW = Restart(times=2, first_seconds=1.0, seconds_max=8.0)


def on(store: RefusingStore, world: World) -> Supervisor:
    """A supervisor whose events go to *store*, which may refuse them."""
    world.router = Router(store, loop_clock(), world.envelopes, BusSettings(poll_seconds=0.05))
    return supervisor(world, clock=loop_clock())


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_a_daemon_waits_out_what_passes_by_itself(tmp_path: Path, error: Exception) -> None:
    """Ten minutes of refused ticks are no failure: it waits, its health says for what, and it goes on by itself."""

    async def story(world: World) -> None:
        free, done, sup = asyncio.Event(), asyncio.Event(), supervisor(world, clock=loop_clock())

        async def writes() -> None:
            if not free.is_set():
                raise error
            done.set()

        async with sup.run([ticking("beat", writes, critical=True)], PARTS, "full"):
            began = asyncio.get_running_loop().time()
            await wait_until(lambda: asyncio.get_running_loop().time() - began > 600.0, PATIENT, step_seconds=0.1)
            report = sup.status("beat")
            assert (report.state, report.failures, report.history) == ("waiting", 0, ())
            assert (report.health.status, report.health.reason) == (Status.DEGRADED, f"waits: {error}")
            assert report.waits > 100
            since = report.since
            await wait_until(lambda: sup.status("beat").waits > report.waits, PATIENT, step_seconds=0.1)
            assert sup.status("beat").since == since, "it has waited all the time"
            free.set()
            await done.wait()
            await wait_until(lambda: health(sup, "beat").status is Status.HEALTHY, PATIENT, step_seconds=0.1)
            assert sup.status("beat").state == "running"
        assert await world.events(Failed) == []

    play(tmp_path, story, simulated=True)


def test_a_short_wait_leaves_the_node_healthy(tmp_path: Path) -> None:
    """A full queue for a moment is seen in the state of the daemon and is no reason to call its node degraded."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world, clock=loop_clock())

        async def writes() -> None:
            if 1 <= next(runs) <= 3:
                raise Backpressure("store", 1)

        async with sup.run([ticking("beat", writes, every=1.0)], PARTS, "full"):
            await wait_until(lambda: sup.status("beat").state == "waiting", PATIENT, step_seconds=0.1)
            assert health(sup, "beat").status is Status.HEALTHY
            await wait_until(lambda: sup.status("beat").state == "running", PATIENT, step_seconds=0.1)

    play(tmp_path, story, simulated=True)


def test_short_waits_that_come_again_and_again_show_between_them(tmp_path: Path) -> None:
    """Three within half a minute show also while it runs, with the last reason, until they are long ago."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world, clock=loop_clock())
        seen: list[tuple[int, str]] = []

        async def writes() -> None:
            seen.append((sup.status("beat").waits, sup.status("beat").waits_often))
            if next(runs) in (3, 5, 7):
                raise LOCKED

        async with sup.run([ticking("beat", writes, every=5.0)], PARTS, "full"):
            await wait_until(lambda: len(seen) > 20, PATIENT, step_seconds=5.0)
        assert [often for waits, often in seen if waits < 3] == [""] * 8
        assert [often for _, often in seen[8:12]] == [str(LOCKED)] * 4
        assert seen[-1] == (3, "")

    play(tmp_path, story, simulated=True)


def test_a_body_that_hangs_after_a_wait_is_ended(tmp_path: Path) -> None:
    """Waiting is no licence to hang: a try that makes no progress is cancelled like any other."""

    async def story(world: World) -> None:
        runs, sup = count(), supervisor(world, clock=loop_clock())

        async def hangs() -> None:
            if next(runs) == 0:
                raise Backpressure("store", 1)
            await asyncio.Event().wait()

        async with sup.run([serving("weak", hangs, seconds_max=60.0)], PARTS, "full"):
            await wait_until(lambda: len(sup.status("weak").history) == 1, PATIENT, step_seconds=0.1)
            assert sup.status("weak").history[0].error == "TimeoutError: no progress for more than 60 s"

    play(tmp_path, story, simulated=True)


def test_only_the_nodes_own_daemons_have_reserved_places(tmp_path: Path) -> None:
    """A plug-in and a daemon that is added later queue like everybody else."""

    async def story(world: World) -> dict[str, bool]:
        places: dict[str, bool] = {}
        sup = supervisor(world)

        def looking(name: str) -> Daemon:
            async def body() -> None:
                places[name] = RESERVED.get()

            return ticking(name, body)

        async with sup.run([looking("own")], PARTS, "full", plugins=[looking("plugin")]):
            sup.add(looking("added"))
            await sup.start("added")
        return places

    assert play(tmp_path, story) == {"own": True, "plugin": False, "added": False}


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
def test_giving_up_is_reported_once_the_store_answers(tmp_path: Path, error: Exception) -> None:
    """The event of a daemon that was given up while the store refused everything is in the log in the end."""

    async def story(world: World) -> None:
        store = RefusingStore(world.store)
        sup, (body, _) = on(store, world), failing(10**9, asyncio.Event())
        store.error = error
        async with sup.run([ticking("weak", body), serving("sound")], PARTS, "full"):
            await wait_until(
                lambda: sup.status("weak").state == "failed" and store.refused > 5, PATIENT, step_seconds=0.1
            )
            assert undisturbed(sup, "sound")
            assert await world.events(Failed) == []
            store.error = None
            await wait_until(lambda: _has(world, Failed), PATIENT, step_seconds=0.1)
            assert not sup.broken.done()

    play(tmp_path, story, simulated=True)


async def _has(world: World, kind: Any) -> bool:
    return bool(await world.events(kind))


def test_the_end_of_a_node_does_not_wait_for_ever_to_report(tmp_path: Path) -> None:
    """A store that never answers again does not keep a node from ending."""

    async def story(world: World) -> None:
        store = RefusingStore(world.store)
        sup, (body, _) = on(store, world), failing(10**9, asyncio.Event())
        store.error = Backpressure("store", 1)
        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await wait_until(lambda: sup.status("weak").state == "failed", PATIENT, step_seconds=0.1)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 10.0

    play(tmp_path, story, simulated=True)


@pytest.mark.parametrize("mark", [{"critical": True}, {"role": "rescue"}], ids=["critical", "role"])
def test_a_vital_daemon_rests_and_is_started_again(tmp_path: Path, mark: dict[str, Any]) -> None:
    """Given up with an event, it comes back after its rest; only when it works again its alert may close."""

    async def story(world: World) -> None:
        mended, runs, sup = asyncio.Event(), count(1), supervisor(world, {"rescue"}, clock=loop_clock())

        async def body() -> None:
            next(runs)
            if not mended.is_set():
                raise ValueError("no")

        async with sup.run([ticking("vital", body, restart=SLOW, **mark), ticking("other", body)], PARTS, "full"):
            await wait_until(lambda: sup.status("vital").state == "failed", PATIENT, step_seconds=0.1)
            began = asyncio.get_running_loop().time()
            await wait_until(lambda: sup.status("vital").state != "failed", PATIENT, step_seconds=0.1)
            assert asyncio.get_running_loop().time() - began == pytest.approx(Restart().rest_seconds, rel=0.1)
            await wait_until(lambda: sup.status("vital").state == "failed", PATIENT, step_seconds=0.1)
            assert await world.events(Cleared) == [], "it has not worked since"
            mended.set()
            await wait_until(lambda: health(sup, "vital").status is Status.HEALTHY, PATIENT, step_seconds=0.1)
            assert sup.status("other").state == "failed", "others wait for an operator"
        assert await world.events(Cleared) == [Cleared(daemon="vital", node="here")]
        failed = [event.daemon for event in await world.events(Failed) if isinstance(event, Failed)]
        assert sorted(failed) == ["other", "vital", "vital"]

    play(tmp_path, story, simulated=True)


def test_a_vital_daemon_that_an_operator_stopped_stays_stopped(tmp_path: Path) -> None:
    """The end of its rest starts nothing that a person has stopped meanwhile."""

    async def story(world: World) -> None:
        body, runs = failing(10**9, asyncio.Event())
        sup = supervisor(world, clock=loop_clock())
        async with sup.run([ticking("vital", body, critical=True)], PARTS, "full"):
            await wait_until(lambda: sup.status("vital").state == "failed", PATIENT, step_seconds=0.1)
            await sup.stop("vital")
            before, began = runs(), asyncio.get_running_loop().time()
            await wait_until(
                lambda: asyncio.get_running_loop().time() - began > 2 * QUICK.rest_seconds, PATIENT, step_seconds=0.1
            )
            assert runs() == before

    play(tmp_path, story, simulated=True)


def test_a_reader_waits_for_a_busy_store_and_misses_nothing(tmp_path: Path) -> None:
    """A daemon that reacts to events reads on where it was, however often the store refused."""

    async def story(world: World) -> None:
        store, names = RefusingStore(world.store), list[str]()
        sup = on(store, world)

        async def react(event: Published, envelope: object, tx: object) -> None:
            names.append(event.event)

        spec = Daemon(name="reader", run=react, on=(Published,), restart=QUICK)
        async with sup.run([spec], PARTS, "full"):
            for number in range(3):
                store.error = LOCKED
                waits = sup.status("reader").waits
                await wait_until(lambda waits=waits: sup.status("reader").waits > waits + 20, PATIENT, step_seconds=0.1)
                store.error = None
                await world.router.publish(Published(event=f"event {number}"))
            await wait_until(lambda: len(names) == 3, PATIENT, step_seconds=0.1)
        assert names == ["event 0", "event 1", "event 2"]
        assert sup.status("reader").failures == 0

    play(tmp_path, story, simulated=True)


def test_a_busy_time_is_in_the_log_once_the_store_answers(tmp_path: Path) -> None:
    """A node that could not write for half a minute is degraded meanwhile, and its log tells of both ends."""

    async def story(world: World) -> list[tuple[str, str]]:
        store, clock = RefusingStore(world.store), loop_clock()
        sup = on(store, world)
        record = NodeRecord(id="here", profile="full", address="/blobs", beat=0)
        parts = PARTS | {"roster": Roster(store, clock, 5.0), "record": record, "router": world.router}
        parts |= {"clock": clock, "activity": ActivityTracker("here"), "supervisor": sup}
        parts |= {"facts": FactsMeter("", {}, None)}
        async with sup.run([BEAT], parts, "full"):
            store.error = LOCKED
            began = clock.tick()
            await wait_until(lambda: clock.tick() - began > 30.0, PATIENT, step_seconds=0.1)
            assert health(sup, "beat").status is Status.DEGRADED
            store.error = None
            await wait_until(lambda: _are(world, 2), PATIENT, step_seconds=0.1)
        changes = [event for event in await world.events(Changed) if isinstance(event, Changed)]
        assert changes[0].reasons == (f"beat: waits: {LOCKED}",)
        return [(event.before, event.status) for event in changes]

    assert play(tmp_path, story, simulated=True) == [("healthy", "degraded"), ("degraded", "healthy")]


async def _are(world: World, count: int) -> bool:
    return len(await world.events(Changed)) == count
