"""What can happen to the locks of programs, and to nodes that were cut off."""

from random import Random

from compat.embedded import embedded_on
from compat.scene import Scene
from ringrift import jobs
from ringrift.blobs.folder import FolderBlobs
from ringrift.coordinator import work_verbs
from ringrift.coordinator.serve import make_parts
from ringrift.coordinator.verbs import Peer
from ringrift.kernel.settings import Settings
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.work.remote_desk import IslandBatch
from ringrift.workload.api import Artifact, JobResult
from ringrift_compat.cluster import distributed_lock
from unit.pipeline.story import VARIANT, blob


async def a_program_takes_the_training_lock(scene: Scene) -> None:
    """It is free."""
    async with embedded_on(scene.world.store, scene.world.clock, "n1") as program:
        await scene.listen()
        assert await distributed_lock._acquire(program, VARIANT, 0.0)
        await scene.end_listening()


async def a_program_waits_for_the_training_lock_in_vain(scene: Scene) -> None:
    """Another one holds it."""
    async with embedded_on(scene.world.store, scene.world.clock, "n1") as first:
        assert await distributed_lock._acquire(first, VARIANT, 0.0)
        async with embedded_on(scene.world.store, scene.world.clock, "n2") as second:
            await scene.listen()
            assert await distributed_lock._acquire(second, VARIANT, 0.0) is None
            await scene.end_listening()


async def a_node_brings_what_it_played_alone(scene: Scene) -> None:
    """A worker that was cut off has played a batch without a lease, and is back."""
    world, model = scene.world, blob("champion")
    blobs = FolderBlobs(scene.folder / "here")
    [batch] = await blobs.put([b"games"])
    async with world.store.begin() as tx:
        await MODELS.put(tx, [Model(variant=VARIANT, model=model, generation=0, state=State.CHAMPION, since=0.0)])
    names = ("clock", "ids", "envelopes", "store", "router", "roster")
    parts = make_parts(
        {name: getattr(world, name) for name in names}
        | {"node_id": "here", "settings": Settings(), "rng": Random(1), "blobs": blobs}
    )
    job = jobs.Play(variant=VARIANT, model=model, games=10, seed=1)
    result = JobResult(outputs=(Artifact("games", batch, 5, {"games": 10}),))
    await scene.listen()
    await work_verbs._ingest_batch(
        Peer(node="far"), IslandBatch(epoch="e", number=1, body=jobs.encode(job), result=result), parts
    )
