"""No file is expected on a node whose files cannot be reached, and nothing waits for it."""

from pathlib import Path

from ringrift.cluster.roster import NodeRecord
from ringrift.events import data, model
from ringrift.jobs import Distribute
from ringrift.kernel.transfer_settings import Replicas
from ringrift.pipeline.health_survey import _thin_blobs
from ringrift.pipeline.line import LINES, Line
from unit.pipeline.test_file_jobs import Fleet, V, log, nothing, sync
from unit.work.world import World

WORKER = NodeRecord(id="w1", profile="full", address="", beat=1)


def test_a_batch_of_a_worker_is_copied_between_the_others(tmp_path: Path) -> None:
    """The worker that made it is neither asked nor counted, though it would take a copy."""

    async def story(world: World, fleet: Fleet) -> None:
        for node in ("here", "near"):
            await world.beat(node)
        await world.roster.put(WORKER)
        blob = await fleet.put(b"games", "here")

        made = await fleet.file_jobs(copies_min=3).move(sync(blob, "w1"), nothing)

        assert made.events == (data.Synced(variant=V, blob=blob, kind="games", nodes=("here", "near")),)
        assert await fleet.have(blob, "w1") == []

    log(tmp_path, story)


def test_a_champion_is_not_brought_to_a_worker(tmp_path: Path) -> None:
    """It fetches the model when it plays, so it was neither reached nor missed."""

    async def story(world: World, fleet: Fleet) -> None:
        await world.beat("here")
        await world.roster.put(WORKER)
        blob = await fleet.put(b"model", "here")

        made = await fleet.file_jobs().move(Distribute(variant=V, model=blob), nothing)

        assert made.events == (model.Distributed(variant=V, model=blob, nodes=("here",)),)
        assert await fleet.have(blob, "w1") == []

    log(tmp_path, story)


def test_workers_do_not_make_a_file_look_thin(tmp_path: Path) -> None:
    """One node with files and a hundred workers: one copy is all there can be."""

    async def story(world: World, fleet: Fleet) -> None:
        blob = await fleet.put(b"model", "here")
        await world.hold(blob, "here")
        async with world.store.begin() as tx:
            await LINES.put(tx, [Line(variant=V, workload="fake", players=2, champion=blob)])
        here = NodeRecord(id="here", profile="full", address="/blobs", beat=1)
        async with world.store.read() as view:
            assert await _thin_blobs(view, [here, WORKER], Replicas(copies_min=2)) == []

    log(tmp_path, story)
