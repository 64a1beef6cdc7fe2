"""A node makes the requested copies, publishes where blobs really are, and loses nothing over one bad target."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.parts import FolderPart
from ringrift.cluster.roster import NodeRecord
from ringrift.events import data, model
from ringrift.jobs import Distribute, Export, Play, Sync
from ringrift.kernel.errors import JobFailed, NodeAway, NoRoom, NoRoute
from ringrift.kernel.settings import Settings
from ringrift.kernel.transfer_settings import Replicas
from ringrift.kernel.value import changed
from ringrift.pipeline.copies import plan_nodes
from ringrift.pipeline.file_jobs import FileJobs
from ringrift.sync.failed_copies import FAILED, FailedCopy
from ringrift.sync.transfer import Transfer
from ringrift.work.desk import JobOutcome
from ringrift.work.limits import LineWork
from ringrift.workload.api import Artifact, JobResult
from unit.work.world import World, play

V = "hex8_2p"
FAKE = LineWork(workload="fake")


class FullBlobs(FolderBlobs):
    """A folder on a disk without room."""

    def part(self, blob: str, owner: str) -> FolderPart:
        raise NoRoom(str(self.folder.root))


class Fleet:
    """Folders of some nodes, one of them ours, and which of them answer."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root = world, root
        self.silent: set[str] = set()
        self.full: set[str] = set()
        self.transfer = Transfer("here", world.store, self.at("here"), self.reach, world.envelopes, clock=world.clock)

    def at(self, node: str) -> FolderBlobs:
        return (FullBlobs if node in self.full else FolderBlobs)(self.root / node)

    async def reach(self, node: str) -> FolderBlobs:
        if node in self.silent:
            raise NodeAway(node)
        return self.at(node)

    async def put(self, content: bytes, node: str) -> str:
        [blob] = await self.at(node).put([content])
        return blob

    async def have(self, blob: str, *nodes: str) -> list[str]:
        return [node for node in nodes if await self.at(node).have([blob])]

    def file_jobs(self, copies_min: int = 2) -> FileJobs:
        record = NodeRecord(id="here", profile="full", address="", beat=0, ephemeral=True)
        settings = changed(Settings.local(), replicas=Replicas(copies_min=copies_min))
        return FileJobs(record, self.transfer, self.world.roster, settings)


def log(folder: Path, story: Callable[[World, Fleet], Awaitable[None]]) -> None:
    """Run *story* with a fleet."""

    async def whole(world: World) -> None:
        await story(world, Fleet(world, folder))

    play(folder, whole)


def sync(blob: str, source: str = "near") -> Sync:
    """A wish for copies."""
    return Sync(variant=V, blob=blob, kind_of="games", source=source)


async def failed(world: World) -> list[FailedCopy]:
    """The copies that could not be made yet."""
    async with world.store.read() as view:
        return await FAILED.all(view)


def nothing() -> None:
    """Ignore the reported progress."""


def test_a_batch_gets_as_many_copies_as_the_policy_requires(tmp_path: Path) -> None:
    """One more copy is made here, bytes are reported, and the event names every holder."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("here", "near", "far"):
            await world.beat(node)
        blob = await fleet.put(b"games", "near")
        moves: list[int] = []

        made = await fleet.file_jobs().move(sync(blob), lambda: moves.append(1))

        assert made.events == (data.Synced(variant=V, blob=blob, kind="games", nodes=("here", "near")),)
        assert await fleet.have(blob, "here", "near", "far") == ["here", "near"]
        assert await world.holders(blob) == ["here", "near"]
        assert moves

    log(tmp_path, story)


def test_fewer_nodes_than_copies_is_not_an_error(tmp_path: Path) -> None:
    """On one machine one copy is all there can be."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here")
        blob = await fleet.put(b"games", "here")

        made = await fleet.file_jobs(copies_min=3).move(sync(blob, "here"), nothing)

        assert made.events[0].nodes == ("here",)

    log(tmp_path, story)


def test_a_blob_without_a_holder_cannot_be_copied(tmp_path: Path) -> None:
    """There is no route, and the blob is named."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here")

        with pytest.raises(NoRoute) as lost:
            await fleet.file_jobs().move(sync("a" * 64), nothing)

        assert lost.value.blob == "a" * 64

    log(tmp_path, story)


def test_a_target_that_cannot_be_reached_does_not_make_the_games_lost(tmp_path: Path) -> None:
    """While good copies exist, one node that does not answer is passed over: the blob is not at fault."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("here", "far"):
            await world.beat(node)
        blob = await fleet.put(b"games", "here")
        fleet.silent = {"far"}

        made = await fleet.file_jobs().move(sync(blob, "here"), nothing)

        assert made.events == (data.Synced(variant=V, blob=blob, kind="games", nodes=("here",)),)

    log(tmp_path, story)


