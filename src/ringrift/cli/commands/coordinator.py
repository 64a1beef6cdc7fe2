"""Run the coordinator of a cluster until Ctrl-C or SIGTERM: the store, and one port at which other machines join."""

import asyncio
import logging
import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from random import Random, SystemRandom

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cli.command import Command, Context, Output, Parser, parse_overrides
from ringrift.cli.commands.node import chosen_variants, serve_node
from ringrift.cli.commands.run import stop_on_signal
from ringrift.cli.live import Live
from ringrift.cli.logs import start_logs
from ringrift.cli.run_plan import make_plan, read_previous
from ringrift.cluster.served import record_served, wait_until_served
from ringrift.cluster.standby import HolderWatch, end_alerts, require_own_place, wait_for_lock
from ringrift.environment import EffectiveSettings, read_settings, take_token
from ringrift.events.base import Event
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NodeAway, NotLeader, SettingsError, Unreachable
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings, WireSettings
from ringrift.kernel.value import changed
from ringrift.node import open_node_store
from ringrift.pipeline.line_settings import LineSettings
from ringrift.store.open import find_coordinator, only_coordinator, open_store, store_exists
from ringrift.store.ports import Store
from ringrift.threads import beside
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Reply, Request, error_reply
from ringrift.wire.tls import own_settings

SERVES_AT = "serves workers at"  #: Before the address, in what a coordinator prints once it listens.
_SERVE_SECONDS = 60.0  # how long one wait for the address lasts
_OPEN_SECONDS = 1.0  # between two tries of a standby to open a store that is not there yet
log = logging.getLogger(__name__)


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("--bind", metavar="ADDRESS", help="listen at this address (default: 127.0.0.1, this machine alone)")
    add("--port", type=int, metavar="N", help="listen at this port (default: RINGRIFT_P2P_PORT or 8770; 0: a free one)")
    add("--insecure", action="store_true", help="listen beyond this machine without TLS; keys are still required")
    add("--work", action="store_true", help="also do jobs here (default: leave all of them to workers)")
    add("--variants", metavar="A,B", help="open these lines (default: policy.variants if it is set, else none)")
    add("--standby", action="store_true", help="wait until the coordinator of this home has died, then take over")
    add("--kill-hung", action="store_true", help="with --standby: kill a coordinator that is stopped or hung first")
    add("--adopt", action="store_true", help="lead a store that was copied or moved here; the first one must be gone")


def _overrides(options: Namespace) -> dict[str, object]:
    """The settings that the options stand for; those of ``--set`` win."""
    typed = {"wire.bind": options.bind, "wire.port": options.port, "wire.insecure": options.insecure or None}
    profile = "full" if options.work else "coordinator"
    fixed = {"node.profile": profile, "node.coordinators": (), "wire.serve": True}
    return fixed | {key: value for key, value in typed.items() if value is not None} | parse_overrides(options.set)


async def _adopt(settings: Settings, clock: Clock) -> None:
    """Record that the store belongs here; no coordinator of it may run on this machine."""
    with only_coordinator(settings.store, settings.node.id):
        async with open_store(settings.store, clock) as store:
            await require_own_place(store, settings.store, adopt=True)


async def _watch_holder(settings: Settings, clock: Clock, killed: list[Event], *, kill_hung: bool) -> None:
    """Watch the coordinator that runs, for ever; what is to be published about one that was killed goes to *killed*."""
    envelopes = EnvelopeFactory(settings.node.id, clock, Ids(clock, SystemRandom()))
    while True:
        if store_exists(settings.store):
            try:
                async with open_store(settings.store, clock, existing=True) as store:
                    parts = (settings.store, settings.cluster)
                    watch = HolderWatch(store, parts, clock, envelopes, kill_hung=kill_hung, report=_warn)
                    watch.killed = killed
                    await watch.run()
            except Unreachable as error:
                log.warning("cannot watch the coordinator: %s", error)
        await asyncio.sleep(_OPEN_SECONDS)


def _warn(text: str) -> None:
    """Tell people at once: the store may be busy with the very process that hangs."""
    log.warning("%s", text)
    print(f"ringrift: warning: {text}", file=sys.stderr, flush=True)


async def _wait_for_store(
    stack: AsyncExitStack, settings: Settings, clock: Clock, live: Live, *, kill: bool
) -> tuple[Store, Sequence[Event]]:
    """The store, with its lock, once the coordinator that has it has died; what is to be published about that one."""
    killed = list[Event]()
    if (holder := find_coordinator(settings.store)) is not None:
        live.line(f"standby of {holder[0]}: takes over when it has ended")
    async with beside(_watch_holder(settings, clock, killed, kill_hung=kill)):
        store = await wait_for_lock(lambda: open_node_store(stack, settings, clock))
    live.line(f"node {settings.node.id} takes over")
    return store, killed


