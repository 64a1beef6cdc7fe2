"""Embedded host: the whole node of a program that starts daemons or stages, on the store of its embedded node.

Each daemon rests until it is started.  The node is the coordinator of its home if no other process is, else a member
under a name of its own that takes no role.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from random import Random

import msgspec

from ringrift.cli.run_plan import choose_workload
from ringrift.cluster.standby import require_own_place
from ringrift.coordinator.serve import serving_daemon
from ringrift.daemons import DAEMONS
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.errors import CopiedStore, NotLeader
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Settings
from ringrift.node import Node, release_node_roles
from ringrift.pipeline.line import LINES
from ringrift.store.open import only_coordinator
from ringrift.supervision.spec import COORDINATES
from ringrift.work.limits import KINDS
from ringrift_compat.daemons.duties import ALWAYS, WIRE
from ringrift_compat.embedded_node import HOST, EmbeddedNode
from ringrift_compat.variables import read_settings

WORK_DAEMON, _HEARTBEAT = "work", "beat"
_LOCK, _AUTOMATIC = "host lock", "automatic"
_ID_CHARACTERS_MAX = 50
_MEMORY_EVENTS = tuple(event for event in catalog.EVENTS if event.SCOPE == "memory")
log = logging.getLogger(__name__)


async def open_host(node: EmbeddedNode) -> Node:
    """The whole node of this program, opened at first need.  To be awaited on the loop of the embedded node."""
    async with _lock(node):
        host = get_host(node) or await _open(node)
        for name in ALWAYS:
            if host.supervisor.status(name).state == "stopped":  # by rest()
                await host.supervisor.start(name)
        return host


async def rest(node: EmbeddedNode) -> None:
    """Stand for no role and take no command until a daemon is started again, if none runs now but those of every node.

    The heartbeat goes on: it shows the health of this node.
    """
    async with _lock(node):
        host = get_host(node)
        if host is None or any(host.supervisor.status(name).should_run for name in _others(host)):
            return
        for name in reversed(ALWAYS):
            if name != _HEARTBEAT:
                await host.supervisor.stop(name)
        await host.roles.resign()


def _others(host: Node) -> list[str]:
    return [report.name for report in host.supervisor.statuses() if report.name not in ALWAYS]


def get_host(node: EmbeddedNode) -> Node | None:
    """The whole node of this program, if it has become one."""
    host: tuple[Node, AsyncExitStack] | None = node.extensions.get(HOST)
    return None if host is None else host[0]


async def start_daemons(node: EmbeddedNode, *names: str) -> Node:
    """The whole node of this program with these daemons running, but for those that the settings disable.

    Raises UnknownName, GaveUp.
    """
    host = await open_host(node)
    if WORK_DAEMON in names:
        # A program that asks for work means all that this node can do, whatever profile was started before.
        host.runner.kinds = {*host.runner.kinds, *KINDS[node.settings.node.profile]}
    for name in names:
        if name not in host.settings.node.disabled_daemons:
            await host.supervisor.start(name)
    return host


async def set_automatic(node: EmbeddedNode, automatic: bool) -> None:
    """Set whether one stage of the loop starts the next; a node that was opened otherwise is opened again."""
    async with _lock(node):
        node.extensions[_AUTOMATIC] = automatic
        host = get_host(node)
        if host is None or host.settings.policy.auto == automatic:
            return
        reports = host.supervisor.statuses()
        specs = [host.supervisor.spec(report.name) for report in reports]
        changed, kinds = [spec for spec in specs if spec not in DAEMONS], host.runner.kinds
        await node.extensions.pop(HOST)[1].aclose()
        reopened = await _open(node)
        reopened.runner.kinds = kinds
        for spec in changed:
            if spec.name == WIRE:
                await _offer_wire(node, reopened)
            elif spec.name not in ALWAYS:
                reopened.supervisor.add(spec)
        for report in reports:
            if report.should_run:
                await reopened.supervisor.start(report.name)


async def release_lines(node: EmbeddedNode) -> None:
    """Release what lines hold since a time when one stage did not start the next, if it does now."""
    host = await open_host(node)
    async with node.store.read() as view:
        lines = await LINES.all(view)
    if host.settings.policy.auto:
        # Held stages go with the next event of their line; opening a line again changes nothing else.
        opened = [Opened(variant=line.variant, workload=line.workload) for line in lines]
        await node.router.publish_many(opened, source="embedded_node")


def is_automatic(node: EmbeddedNode) -> bool:
    """Whether one stage starts the next where this program runs the loop: as it was set, else not."""
    host = get_host(node)
    if host is not None:
        return host.settings.policy.auto
    read = read_settings()
    return bool(node.extensions.get(_AUTOMATIC, "policy.auto" in read.origins and read.settings.policy.auto))


def is_coordinator(node: EmbeddedNode, host: Node) -> bool:
    """Whether *host* is the coordinator of its home: only that one has the node's own name."""
    return host.node_id == node.settings.node.id


