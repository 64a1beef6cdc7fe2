"""Run one node in the foreground until Ctrl-C or SIGTERM; it works on the lines of the store, and opens those named."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping
from random import Random, SystemRandom
from typing import Any

from ringrift.cli.command import Command, Context, Output, Parser, parse_overrides
from ringrift.cli.commands.run import stop_on_signal
from ringrift.cli.live import Live
from ringrift.cli.logs import log_events, start_logs
from ringrift.cli.run_plan import make_plan, read_previous
from ringrift.environment import EffectiveSettings
from ringrift.events.pipeline import Opened
from ringrift.harness import Cluster, settings_of
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import changed
from ringrift.node import Node
from ringrift.pipeline.line_settings import LINE_SETTINGS, LineSettings
from ringrift.store.ports import Store
from ringrift.threads import beside

_NOT_SET = ("default", "preset", "store")  # origins of a setting that no person has chosen


def _arguments(parser: Parser) -> None:
    variants = "open these lines (default: policy.variants if it is set, else none)"
    parser.add_argument("--variants", metavar="A,B", help=variants)


async def serve_node(
    settings: Settings,
    lines: Mapping[str, LineSettings],
    live: Live,
    clock: Clock,
    rng: Random,
    *,
    store: Store | None = None,
    stop: "asyncio.Future[int] | None" = None,
) -> None:
    """Work until a signal comes, or *stop* is done.

    Raises Unreachable if the store breaks, and NotLeader if another node leads here.
    """
    if stop is None:
        stop = asyncio.get_running_loop().create_future()
        stop_on_signal(stop, live)
    # Unlike a run it names no lines to Node.open: it serves all of the store, and none has to rest for those it opens.
    async with Node.open(settings, clock, rng, store=store) as node:
        log_events([node])
        start, cluster = node.store.position, Cluster(node.store, [node])
        async with node.store.begin() as tx:
            await LINE_SETTINGS.put_at(tx, lines)
        opened = [Opened(variant=variant, workload=line.workload) for variant, line in lines.items()]
        await node.router.publish_many(opened, source="node")
        async with beside(live.follow(cluster, start)) as following:
            ends: list[asyncio.Future[Any]] = [node.supervisor.broken, following, stop]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            next(end for end in ends if end.done()).result()


def chosen_variants(effective: EffectiveSettings) -> tuple[str, ...]:
    """The variants that a person has chosen; none if they come from a preset or the store."""
    is_set = effective.origins.get("policy.variants", "default") not in _NOT_SET
    return effective.settings.policy.variants if is_set else ()


def _prepare(context: Context) -> Output:
    """Exit code 0 after a signal, which is its normal end; a second one ends it at once."""
    options = Namespace(**vars(context.options), nodes=1, minutes=0.0, iterations=0, seed=None)
    if coordinators := context.settings.node.coordinators:
        reason = "a node has a store of its own; to work for a coordinator use  ringrift join, or unset it"
        raise SettingsError("node.coordinators", ", ".join(coordinators), reason)
    plan = make_plan(options, parse_overrides(options.set))
    settings, effective = plan.settings, plan.effective
    variants = chosen_variants(effective)
    trace, own = settings.trace.debug, settings.node.id
    log = start_logs(effective.home, settings.sweep, debug=effective.debug, trace=trace, node=own)
    previous = asyncio.run(read_previous(settings.store)).lines
    policy = changed(settings.policy, variants=tuple({*variants, *(line.variant for line in previous)}))
    live = Live(sys.stdout, policy, context.clock, table=False)
    work = f"workload {settings.work.workload}, store {settings.store.path}, log {log}"
    texts = f"opens {', '.join(variants)}" if variants else "opens no line"
    live.line(f"node {settings.node.id} ({settings.node.profile}): {work}")
    live.line(f"{texts}; until Ctrl-C or SIGTERM")
    lines = {variant: plan.lines[variant] for variant in variants}
    rng = Random(SystemRandom().getrandbits(64))
    asyncio.run(serve_node(settings_of(settings, plan.nodes[0]), lines, live, context.clock, rng))
    return Output(value=None, text=f"node {settings.node.id} has stopped")


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None, starts_node=True)