async def _open_store(
    stack: AsyncExitStack, settings: Settings, clock: Clock, live: Live, options: Namespace
) -> tuple[Store, Sequence[Event]]:
    if options.standby:
        return await _wait_for_store(stack, settings, clock, live, kill=options.kill_hung)
    try:
        return await open_node_store(stack, settings, clock), ()
    except NotLeader as other:
        advice = "stop it, or start this one with --standby to take over when it dies"
        text = f"this store has a coordinator, {other.holder}: {advice}"
        raise NotLeader(other.role, other.holder, text) from other


async def _require_bind(settings: WireSettings) -> None:
    """Raise InsecureBind or SettingsError, before anything is opened, if it cannot serve here."""
    try:
        async with open_wire(settings).serve(f"{settings.bind}:{settings.port}", _Closed()):
            return
    except OSError as error:
        remedy = "another coordinator may run here; stop that program, or choose another port with --port"
        reason = os.strerror(error.errno) if error.errno else str(error)
        text = f"cannot listen at {settings.bind}: {reason}: {remedy}"
        raise SettingsError("wire.port", settings.port, text) from error


class _Closed:
    """Answers nothing: whoever asks comes again."""

    async def answer(self, _request: Request) -> Reply:
        return error_reply(NodeAway("coordinator: it starts"))

    async def notes(self, _request: Request) -> AsyncIterator[bytes]:
        raise NodeAway("coordinator: it starts")
        yield b""


async def _tell_address(store: Store, node: str, live: Live, clock: Clock) -> str:
    """The address of *node*, told to people, once it serves."""
    address = ""
    while not address:
        address = await wait_until_served(store, node, clock, _SERVE_SECONDS)
    live.line(f"{SERVES_AT} {address}")
    return address


async def _serve(
    settings: Settings, lines: Mapping[str, LineSettings], live: Live, clock: Clock, options: Namespace
) -> None:
    rng, node = SystemRandom(), settings.node.id
    envelopes = EnvelopeFactory(node, clock, Ids(clock, rng))
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop_on_signal(stop, live)
    if not options.standby and find_coordinator(settings.store) is None:
        await _require_bind(settings.wire)
    if options.adopt:
        await _adopt(settings, clock)
    async with AsyncExitStack() as stack:
        async with beside(_open_store(stack, settings, clock, live, options)) as opening:
            await asyncio.wait((opening, stop), return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                return
            store, killed = opening.result()
        await end_alerts(store, killed, envelopes)
        await record_served(store, node, "")
        async with beside(_tell_address(store, node, live, clock)):
            await serve_node(settings, lines, live, clock, Random(rng.getrandbits(64)), store=store, stop=stop)


def _plan(context: Context) -> tuple[EffectiveSettings, dict[str, LineSettings]]:
    """The settings, and the lines to open.  Only for lines of its own, or work of its own, it needs a workload."""
    options, overrides = context.options, _overrides(context.options)
    effective = read_settings(file=options.settings, overrides=overrides)
    if options.variants is None and not chosen_variants(effective) and not options.work:
        return effective, {}
    run = Namespace(**vars(options), nodes=1, minutes=0.0, iterations=0, seed=None)
    # A standby decides everything before it waits, so that it takes over at once; it changes no store that is led.
    plan = make_plan(run, overrides, is_look=options.standby)
    return plan.effective, {variant: plan.lines[variant] for variant in chosen_variants(plan.effective)}


def _prepare(context: Context) -> Output:
    """Exit code 0 after a signal, which is its normal end; a second one ends it at once."""
    take_token()  # it is for workers, and no job that runs here shall see it
    effective, lines = _plan(context)
    node, home = effective.settings.node, effective.home
    if not effective.settings.wire.cert:
        effective = effective.overlaid(own_settings(home), "ringrift certs")
    settings = settings_of(effective.settings, Member(id=node.id, profile=node.profile))
    trace = settings.trace.debug
    log_file = start_logs(home, settings.sweep, debug=effective.debug, trace=trace, node=node.id)
    previous = asyncio.run(read_previous(settings.store, existing=context.options.standby)).lines
    policy = changed(settings.policy, variants=tuple({*lines, *(line.variant for line in previous)}))
    live = Live(sys.stdout, policy, context.clock, table=False)
    live.line(f"coordinator {node.id}: store {settings.store.path}, log {log_file}")
    live.line(f"opens {', '.join(lines) or 'no line'}; until Ctrl-C or SIGTERM")
    asyncio.run(_serve(settings, lines, live, context.clock, context.options))
    return Output(value=None, text=f"coordinator {node.id} has stopped")


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None, starts_node=True)