def test_games_that_only_fleeting_machines_hold_are_not_safe_yet(tmp_path: Path) -> None:
    """While a durable node is there but away, the copy is not done: it must be tried again."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here", ephemeral=True)
        await world.beat("far")
        blob = await fleet.put(b"games", "here")
        fleet.silent = {"far"}

        with pytest.raises(JobFailed, match="only ephemeral nodes hold") as refused:
            await fleet.file_jobs().move(sync(blob, "here"), nothing)

        assert refused.value.retry
        assert refused.value.blob is None

    log(tmp_path, story)


def test_a_full_disk_elsewhere_does_not_undo_a_copy(tmp_path: Path) -> None:
    """A target without room is skipped like one that is away: the event names the holders."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("near", "far"):
            await world.beat(node)
        blob = await fleet.put(b"games", "near")
        fleet.full = {"far"}

        made = await fleet.file_jobs().move(sync(blob), nothing)

        assert made.events[0].nodes == ("near",)
        assert [(row.target, row.failures) for row in await failed(world)] == [("far", 1)]

    log(tmp_path, story)


def test_where_one_node_fails_the_next_best_gets_the_copy(tmp_path: Path) -> None:
    """The copy that could not be made is a row until the node has the file after all."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("near", "far", "other"):
            await world.beat(node)
        blob = await fleet.put(b"games", "near")
        fleet.silent = {"far"}

        made = await fleet.file_jobs().move(sync(blob), nothing)
        assert made.events[0].nodes == ("near", "other")
        [row] = await failed(world)
        assert (row.blob, row.target, row.kind, row.variant, row.failures) == (blob, "far", "games", V, 1)

        retry = Sync(variant=V, blob=blob, kind_of="games", source="near", repair=True, target="far")
        assert await fleet.file_jobs().move(retry, nothing) == JobOutcome()
        assert [row.failures for row in await failed(world)] == [2]
        fleet.silent = set()
        made = await fleet.file_jobs().move(retry, nothing)

        assert made.events == (
            data.Synced(variant=V, blob=blob, kind="games", nodes=("far", "near", "other"), repair=True),
        )
        assert await failed(world) == []

    log(tmp_path, story)


def test_a_model_is_distributed_to_every_playing_node(tmp_path: Path) -> None:
    """Coordinators do not play and get none; a node that does not answer is named as missed."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here", profile="coordinator")
        for node in ("near", "far", "gone"):
            await world.beat(node, profile="selfplay")
        blob = await fleet.put(b"model", "near")
        await world.hold(blob, "near")
        fleet.silent = {"gone"}

        made = await fleet.file_jobs().move(Distribute(variant=V, model=blob), nothing)

        assert made.events == (model.Distributed(variant=V, model=blob, nodes=("far", "near"), missed=("gone",)),)
        assert await fleet.have(blob, "near", "far") == ["near", "far"]

    log(tmp_path, story)


def test_a_workloads_job_is_refused(tmp_path: Path) -> None:
    """A job that is not the node's own is refused for good."""

    async def story(world: World, fleet: Fleet) -> None:
        with pytest.raises(JobFailed, match="play is not a node's own job") as refused:
            await fleet.file_jobs().move(Play(variant=V, model="m", games=1), nothing)

        assert not refused.value.retry

    log(tmp_path, story)


def test_a_result_is_recorded_and_linked_to_its_inputs(tmp_path: Path) -> None:
    """The node holds the outputs of its worker, and lineage leads back to the inputs."""

    async def story(world: World, fleet: Fleet) -> None:
        batch = Artifact(kind="games", blob="b" * 64, size=1, meta={"games": 3})

        made = fleet.file_jobs().conclude(Play(variant=V, model="m" * 64, games=3), JobResult(outputs=(batch,)), FAKE)

        assert [event.name() for event in made.events] == ["selfplay.batch_finished"]
        assert made.events[0].ephemeral
        assert [(record.kind, record.id) for record in made.records] == [("holding", f"{'b' * 64}@here")]
        assert made.links == (("b" * 64, "m" * 64),)
        assert [(origin.blob, origin.node, origin.kind, origin.games) for origin in made.origins] == [
            ("b" * 64, "here", "games", 3)
        ]

    log(tmp_path, story)


def test_a_refused_batch_is_no_parent_of_the_samples(tmp_path: Path) -> None:
    """Lineage names only the batches that the samples rest on."""

    async def story(world: World, fleet: Fleet) -> None:
        samples = Artifact(kind="samples", blob="s" * 64, size=1, meta={"samples": 30, "games": 3})
        export = Export(variant=V, batches=("b" * 64, "c" * 64))

        made = fleet.file_jobs().conclude(export, JobResult(outputs=(samples,), refused=("c" * 64,)), FAKE)

        assert made.links == (("s" * 64, "b" * 64),)

    log(tmp_path, story)


def test_nodes_of_one_machine_are_near_each_other() -> None:
    """So that a second copy goes to another one, unless labels say otherwise; a hub is a place of its own."""
    places = {"a": {}, "b": {"site": "rack"}}
    rows = [
        NodeRecord(id=id, profile="full", address=f"/{id}", beat=1, machine="m", labels=labels)
        for id, labels in places.items()
    ]

    nodes = plan_nodes(rows, hubs={"far": 9})

    assert {id: node.site for id, node in nodes.items()} == {"a": "m", "b": "rack", "far": "far"}
