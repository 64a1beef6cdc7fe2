"""``ringrift run``: a cluster on this machine goes round the loop, shows it, proves what it has learnt, and reports."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, TypeVar

import msgspec

from ringrift.cli import page, preset, proving, report, session
from ringrift.cli.environment import Effective, effective
from ringrift.cli.live import Live
from ringrift.cli.logs import start_logs
from ringrift.cli.session import Session, Times
from ringrift.events.pipeline import Opened
from ringrift.harness import Cluster, Member
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import NodeSettings, Policy, Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Stage
from ringrift.pipeline.proof import Finding
from ringrift.pipeline.records import lines
from ringrift.workload.registry import Registry

NODES_MAX = 64
LOOK_SECONDS = 0.2
EXIT_MISSED = 3
AUTO = "policy.auto"

T = TypeVar("T")


class Plan(Value):
    """Everything that is settled before a run begins."""

    settings: Settings
    nodes: tuple[Member, ...]
    home: str
    debug: bool
    times: Times
    spent_seconds: float = 0.0
    keeps: bool = False
    """Whether the next run on this store is to know of this one."""
    note: str = ""


def members(node: NodeSettings, count: int) -> list[Member]:
    """The nodes of a local cluster: this one with its profile, then a training node, then self-play nodes.

    Raises SettingsError if there cannot be so many.
    """
    if not 1 <= count <= NODES_MAX:
        raise SettingsError("--nodes", count, f"must lie between 1 and {NODES_MAX}")
    profiles = ["training_node", *["selfplay"] * (count - 2)]
    others = [Member(id=f"{node.id}-{n}", profile=profile) for n, profile in enumerate(profiles, 2)]
    return [Member(id=node.id, profile=node.profile, ephemeral=node.ephemeral), *others[: count - 1]]


def prepared(options: argparse.Namespace, given: Mapping[str, object]) -> Plan:
    """The plan of this run.  Raises UnknownName for a variant or workload that is not there, SettingsError."""
    found = effective(file=options.settings, given=given)
    if found.origins.get(AUTO) == "environment":
        given = {AUTO: True, **given}  # the variable is for programs that are their own node
    before = session.known(found.settings.store)
    choice = preset.choose(found, before.lines, preset.lacking())
    nodes = members(found.settings.node, preset.nodes(choice.workload) if options.nodes is None else options.nodes)
    found = effective(file=options.settings, given=given, preset=preset.of(choice.workload, len(nodes), preset.cores()))
    wanted = _variants(found, options)
    limits = session.times(options, choice.workload, before)
    iterations = options.iterations
    if iterations is None:
        iterations = 0 if limits.loop_seconds else preset.ITERATIONS
    policy = msgspec.structs.replace(
        found.settings.policy, variants=wanted, iterations_max=session.target(before.lines, wanted, iterations),
        seed=session.seed_of(options.seed, found, before, choice.workload),
    )  # fmt: skip
    return Plan(
        settings=preset.measured(msgspec.structs.replace(found.settings, policy=policy)), nodes=tuple(nodes),
        home=found.home, debug=found.debug, times=limits, note=choice.note,
        keeps=limits.loop_seconds is not None or options.seed is not None,
        spent_seconds=before.session.spent_seconds if before.session else 0.0,
    )  # fmt: skip


def _variants(found: Effective, options: argparse.Namespace) -> tuple[str, ...]:
    work = found.settings.work
    registry = Registry.load(work.executables, prefer=work.workload)
    registry.get(work.workload)
    wanted = tuple(options.variants.split(",")) if options.variants else found.settings.policy.variants
    for variant in wanted:
        registry.owner(variant, work.workload)
    return wanted


def _listen(stop: "asyncio.Future[int]") -> None:
    """First signal: stop in good order.  Second: stop now; children end with us, and the next start recovers."""

    def stopped(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        stop.set_result(128 + number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped, number)


async def go(plan: Plan, live: Live, clock: Clock) -> tuple[int, report.Report]:
    """Run until time is up, every line rests or a signal comes; the exit code and the report.  Raises Unreachable."""
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    _listen(stop)
    rng = Random(SystemRandom().getrandbits(64))
    policy, begun = plan.settings.policy, clock.now()
    async with Cluster.open(plan.settings, plan.nodes, clock, rng) as cluster:
        await proving.drop(cluster.store)
        if plan.keeps:
            await session.save(cluster.store, Session(seed=policy.seed, spent_seconds=plan.spent_seconds))
        start, began = cluster.store.position, clock.tick()
        opened = [Opened(variant=name, workload=plan.settings.work.workload) for name in policy.variants]
        await cluster.nodes[0].router.publish_many(opened, source="run")
        watching = asyncio.get_running_loop().create_task(live.follow(cluster, start, plan.times.loop_seconds))
        try:
            await _until(cluster, stop, watching, _loop_over(cluster, policy, plan.times.loop_seconds))
            found = None if stop.done() else await _proof(cluster, plan, stop, watching, live, clock, began)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if plan.keeps:
            spent = plan.spent_seconds + clock.tick() - began if stop.done() else 0.0
            await session.save(cluster.store, Session(seed=policy.seed, spent_seconds=spent))
        about = report.about(plan.settings, begun, clock.now())
        told = await report.gather(cluster.store, about, found or ())
    if stop.done():
        return stop.result(), told
    return EXIT_MISSED if any(not one.met for one in found or ()) else 0, told


async def _until(
    cluster: Cluster, stop: "asyncio.Future[int]", watching: "asyncio.Task[None]", end: Coroutine[Any, Any, T]
) -> T | None:
    """Wait for *end*, a signal or what breaks: what *end* came to, or None after a signal.  Raises Unreachable."""
    ending = asyncio.get_running_loop().create_task(end)
    broken = [node.supervisor.broken for node in cluster.nodes]
    try:
        ends: list[asyncio.Future[Any]] = [stop, ending, watching, *broken]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for failed in (*broken, watching):
            if failed.done():
                failed.result()
        return None if stop.done() else await ending
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _proof(
    cluster: Cluster, plan: Plan, stop: "asyncio.Future[int]", watching: "asyncio.Task[None]", live: Live, clock: Clock,
    began: float,
) -> tuple[Finding, ...] | None:  # fmt: skip
    """What a timed run has come to; None if it was not timed, or if it was stopped meanwhile."""
    if plan.times.all_seconds is None:
        return None
    policy = plan.settings.policy
    baselines = preset.BASELINES if plan.settings.work.workload == preset.REAL else {}
    await proving.settle(cluster)
    wanted = await proving.claims(cluster.store, policy, baselines)
    live.prove(wanted)
    until = began + plan.times.all_seconds
    try:
        playing = proving.prove(cluster, wanted, policy.seed, live.proven, clock=clock, until=until)
        return await _until(cluster, stop, watching, playing)
    finally:
        await proving.drop(cluster.store)


async def _loop_over(cluster: Cluster, policy: Policy, seconds: float | None) -> None:
    """Wait until time is up or every line rests."""
    try:
        async with asyncio.timeout(seconds):
            await _until_resting(cluster, policy)
    except TimeoutError:
        return


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
    """Run; 0 when all is done and shown, 3 when a claim was not shown, 130 or 143 when stopped by a signal."""
    plan = prepared(options, given)
    settings, clock = plan.settings, SystemClock()
    log = start_logs(plan.home, settings.sweep, debug=plan.debug, trace=settings.trace.debug)
    live = Live(sys.stdout, settings.policy, clock, table=sys.stdout.isatty() and not options.plain)
    if plan.note:
        live.line(plan.note)
    live.line(f"{len(plan.nodes)} nodes, workload {settings.work.workload}, store {settings.store.path}, log {log}")
    live.line(f"seed {settings.policy.seed}, variants {', '.join(settings.policy.variants)}{_limits(plan.times)}")
    code, done = asyncio.run(go(plan, live, clock))
    print("\n" + report.as_text(done))
    path = Path(options.report) if options.report else Path(plan.home) / "report.json"
    path.write_text(report.as_json(done))
    sheet = path.with_suffix(".html")
    sheet.write_text(page.as_page(done))
    stopped = code not in (0, EXIT_MISSED)
    print(f"\nreport: {path}, to be read: {sheet}" + ("   (stopped early; run again to go on)" if stopped else ""))
    return code


def _limits(times: Times) -> str:
    return "" if times.loop_seconds is None else f", {times.loop_seconds / 60:.1f} minutes and then the proof"
