"""What can happen to nodes, their roles, their files and the brakes that people set."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from random import Random

import msgspec

from compat.scene import Scene
from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.daemons import measure_queues, replicate, sweep
from ringrift.daemons.watch import watch
from ringrift.jobs import Distribute, Job, Match, Sync, decode
from ringrift.kernel.errors import NodeAway, NoRoute
from ringrift.kernel.settings import BusSettings, NodeSettings, Settings, WorkSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.transfer_settings import Replicas
from ringrift.kernel.value import changed
from ringrift.node import Node
from ringrift.pipeline.file_jobs import FileJobs
from ringrift.pipeline.line import Stage
from ringrift.store.ports import Lease, Renewal
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import Done
from ringrift.work.pressure import DrainWindow
from ringrift.work.run_states import set_run_state
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.loop_workers import LoopLaunch

BEAT_SECONDS = 5.0


# -- nodes and roles ---------------------------------------------------------------------------------------------------


def _open_node(scene: Scene, profile: str = "full") -> AbstractAsyncContextManager[Node]:
    settings = Settings(node=NodeSettings(id="n1", profile=profile))
    return Node.open(
        settings, scene.world.clock, Random(1), store=scene.world.store, blobs=FolderBlobs(scene.folder / "n1"),
        launch=LoopLaunch(), begin=(),
    )  # fmt: skip


async def a_node_joins(scene: Scene) -> None:
    """A node that takes no role starts."""
    await scene.listen()
    async with _open_node(scene, "selfplay"):
        await scene.end_listening()


async def a_player_leaves(scene: Scene) -> None:
    """A node without roles shuts down in good order."""
    async with _open_node(scene, "selfplay"):
        await scene.listen()


async def a_coordinator_leaves(scene: Scene) -> None:
    """A node that leads shuts down in good order."""
    async with _open_node(scene):
        await scene.listen()


async def _look(scene: Scene, roster: Roster, memory: StallDetector, seconds: float) -> None:
    world = scene.world
    world.clock.seconds += seconds
    roles = await world.roles()
    await watch(
        store=world.store, roster=roster, roles=roles, envelopes=world.envelopes, clock=world.clock, policy=POLICY,
        bus_settings=BusSettings(), memory=memory,
    )  # fmt: skip
    await roles.resign()


async def _silent_for(scene: Scene, *seconds: float, returns: bool = False) -> None:
    """A node sends no heartbeat for so long, with a look after each time; only the last is listened to."""
    roster, memory = Roster(scene.world.store, scene.world.clock, BEAT_SECONDS), StallDetector()
    await scene.world.beat("n1")
    for pause in (0.0, *seconds[:-1]):
        await _look(scene, roster, memory, pause)
    if returns:
        scene.world.clock.seconds += 1.0
        await scene.world.beat("n1")
    await scene.listen()
    await _look(scene, roster, memory, seconds[-1])


async def a_node_misses_heartbeats(scene: Scene) -> None:
    """Too few for a lost one."""
    await _silent_for(scene, 11.0)


async def a_node_is_lost(scene: Scene) -> None:
    """It missed as many as a lost one."""
    await _silent_for(scene, 11.0, 5.0)


async def a_node_returns(scene: Scene) -> None:
    """A lost one sends heartbeats again."""
    await _silent_for(scene, 11.0, 5.0, 1.0, returns=True)


async def roles_are_taken_first(scene: Scene) -> None:
    """A node takes roles that never had a holder."""
    await scene.listen()
    await scene.world.roles("a", ("pipeline",))


async def a_leader_is_replaced(scene: Scene) -> None:
    """Another node takes a role whose holder does not renew it."""
    await scene.world.roles("a", ("pipeline",))
    other = await scene.world.roles("b", ("pipeline",))
    await scene.listen()
    scene.world.clock.seconds += 60.0
    await other.elect()


async def a_leader_comes_back_late(scene: Scene) -> None:
    """A node takes its own role again after it could not renew it."""
    await scene.world.roles("a", ("pipeline",))
    again = await scene.world.roles("a", ("pipeline",))
    await scene.listen()
    scene.world.clock.seconds += 60.0
    await again.elect()


# -- brakes and queues -------------------------------------------------------------------------------------------------


async def _brake(scene: Scene, scope: str, state: str) -> None:
    await scene.listen()
    async with scene.world.store.begin() as tx:
        await set_run_state(
            tx, scene.world.envelopes, scope=scope, state=state, reason="r", by="me", now=scene.world.clock.now()
        )


async def the_cluster_is_paused(scene: Scene) -> None:
    """A person pauses everything."""
    await _brake(scene, "cluster", "paused")


async def the_cluster_is_stopped_at_once(scene: Scene) -> None:
    """A person sets an emergency."""
    await _brake(scene, "cluster", "emergency")


async def a_variant_is_stopped_at_once(scene: Scene) -> None:
    """A person sets an emergency for one line."""
    await _brake(scene, f"variant:{VARIANT}", "emergency")


def _matches(count: int) -> list[Job]:
    return [Match(variant=VARIANT, candidate="c" * 64, champion="m" * 64, first=n, count=1) for n in range(count)]


def _copies(count: int) -> list[Job]:
    return [Sync(variant=VARIANT, blob=f"{n:064d}", kind_of="games", source="here") for n in range(count)]


async def _measure(scene: Scene, memory: dict[str, DrainWindow]) -> None:
    world, roles = scene.world, await scene.world.roles()
    await measure_queues.measure_queues(
        store=world.store, envelopes=world.envelopes, roles=roles, clock=world.clock, work_settings=WorkSettings(),
        memory=memory,
    )  # fmt: skip
    await roles.resign()


async def _finish(scene: Scene, leases: Sequence[Lease]) -> None:
    await scene.world.desk().finish([Done(lease=Renewal(job=row.job, fence=row.fence)) for row in leases])


async def _fill(scene: Scene, jobs: list[Job], *, drain: bool) -> None:
    memory: dict[str, DrainWindow] = {}
    await _measure(scene, memory)
    if not drain:
        await scene.listen()
    await scene.world.desk().enqueue(jobs)
    scene.world.clock.seconds += 1.0
    await _measure(scene, memory)
    if drain:
        await scene.listen()
        await _finish(scene, await scene.world.desk().claim({jobs[0].kind()}, len(jobs)))
        scene.world.clock.seconds += 1.0
        await _measure(scene, memory)


async def matches_pile_up(scene: Scene) -> None:
    """More matches wait than the queue may hold."""
    await _fill(scene, _matches(250), drain=False)


async def matches_are_drained(scene: Scene) -> None:
    """The matches that waited are played."""
    await _fill(scene, _matches(250), drain=True)


async def copies_pile_up(scene: Scene) -> None:
    """More copies wait than the queue may hold."""
    await _fill(scene, _copies(600), drain=False)


async def copies_are_drained(scene: Scene) -> None:
    """The copies that waited are made."""
    await _fill(scene, _copies(600), drain=True)


async def a_few_matches_wait(scene: Scene) -> None:
    """A queue comes to a level that slows nothing down much."""
    await _fill(scene, _matches(30), drain=False)


# -- files -------------------------------------------------------------------------------------------------------------


class _Fleet:
    """The files of this node and two others, of which some may not answer."""

    def __init__(self, scene: Scene, away: str = "") -> None:
        self._scene, self._away = scene, away
        self.transfer = Transfer(
            "here", scene.world.store, self.at("here"), self._reach, scene.world.envelopes, clock=scene.world.clock
        )

    def at(self, node: str) -> FolderBlobs:
        return FolderBlobs(self._scene.folder / node)

    async def _reach(self, node: str) -> FolderBlobs:
        if node == self._away:
            raise NodeAway(node)
        return self.at(node)

    def jobs(self) -> FileJobs:
        record = NodeRecord(id="here", profile="full", address="", beat=0)
        settings = changed(Settings.local(), replicas=Replicas(copies_min=2))
        return FileJobs(record, self.transfer, self._scene.world.roster, settings)

    async def beat(self, *nodes: str) -> None:
        for node in nodes:
            await self._scene.world.beat(node, profile="selfplay" if node != "here" else "full")

    async def put(self, node: str = "here") -> str:
        [blob] = await self.at(node).put([b"content"])
        await self._scene.world.hold(blob, node)
        return blob


async def _do_file_job(scene: Scene, fleet: _Fleet, job: Job) -> None:
    [lease] = await scene.world.claim(job)
    outcome = await fleet.jobs().move(job, lambda: None)
    await scene.world.desk().finish([Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome)])


async def a_champion_reaches_all(scene: Scene) -> None:
    """Every node that plays gets a copy."""
    fleet = _Fleet(scene)
    await fleet.beat("here", "near", "far")
    blob = await fleet.put()
    await scene.listen()
    await _do_file_job(scene, fleet, Distribute(variant=VARIANT, model=blob))


async def a_champion_misses_a_node(scene: Scene) -> None:
    """A node that plays cannot be reached."""
    fleet = _Fleet(scene, away="far")
    await fleet.beat("here", "near", "far")
    blob = await fleet.put()
    await scene.listen()
    await _do_file_job(scene, fleet, Distribute(variant=VARIANT, model=blob))


async def _sync(scene: Scene, *nodes: str) -> None:
    fleet = _Fleet(scene)
    await fleet.beat(*nodes)
    blob = await fleet.put()
    await scene.listen()
    await _do_file_job(scene, fleet, Sync(variant=VARIANT, blob=blob, kind_of="games", source="here", played=10))


async def the_only_node_keeps_games(scene: Scene) -> None:
    """There is no other node that could have a copy."""
    await _sync(scene, "here")


async def games_are_copied_to_another_node(scene: Scene) -> None:
    """Two nodes have a batch."""
    await _sync(scene, "here", "near")


async def a_thin_blob_is_repaired(scene: Scene) -> None:
    """A batch with too few copies gets another one."""
    world, fleet = scene.world, _Fleet(scene)
    await fleet.beat("here", "near")
    blob = await fleet.put()
    line = at(Stage.COLLECTING).line
    await world.keep(msgspec.structs.replace(line, window=(changed(line.window[0], blob=blob), *line.window[1:])))
    roles = await world.roles()
    await scene.listen()
    await replicate.replicate(
        store=world.store, roster=world.roster, roles=roles, transfer=fleet.transfer, replicas=Replicas(copies_min=2),
        policy=Settings().policy, envelopes=world.envelopes, clock=world.clock, memory=StallDetector(),
    )  # fmt: skip
    [lease] = await world.desk().claim({"sync"}, 1)
    outcome = await fleet.jobs().move(decode(lease.kind, lease.body), lambda: None)
    await world.desk().finish([Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=outcome)])


def _damage(scene: Scene, blob: str) -> None:
    [path] = [
        path for path in (scene.folder / "near").rglob("*") if path.name.startswith(blob[:8]) or path.name == blob
    ]
    path.chmod(0o644)
    path.write_bytes(b"damaged")


async def a_damaged_copy_is_sent(scene: Scene) -> None:
    """A node sends bytes that do not match their hash."""
    fleet = _Fleet(scene)
    await fleet.beat("here", "near")
    blob = await fleet.put("near")
    _damage(scene, blob)
    await scene.listen()
    with suppress(NoRoute):  # no other node has it
        await fleet.transfer.fetch([blob])


async def a_damaged_copy_is_scrubbed(scene: Scene) -> None:
    """The daily check of a node's own files notices damage."""
    fleet = _Fleet(scene)
    blob = await fleet.put("near")
    _damage(scene, blob)
    await scene.listen()
    await sweep.sweep(
        store=scene.world.store,
        blobs=fleet.at("near"),
        envelopes=scene.world.envelopes,
        clock=scene.world.clock,
        settings=Settings(),
    )
