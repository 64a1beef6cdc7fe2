"""Scenario: run one seed from power-on through forty seconds of faults to a healed world, and check every invariant."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.value import Value
from ringrift.pipeline.line import LINES
from ringrift.sim import checks
from ringrift.sim.faults import Nemesis
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.probe import EFFECT, POISON, Probes
from ringrift.sim.recorder import RecordingStore, RecordingTx
from ringrift.sim.world import SETTINGS, World
from ringrift.store.ports import Reads
from ringrift.work.game_ledger import find_imbalances

_FAULT_SECONDS, _HEAL_SECONDS_MAX, _WATCH_SECONDS = 40.0, 60.0, 1.0
_EVERYTHING = 1_000_000


class Outcome(Value):
    """What a seed led to."""

    seed: int
    violations: list[str]
    story: list[str]
    fingerprint: str
    steps: int


async def _effects(view: Reads) -> Mapping[str, int]:
    return {id: int(count) for id, count in (await view.scan(EFFECT, "", _EVERYTHING)).items()}


async def watch_work(world: World, violations: list[str]) -> None:
    """I7 holds at all times, not only at the end."""

    async def check(tx: RecordingTx) -> list[str]:
        slots = checks.slots_are_accounted(await find_imbalances(tx))
        return checks.work_is_conserved(len(tx.history("enqueued")), tx.job_states(), await tx.count_jobs()) + slots

    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        violations += await world.query(check) or []


async def _check(tx: RecordingTx, probes: Probes, dead: set[str], destroyed: set[str]) -> list[str]:
    """The violations of every invariant in the history of the store.

    *dead* are the probes that are still dead; of the blobs in *destroyed* copies were destroyed.
    """
    effects, position = await _effects(tx), (await tx.positions())["pipeline"]
    batches = sum(name == BatchFinished.name() and at <= position for name, at in tx.history("appended"))
    deliveries = await tx.deliveries(("parked", "dead", "done"), _EVERYTHING)
    claimed = await tx.jobs(("claimed",), _EVERYTHING)
    return [
        *checks.acked_are_stored(probes.acked, effects.keys() | dead),
        *checks.acked_are_settled(probes.acked, effects, dead),
        *checks.acked_are_handled(probes.acked, probes.handled),
        *checks.effects_are_single(effects),
        *checks.nothing_is_invented(effects, set(probes.published)),
        *checks.readers_only_advance(tx.history("advanced")),
        *checks.newest_holder_finishes_once(tx.history("claimed"), tx.history("finished")),
        *checks.fences_grow(tx.history("claimed")),
        *checks.terms_never_go_back(tx.history("led")),
        *checks.dead_letters_are_complete(deliveries, SETTINGS.bus.redelivery.tries),
        *checks.only_probes_fail(deliveries),
        *checks.no_node_decides_alone(tx.dead_jobs(), tx.history("held")),
        *checks.absent_blobs_are_not_lost(tx.history("lost"), destroyed),
        *checks.batches_are_counted(await LINES.get(tx, "hex8_2p"), batches),
        *checks.slots_are_accounted(await find_imbalances(tx)),
        *[f"I17: job {job.key} is still claimed by {job.holder} after every node has stopped" for job in claimed],
    ]


async def _play(loop: SimLoop, seed: int, engine: type[RecordingStore]) -> Outcome:
    world = World(loop, seed, engine)
    violations: list[str] = []
    try:
        await world.boot()
        watch = loop.create_task(watch_work(world, violations))
        nemesis = Nemesis(world, Random(world.rng.getrandbits(64)))
        await nemesis.run(_FAULT_SECONDS)
        violations += nemesis.slow_stops
        violations += await _heal(world)
        watch.cancel()
        violations += await _judge(world, nemesis.destroyed)
    except AssertionError as error:
        violations.append(f"I18: {error}")
    finally:
        fingerprint, steps = loop.fingerprint(), loop.steps
        world.disk.unregister()
    return Outcome(seed=seed, violations=violations, story=world.story, fingerprint=fingerprint, steps=steps)


async def _heal(world: World) -> list[str]:
    """Liveness: without faults, acknowledged events are settled, the loop makes progress and no daemon rests."""
    end = world.loop.time() + _HEAL_SECONDS_MAX
    acked, before = list(world.probes.acked), await world.query(_batches) or 0
    while world.loop.time() < end:
        await asyncio.sleep(1.0)
        effects = await world.query(_effects) or {}
        unsettled = [id for id in acked if id not in effects and not id.startswith(POISON)]
        progress = (await world.query(_batches) or 0) > before
        reports = [(name, report) for name, node in world.nodes.items() for report in node.supervisor.statuses()]
        given_up = [f"{r.name} on {name}: {r.last_error}" for name, r in reports if r.state == "failed"]
        if not unsettled and progress and not given_up:
            return []
    late = [f"daemons are given up for good: {given_up}"] if given_up else []
    late += [f"I2: not settled {_HEAL_SECONDS_MAX:g} s after the last fault: {unsettled[:5]}"] if unsettled else []
    return late if progress else [*late, f"the loop made no progress in {_HEAL_SECONDS_MAX:g} s after the last fault"]


async def _batches(view: Reads) -> int:
    line = await LINES.get(view, "hex8_2p")
    return line.counts.batches if line else 0


async def _judge(world: World, destroyed: set[str]) -> list[str]:
    """Stop the publishers, repair the reader, replay the dead letters, and check every invariant."""
    world.probes.paused = world.probes.repaired = True
    for _ in range(int(_HEAL_SECONDS_MAX)):
        await asyncio.sleep(1.0)
        if await world.query(lambda tx: tx.deliveries(("parked",), _EVERYTHING)) == []:
            break
    for name in list(world.nodes):
        if name != "n1":
            await world.stop(name)
    dead = await _replay_all(world)
    for _ in range(int(_HEAL_SECONDS_MAX)):
        if not checks.acked_are_handled(world.probes.acked, world.probes.handled):
            break
        await asyncio.sleep(1.0)
    await world.stop("n1")
    violations: list[str] | None = await world.query(lambda tx: _check(tx, world.probes, dead, destroyed))
    assert violations is not None, "the store cannot be read any more"
    return violations


async def _replay_all(world: World) -> set[str]:
    """I9: replay every dead letter twice; one effect each.  Returns the ids of those that are still dead."""
    node, still_dead = world.nodes["n1"], set[str]()
    reader = node.supervisor.readers["probe"]
    async with node.store.read() as view:
        dead = await view.deliveries(("dead",), _EVERYTHING, "probe")
        names = {e.position: e.id for delivery in dead for e in await view.read(delivery.position - 1, 1)}
    # The role may be moving to another node: replay once this node has it.
    await world.until(lambda: node.roles.holds("pipeline"), 20.0, "leading the pipeline")
    for delivery in dead:
        [again] = await node.router.deliverer.redeliver(reader, [delivery])
        if again.state != "done":
            still_dead.add(names[delivery.position])
    return still_dead


def run_seed(seed: int, engine: type[RecordingStore] = RecordingStore) -> Outcome:
    """Run one seed from beginning to end."""
    return run_quietly(seed, lambda loop: _play(loop, seed, engine))


def run_quietly(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Run *main* without logs: the story tells it; a record would keep what the world has dropped."""
    level = logging.root.manager.disable
    logging.disable()
    try:
        return run(seed, main)
    finally:
        logging.disable(level)
