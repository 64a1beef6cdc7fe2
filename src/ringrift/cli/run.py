"""``ringrift run``: a cluster on this machine goes round the loop, shows it, and ends with a report."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import msgspec

from ringrift.cli import report
from ringrift.cli.environment import Effective, effective
from ringrift.cli.live import Live
from ringrift.cli.logs import start_logs
from ringrift.cli.store import existing
from ringrift.events.pipeline import Opened
from ringrift.harness import Cluster, Member
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import NodeSettings, Policy, Settings
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import lines
from ringrift.workload.registry import Registry

NODES_MAX = 64
LOOK_SECONDS = 0.2


def members(node: NodeSettings, count: int) -> list[Member]:
    """The nodes of a local cluster: this one with its profile, then a training node, then self-play nodes.

    Raises SettingsError if there cannot be so many.
    """
    if not 1 <= count <= NODES_MAX:
        raise SettingsError("--nodes", count, f"must lie between 1 and {NODES_MAX}")
    profiles = ["training_node", *["selfplay"] * (count - 2)]
    others = [Member(id=f"{node.id}-{n}", profile=profile) for n, profile in enumerate(profiles, 2)]
    return [Member(id=node.id, profile=node.profile, ephemeral=node.ephemeral), *others[: count - 1]]


def target(known: Sequence[Line], wanted: Sequence[str], iterations: int) -> int | None:
    """Promotions after which a line rests: a run that was cut short goes on to its end, a finished one starts anew."""
    if iterations < 0:
        raise SettingsError("--iterations", iterations, "must be 0 or more")
    if iterations == 0:
        return None
    mine = {line.variant: line for line in known if line.variant in wanted}
    resting = [line.iteration for line in mine.values() if line.stage is Stage.RESTING]
    if resting and len(resting) == len(wanted):
        return max(resting) + iterations
    return max([iterations, *resting])


def prepared(found: Effective, options: argparse.Namespace) -> Settings:
    """The settings of this run.  Raises UnknownName for a variant or workload that is not there."""
    settings = found.settings
    registry = Registry.load(settings.work.executables, prefer=settings.work.workload)
    registry.get(settings.work.workload)
    wanted = tuple(options.variants.split(",")) if options.variants else settings.policy.variants
    for variant in wanted:
        registry.owner(variant, settings.work.workload)
    known: Sequence[Line] = ()
    if Path(settings.store.path).exists():
        known = asyncio.run(_lines(settings))
    policy = msgspec.structs.replace(
        settings.policy, variants=wanted, iterations_max=target(known, wanted, options.iterations)
    )
    return msgspec.structs.replace(settings, policy=policy)


async def _lines(settings: Settings) -> list[Line]:
    async with existing(settings.store) as store, store.read() as view:
        return await lines(view)


def _listen(stop: "asyncio.Future[int]") -> None:
    """First signal: stop in good order.  Second: stop now; children end with us, and the next start recovers."""

    def stopped(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        stop.set_result(128 + number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped, number)


async def go(settings: Settings, nodes: Sequence[Member], live: Live) -> tuple[int, report.Report]:
    """Run until every line rests or a signal comes; the exit code and the report.  Raises Unreachable."""
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    _listen(stop)
    rng = Random(SystemRandom().getrandbits(64))
    async with Cluster.open(settings, nodes, SystemClock(), rng) as cluster:
        router = cluster.nodes[0].router
        start = cluster.store.position
        opened = [Opened(variant=name, workload=settings.work.workload) for name in settings.policy.variants]
        await router.publish_many(opened, source="run")
        watching = asyncio.get_running_loop().create_task(live.follow(cluster, start))
        resting = asyncio.get_running_loop().create_task(_until_resting(cluster, settings.policy))
        broken = [node.supervisor.broken for node in cluster.nodes]
        ends: list[asyncio.Future[Any]] = [stop, resting, watching, *broken]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, resting):
            task.cancel()
        await asyncio.gather(watching, resting, return_exceptions=True)
        for failed in broken:
            if failed.done():
                failed.result()
        return stop.result() if stop.done() else 0, await report.gather(cluster.store)


async def _until_resting(cluster: Cluster, policy: Policy) -> None:
    """Wait until every line has its promotions: one that rests from before has to be woken by its event first."""
    goal = policy.iterations_max
    if goal is None:
        await asyncio.get_running_loop().create_future()
    assert goal is not None
    while True:
        async with cluster.store.read() as view:
            found = await lines(view)
        done = {line.variant for line in found if line.stage is Stage.RESTING and line.iteration >= goal}
        if done >= set(policy.variants):
            return
        await cluster.store.wait(None, LOOK_SECONDS)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Run; 0 when every line has its promotions, 130 or 143 when stopped by a signal."""
    found = effective(file=options.settings, given=given)
    settings = prepared(found, options)
    nodes = members(settings.node, options.nodes)
    log = start_logs(found.home, settings.sweep, debug=found.debug, trace=settings.trace.debug)
    live = Live(sys.stdout, settings.policy, table=sys.stdout.isatty() and not options.plain)
    live.line(f"{len(nodes)} nodes, workload {settings.work.workload}, store {settings.store.path}, log {log}")
    code, done = asyncio.run(go(settings, nodes, live))
    print("\n" + report.as_text(done))
    path = Path(options.report) if options.report else Path(found.home) / "report.json"
    path.write_text(report.as_json(done))
    print(f"\nreport: {path}" + ("" if code == 0 else "   (stopped early; run again to go on)"))
    return code
