"""Scenario: one seed from power-on over forty seconds of faults to a healed world that has kept every promise."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from ringrift.bus import dead_letters
from ringrift.events.selfplay import BatchFinished
from ringrift.pipeline.records import load
from ringrift.sim import checks
from ringrift.sim.faults import Nemesis
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.probe import EFFECT, POISON
from ringrift.sim.recording import RecordingStore, RecordingTx
from ringrift.sim.world import SETTINGS, World
from ringrift.store.ports import Reads

FAULT_SECONDS = 40.0
HEAL_SECONDS_MAX = 60.0
WATCH_SECONDS = 1.0
EVERYTHING = 1_000_000


class Outcome:
    """What came of a seed."""

    def __init__(self, seed: int, broken: list[str], story: list[str], fingerprint: str, steps: int) -> None:
        self.seed, self.broken, self.story, self.fingerprint, self.steps = seed, broken, story, fingerprint, steps


async def _effects(view: Reads) -> Mapping[str, int]:
    return {record.id: int(record.body) for record in await view.scan(EFFECT, "", EVERYTHING)}


async def _conserved(tx: RecordingTx) -> list[str]:
    return checks.work_is_conserved(tx.count("enqueued"), tx.count_jobs(), await tx.tally())


async def _watch_work(world: World, broken: list[str]) -> None:
    """I7 holds at all times, not only at the end."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        broken += await world.ask(_conserved) or []


async def _history(tx: RecordingTx) -> dict[str, Any]:
    told, read = tx.history("told"), (await tx.places())["pipeline"]
    return {
        "stored": {record.id for record in await tx.scan(EFFECT, "", EVERYTHING)},
        "effects": await _effects(tx),
        "advanced": tx.history("advanced"),
        "claimed": tx.history("claimed"),
        "finished": tx.history("finished"),
        "led": tx.history("led"),
        "letters": await tx.deliveries(("parked", "dead", "done"), EVERYTHING),
        "line": await load(tx, "hex8_2p"),
        "batches": sum(name == BatchFinished.name() and at <= read for name, at in told),
    }


async def _quiet(world: World) -> bool:
    """Whether no delivery waits for its next try."""

    async def look(tx: RecordingTx) -> bool:
        return not await tx.deliveries(("parked",), EVERYTHING)

    return bool(await world.ask(look))


async def play(loop: SimLoop, seed: int, engine: type[RecordingStore]) -> Outcome:
    """Play one seed on *loop*."""
    world = World(loop, seed, engine)
    broken: list[str] = []
    try:
        await world.boot()
        watching = loop.create_task(_watch_work(world, broken))
        nemesis = Nemesis(world, Random(world.rng.getrandbits(64)))
        await nemesis.rage(FAULT_SECONDS)
        broken += nemesis.slow_stops
        broken += await _heal(world)
        watching.cancel()
        broken += await _judge(world)
    except AssertionError as wrong:
        broken.append(f"I18: {wrong}")
    finally:
        fingerprint, steps = loop.fingerprint(), loop.steps
        world.disk.close()
    return Outcome(seed, broken, world.story, fingerprint, steps)


async def _heal(world: World) -> list[str]:
    """Liveness: with nothing going wrong any more, what was acknowledged is settled and the loop goes on, in time."""
    end = world.loop.time() + HEAL_SECONDS_MAX
    acked, before = list(world.probes.acked), await world.ask(_batches) or 0
    while world.loop.time() < end:
        await asyncio.sleep(1.0)
        effects = await world.ask(_effects) or {}
        rest = [id for id in acked if id not in effects and not id.startswith(POISON)]
        grown = (await world.ask(_batches) or 0) > before
        if not rest and grown:
            return []
    late = [f"I2: not settled {HEAL_SECONDS_MAX:g} s after healing: {rest[:5]}"] if rest else []
    return late if grown else [*late, f"the loop has not gone on {HEAL_SECONDS_MAX:g} s after healing"]


async def _batches(view: Reads) -> int:
    line = await load(view, "hex8_2p")
    return line.counts.batches if line else 0


async def _judge(world: World) -> list[str]:
    """Stop the publishers, cure the poison, replay what is dead by hand, and check every promise."""
    world.probes.resting = world.probes.cured = True
    for _ in range(int(HEAL_SECONDS_MAX)):
        await asyncio.sleep(1.0)
        if await _quiet(world):
            break
    for name in list(world.nodes):
        if name != "n1":
            await world.stop(name)
    letters = await _replay_all(world)
    for _ in range(int(HEAL_SECONDS_MAX)):
        if not checks.acked_are_handled(world.probes.acked, world.probes.handled):
            break
        await asyncio.sleep(1.0)
    await world.stop("n1")
    history = await world.ask(_history)
    assert history is not None, "the store cannot be read any more"
    probes, effects = world.probes, history["effects"]
    left = await world.ask(lambda tx: tx.jobs(("claimed",), EVERYTHING))
    return [
        *checks.acked_are_stored(probes.acked, history["stored"] | letters),
        *checks.acked_are_settled(probes.acked, effects, letters),
        *checks.acked_are_handled(probes.acked, probes.handled),
        *checks.effects_are_single(effects),
        *checks.nothing_is_invented(effects, set(probes.tried)),
        *checks.readers_only_advance(history["advanced"]),
        *checks.newest_holder_finishes_once(history["claimed"], history["finished"]),
        *checks.fences_grow(history["claimed"]),
        *checks.terms_never_go_back(history["led"]),
        *checks.letters_are_told(history["letters"], SETTINGS.bus.redelivery.tries),
        *checks.only_probes_fail(history["letters"]),
        *checks.batches_are_counted(history["line"], history["batches"]),
        *[f"I17: job {job.key} is still claimed by {job.holder} after every node has stopped" for job in left],
    ]


async def _replay_all(world: World) -> set[str]:
    """I9: replay every dead letter twice; one effect each.  The ids of those that are still dead."""
    node, still = world.nodes["n1"], set[str]()
    reader = node.readers["probe"]
    async with node.store.read() as view:
        dead = await view.deliveries(("dead",), EVERYTHING, "probe")
        names = {e.position: e.id for letter in dead for e in await view.read(letter.position - 1, 1)}
    # The role may be changing hands: replay under the guard of whoever leads now.
    await world.until(lambda: node.roles.holds("pipeline"), 20.0, "leading the pipeline")
    for letter in dead:
        await dead_letters.replay(node.store, node.router.courier, reader, letter.position)
        [again] = await node.router.courier.again(reader, [letter])
        if again.state != "done":
            still.add(names[letter.position])
    return still


def run_seed(seed: int, engine: type[RecordingStore] = RecordingStore) -> Outcome:
    """Run one seed from beginning to end."""
    return run(seed, lambda loop: play(loop, seed, engine))