async def offer_wire(node: EmbeddedNode) -> str:
    """Let the whole node of this program serve other machines when it is asked to; why it cannot, "" if it can."""
    host = await open_host(node)
    async with _lock(node):
        return await _offer_wire(node, host)


async def _offer_wire(node: EmbeddedNode, host: Node) -> str:
    if not is_coordinator(node, host):
        return "another process is the coordinator of this home: it alone may serve other machines"
    try:
        await require_own_place(node.store, node.settings.store)
    except CopiedStore as error:
        return str(error)
    if WIRE not in (status.name for status in host.supervisor.statuses()):
        host.supervisor.add(serving_daemon(host.parts()))
    return ""


def _lock(node: EmbeddedNode) -> asyncio.Lock:
    lock: asyncio.Lock = node.extensions.setdefault(_LOCK, asyncio.Lock())
    return lock


async def _open(node: EmbeddedNode) -> Node:
    settings = await _settings(node)

    async def relay(event: Event, envelope: Envelope) -> None:
        node.router.publish_local(event, envelope)

    async with AsyncExitStack() as stack:
        leads = settings.node.profile in COORDINATES and await _lead(node, stack)
        id = settings.node.id if leads else f"{settings.node.id[:_ID_CHARACTERS_MAX]}-{node.program}"
        # Every daemon must be there to be started, whatever profile is started by default.
        own = settings_of(settings, Member(id=id, profile="full", ephemeral=settings.node.ephemeral))
        rng = Random(seed_of(id, node.clock.now(), node.clock.tick()))
        opening = Node.open(own, node.clock, rng, store=node.store, begin=ALWAYS, leads=leads)
        host = await stack.enter_async_context(opening)
        host.runner.kinds = KINDS[settings.node.profile]
        # Events that skip the log reach the subscribers of the program too.
        host.router.subscribe(_MEMORY_EVENTS, relay, name="embedded_node")
        host.supervisor.broken.add_done_callback(_log_broken)
        node.extensions[HOST] = host, await node.stack.enter_async_context(stack.pop_all())
    return host


async def _lead(node: EmbeddedNode, stack: AsyncExitStack) -> bool:
    """Be the coordinator of this home until *stack* ends, if no other process is; whether we are."""
    try:
        stack.enter_context(only_coordinator(node.settings.store, node.settings.node.id))
    except NotLeader as other:
        log.info("the coordinator of this home is %s", other.holder)
        return False
    await release_node_roles(node.store)
    return True


async def _settings(node: EmbeddedNode) -> Settings:
    """The settings in force, with the workload that ``ringrift run`` would choose."""
    async with node.store.read() as view:
        lines = await LINES.all(view)
    chosen = choose_workload(read_settings(), lines)
    settings = read_settings(preset=chosen.settings(nodes=1)).settings
    policy = msgspec.structs.replace(settings.policy, auto=is_automatic(node))
    # The bus keeps the settings that it was opened with.
    mine = node.settings
    return msgspec.structs.replace(settings, policy=policy, store=mine.store, bus=mine.bus, node=mine.node)


def _log_broken(broken: "asyncio.Future[None]") -> None:
    if not broken.cancelled() and (error := broken.exception()) is not None:
        log.error("the embedded node cannot go on: %s", error)
