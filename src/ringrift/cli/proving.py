"""Proving: has the matches played that show what a run has come to, on the cluster that it ran on."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ringrift.daemons import COORDINATES
from ringrift.events import catalog
from ringrift.events.evaluation import BlocksPlayed
from ringrift.harness import Cluster
from ringrift.jobs import PROOF
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Policy
from ringrift.pipeline import proof
from ringrift.pipeline.proof import Claim, Finding
from ringrift.pipeline.records import decisions_of, load
from ringrift.store.ports import JobRow, Reads, Store

LOOK_SECONDS = 0.5
EVENTS_MAX, JOBS_MAX = 10_000, 10_000
ASKERS = ("fill", "pipeline", "trust")
"""Daemons that ask for work.  They read the log, so what happens while they stand still is taken up by the next run."""

Progress = Callable[[float], None]


async def drop(store: Store) -> None:
    """Forget matches of a proof that was cut short: their champion may be one no more."""
    async with store.begin() as tx:
        await tx.cancel(PROOF)


async def settle(cluster: Cluster) -> None:
    """Ask for no more work: jobs that run come to their end, and no line moves until the next run."""
    for node in cluster.nodes:
        if node.record.profile in COORDINATES:
            for name in ASKERS:
                await node.supervisor.stop(name)


async def prove(
    cluster: Cluster, wanted: Sequence[Claim], seed: int, told: Progress, *, clock: Clock, until: float
) -> tuple[Finding, ...]:
    """Play what proves *wanted* and judge it, at tick *until* with what there is by then."""
    start = cluster.store.position
    await cluster.nodes[0].desk.ask(proof.asked(wanted, seed))
    while True:
        async with cluster.store.read() as view:
            under_way = await view.jobs(("ready", "claimed"), JOBS_MAX)
            events = await _played(view, start)
            dead = await view.jobs(("dead",), JOBS_MAX)
        told(proof.done(wanted, events))
        if clock.tick() >= until or not any(job.key.startswith(PROOF) for job in under_way):
            return tuple(_explained(proof.judge(claim, events), dead) for claim in wanted)
        await cluster.store.wait(None, LOOK_SECONDS)


async def claims(store: Store, policy: Policy, baselines: Mapping[str, Sequence[str]]) -> tuple[Claim, ...]:
    """What is to be shown of each variant of *policy* as it stands."""
    found: list[Claim] = []
    async with store.read() as view:
        for variant in policy.variants:
            line, decisions = await load(view, variant), await decisions_of(view, variant)
            found += proof.claims(variant, line, decisions, policy, baselines.get(variant, ()))
    return tuple(found)


def _explained(finding: Finding, dead: Sequence[JobRow]) -> Finding:
    """*finding* with the error of a match that was given up, if that is why it has too few games."""
    key = f"{PROOF}{finding.variant}:{finding.model}:{finding.opponent}:"
    errors = [job.error for job in dead if job.key.startswith(key)]
    if finding.met or not errors or finding.n >= proof.GAMES_MIN:
        return finding
    return msgspec.structs.replace(finding, why=f"{finding.why}; a match was given up: {errors[-1]}")


async def _played(view: Reads, start: int) -> list[BlocksPlayed]:
    envelopes = await view.read(start, EVENTS_MAX, (BlocksPlayed.name(),))
    events = [catalog.decode(envelope.name, envelope.body) for envelope in envelopes]
    return [event for event in events if isinstance(event, BlocksPlayed)]
