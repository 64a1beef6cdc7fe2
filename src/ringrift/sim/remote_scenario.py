"""Remote scenario: one seed of a cluster over the wire, from its start through faults to a healed world, and checks."""

import asyncio
import shutil
from random import Random

from ringrift.cluster.liveness import stored_states
from ringrift.cluster.roster import NODES, NodeState
from ringrift.events.selfplay import BatchFinished
from ringrift.pipeline.line import LINES
from ringrift.sim import checks
from ringrift.sim.loop import SimLoop
from ringrift.sim.recorder import RecordingStore, RecordingTx
from ringrift.sim.remote_faults import RemoteNemesis
from ringrift.sim.remote_world import COORDINATOR, WORKERS, RemoteWorld
from ringrift.sim.scenario import Outcome, run_quietly, watch_work
from ringrift.store.ports import Reads
from ringrift.work.game_ledger import find_imbalances

_FAULT_SECONDS, _HEAL_SECONDS_MAX = 12.0, 40.0
_EVERYTHING = 1_000_000
_WELL = (NodeState.ALIVE, NodeState.STARTING)


async def _play(loop: SimLoop, seed: int, engine: type[RecordingStore]) -> Outcome:
    world, violations = RemoteWorld(loop, seed, engine), list[str]()
    try:
        await world.boot()
        watch = loop.create_task(watch_work(world, violations))
        await RemoteNemesis(world, Random(world.rng.getrandbits(64))).run(_FAULT_SECONDS)
        violations += await _heal(world)
        watch.cancel()
        violations += await _judge(world)
    except AssertionError as error:
        violations.append(f"I18: {error}")
    finally:
        fingerprint, steps = loop.fingerprint(), loop.steps
        world.disk.unregister()
        shutil.rmtree(world.folder, ignore_errors=True)
    return Outcome(seed=seed, violations=violations, story=world.story, fingerprint=fingerprint, steps=steps)


async def _heal(world: RemoteWorld) -> list[str]:
    """Liveness: without faults every worker does jobs again and nothing waits in a spool."""
    end, before = world.loop.time() + _HEAL_SECONDS_MAX, world.results.copy()
    while world.loop.time() < end:
        await asyncio.sleep(0.5)
        idle = [member.id for member in WORKERS if world.results[member.id] < before[member.id] + 2]
        full = [name for name, worker in world.workers.items() if len(worker.spool.results) > 2]
        states = await world.query(_states) or {}
        away = {member.id: states.get(member.id, "unknown") for member in WORKERS if states.get(member.id) not in _WELL}
        if not idle and not full and not away:
            return []
    return [f"{_HEAL_SECONDS_MAX:g} s after the last fault: idle {idle}, with a full spool {full}, away {away}"]


async def _states(view: Reads) -> dict[str, NodeState]:
    return await stored_states(view, await NODES.all(view))


async def _judge(world: RemoteWorld) -> list[str]:
    """Stop everything in good order, and check every invariant."""
    await asyncio.gather(*map(world.stop, list(world.workers)))
    waiting = {name: len(list((world.folder / name).rglob("*.result"))) for name in world.keys}
    for name in list(world.waiting):
        await world.stop(name)
    await asyncio.sleep(2.0)  # the pipeline reads what came last
    assert world.holder is not None
    await world.stop(world.holder[0])
    violations: list[str] | None = await world.query(lambda tx: _check(tx, world))
    assert violations is not None, "the store cannot be read any more"
    left = [f"{count} results are in the spool of {name}, which has left" for name, count in waiting.items() if count]
    return violations + left + world.late


async def _find_lost(tx: RecordingTx, world: RemoteWorld) -> list[str]:
    """The results that were acknowledged to workers and are not there."""
    batches = [blob for _, _, blobs in world.acked for blob in blobs]
    origins = {origin.blob for origin in await tx.origins(batches)}
    finished, files = set(tx.history("finished")), world.blobs[COORDINATOR.id].files
    return checks.acknowledged_are_there(world.acked, finished, origins, files)


async def _check(tx: RecordingTx, world: RemoteWorld) -> list[str]:
    position = (await tx.positions())["pipeline"]
    announced = sum(name == BatchFinished.name() and at <= position for name, at in tx.history("appended"))
    claimed, done = [await tx.jobs((state,), _EVERYTHING) for state in ("claimed", "done")]
    return [
        *await _find_lost(tx, world),
        *checks.leases_have_one_holder(world.leased),
        *checks.batches_are_announced_once(tx.history("batch")),
        *checks.batches_are_announced_once([(row.key, 0) for row in done if row.key.startswith("island:")]),
        *checks.terms_never_go_back(tx.history("coordinated")),
        *checks.newest_holder_finishes_once(tx.history("claimed"), tx.history("finished")),
        *checks.fences_grow(tx.history("claimed")),
        *checks.readers_only_advance(tx.history("advanced")),
        *checks.terms_never_go_back(tx.history("led")),
        *checks.only_probes_fail(await tx.deliveries(("parked", "dead", "done"), _EVERYTHING)),
        *checks.batches_are_counted(await LINES.get(tx, "hex8_2p"), announced),
        *checks.slots_are_accounted(await find_imbalances(tx)),
        *[f"I17: job {job.key} is still claimed by {job.holder} after every node has stopped" for job in claimed],
    ]


def run_remote_seed(seed: int, engine: type[RecordingStore] = RecordingStore) -> Outcome:
    """Run one seed from beginning to end."""
    return run_quietly(seed, lambda loop: _play(loop, seed, engine))
