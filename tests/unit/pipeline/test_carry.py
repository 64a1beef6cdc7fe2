"""A node copies what it is asked to copy, says what really is where, and loses nothing over one bad target."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.roster import NodeRecord
from ringrift.events import data, model
from ringrift.jobs import Distribute, Export, Play, Sync
from ringrift.kernel.errors import JobFailed, NodeAway, NoRoom, NoRoute
from ringrift.kernel.settings import Replicas, WorkSettings
from ringrift.pipeline.carry import Porter
from ringrift.sync.transfer import Transfer
from ringrift.workload.api import Artifact, JobResult
from unit.work.world import World, play

V = "hex8_2p"


class FullBlobs(FolderBlobs):
    """A folder on a disk without room."""

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        raise NoRoom(str(self.folder.root))


class Fleet:
    """Folders of some nodes, one of them ours, and which of them answer."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root = world, root
        self.silent: set[str] = set()
        self.full: set[str] = set()
        self.transfer = Transfer("here", world.store, self.at("here"), self.reach)

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

    def porter(self, copies_min: int = 2) -> Porter:
        record = NodeRecord(id="here", profile="full", address="", beat=0, ephemeral=True)
        return Porter(record, self.transfer, self.world.roster, Replicas(copies_min=copies_min), WorkSettings())


def told(folder: Path, story: Callable[[World, Fleet], Awaitable[None]]) -> None:
    """Run *story* with a fleet."""

    async def whole(world: World) -> None:
        await story(world, Fleet(world, folder))

    play(folder, whole)


def sync(blob: str, source: str = "near") -> Sync:
    """A wish for copies."""
    return Sync(variant=V, blob=blob, kind_of="games", source=source)


def nothing() -> None:
    """Nobody listens to how much has moved."""


def test_a_batch_gets_as_many_copies_as_the_policy_asks_for(tmp_path: Path) -> None:
    """One more copy is made here, bytes are reported, and the event names everyone that has it."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("here", "near", "far"):
            await world.beat(node)
        blob = await fleet.put(b"games", "near")
        moves: list[int] = []

        made = await fleet.porter().move(sync(blob), lambda: moves.append(1))

        assert made.events == (data.Synced(variant=V, blob=blob, kind="games", nodes=("here", "near")),)
        assert await fleet.have(blob, "here", "near", "far") == ["here", "near"]
        assert await world.holders(blob) == ["here", "near"]
        assert moves

    told(tmp_path, story)


def test_fewer_nodes_than_copies_is_not_an_error(tmp_path: Path) -> None:
    """On one machine one copy is all there can be."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here")
        blob = await fleet.put(b"games", "here")

        made = await fleet.porter(copies_min=3).move(sync(blob, "here"), nothing)

        assert made.events[0].nodes == ("here",)

    told(tmp_path, story)


def test_a_blob_that_nobody_has_cannot_be_copied(tmp_path: Path) -> None:
    """Then there is no route, and the blob is named."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here")

        with pytest.raises(NoRoute) as lost:
            await fleet.porter().move(sync("a" * 64), nothing)

        assert lost.value.blob == "a" * 64

    told(tmp_path, story)


def test_a_target_that_cannot_be_reached_does_not_make_the_games_lost(tmp_path: Path) -> None:
    """While good copies exist, one node that does not answer is passed over: the blob is not at fault."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("here", "far"):
            await world.beat(node)
        blob = await fleet.put(b"games", "here")
        fleet.silent = {"far"}

        made = await fleet.porter().move(sync(blob, "here"), nothing)

        assert made.events == (data.Synced(variant=V, blob=blob, kind="games", nodes=("here",)),)

    told(tmp_path, story)


def test_games_that_only_fleeting_machines_hold_are_not_safe_yet(tmp_path: Path) -> None:
    """While a durable node is there but away, the copy is not done: it must be tried again."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here", ephemeral=True)
        await world.beat("far")
        blob = await fleet.put(b"games", "here")
        fleet.silent = {"far"}

        with pytest.raises(JobFailed, match="only ephemeral nodes hold") as refused:
            await fleet.porter().move(sync(blob, "here"), nothing)

        assert refused.value.retry
        assert refused.value.blob is None

    told(tmp_path, story)


def test_a_full_disk_elsewhere_does_not_undo_a_copy(tmp_path: Path) -> None:
    """A target without room is passed over like one that is away: those that have the blob are told."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("near", "far"):
            await world.beat(node)
        blob = await fleet.put(b"games", "near")
        fleet.full = {"far"}

        made = await fleet.porter().move(sync(blob), nothing)

        assert made.events[0].nodes == ("near",)

    told(tmp_path, story)


def test_a_model_is_brought_to_every_node_that_plays(tmp_path: Path) -> None:
    """Coordinators do not play and get none; a node that does not answer is left out of what is said."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here", profile="coordinator")
        for node in ("near", "far", "gone"):
            await world.beat(node, profile="selfplay")
        blob = await fleet.put(b"model", "near")
        await world.hold(blob, "near")
        fleet.silent = {"gone"}

        made = await fleet.porter().move(Distribute(variant=V, model=blob), nothing)

        assert made.events == (model.Distributed(variant=V, model=blob, nodes=("far", "near")),)
        assert await fleet.have(blob, "near", "far") == ["near", "far"]

    told(tmp_path, story)


def test_a_workloads_job_is_not_moved(tmp_path: Path) -> None:
    """What is no node's own job is refused for good."""

    async def story(world: World, fleet: Fleet) -> None:
        with pytest.raises(JobFailed, match="play is not a node's own job") as refused:
            await fleet.porter().move(Play(variant=V, model="m", games=1), nothing)

        assert not refused.value.retry

    told(tmp_path, story)


def test_a_result_is_written_down_and_linked_to_what_it_came_from(tmp_path: Path) -> None:
    """The node holds what its worker made, and lineage leads back to the inputs."""

    async def story(world: World, fleet: Fleet) -> None:
        batch = Artifact(kind="games", blob="b" * 64, size=1, meta={"games": 3})

        made = fleet.porter().conclude(Play(variant=V, model="m" * 64, games=3), JobResult(outputs=(batch,)))

        assert [event.name() for event in made.events] == ["selfplay.batch_finished"]
        assert made.events[0].ephemeral
        assert [record.index for record in made.records] == [{"blob": "b" * 64, "node": "here"}]
        assert made.links == (("b" * 64, "m" * 64),)
        assert [(one.blob, one.node, one.kind, one.games) for one in made.origins] == [("b" * 64, "here", "games", 3)]

    told(tmp_path, story)


def test_what_an_export_refused_is_no_parent_of_its_samples(tmp_path: Path) -> None:
    """Lineage names what samples rest on, and nothing else."""

    async def story(world: World, fleet: Fleet) -> None:
        samples = Artifact(kind="samples", blob="s" * 64, size=1, meta={"samples": 30, "games": 3})
        export = Export(variant=V, batches=("b" * 64, "c" * 64))

        made = fleet.porter().conclude(export, JobResult(outputs=(samples,), refused=("c" * 64,)))

        assert made.links == (("s" * 64, "b" * 64),)

    told(tmp_path, story)
