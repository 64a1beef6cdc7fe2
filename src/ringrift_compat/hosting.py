"""Hosting: the whole node of a program that asks for duties: on the ambient store, each duty at rest until asked for.

Who only publishes and listens needs no more than the bus.  A program that starts a daemon or triggers a stage becomes a
node: the coordinator of its home if nobody else is, else a guest under a name of its own that takes no role.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import msgspec

from ringrift.cli import preset
from ringrift.cli.environment import effective
from ringrift.daemons import COORDINATES, DAEMONS
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Settings
from ringrift.node import Node, free_roles
from ringrift.pipeline.records import lines
from ringrift.store.open import only_coordinator
from ringrift.work.limits import KINDS
from ringrift_compat.ambient import HOST, Embedded

LOCK, AUTO = "host.lock", "host.auto"
ALWAYS = ("beat", "elect", "obey")
"""What every node does, asked or not: be seen, hold its roles, and take orders."""
WORKS = "work"
"""The daemon that does jobs."""
ID_CHARACTERS_MAX = 50
_FLEETING = tuple(event for event in catalog.EVENTS if event.SCOPE == "memory")
log = logging.getLogger(__name__)


async def host(node: Embedded) -> Node:
    """The node of this program, opened at first need.  To be awaited on the ambient loop."""
    async with _lock(node):
        return hosted(node) or await _open(node)


def hosted(node: Embedded) -> Node | None:
    """The node of this program, if it has become one."""
    found: tuple[Node, AsyncExitStack] | None = node.kept.get(HOST)
    return None if found is None else found[0]


async def duties(node: Embedded, *names: str) -> Node:
    """The node of this program with these daemons running.  Raises UnknownName, GaveUp."""
    whole = await host(node)
    if WORKS in names:
        # Who asks for work to be done means all that this node can do, whatever profile was started before.
        whole.runner.kinds |= KINDS[node.settings.node.profile]
    for name in names:
        await whole.supervisor.start(name)
    return whole


async def be_automatic(node: Embedded, automatic: bool) -> None:
    """Whether one stage of the loop starts the next; a node that was opened otherwise is opened again, as it was."""
    async with _lock(node):
        node.kept[AUTO] = automatic
        whole = hosted(node)
        if whole is None or whole.policy.auto == automatic:
            return
        reports = whole.supervisor.reports()
        ours = {daemon.name: daemon for daemon in DAEMONS}
        specs = [whole.supervisor.spec(report.name) for report in reports]
        changed, kinds = [spec for spec in specs if spec != ours.get(spec.name)], whole.runner.kinds
        await node.kept.pop(HOST)[1].aclose()
        again = await _open(node)
        again.runner.kinds = kinds
        for spec in changed:
            if spec.name not in ALWAYS:
                again.supervisor.add(spec)
        for report in reports:
            if report.wanted:
                await again.supervisor.start(report.name)


async def let_go(node: Embedded) -> None:
    """Let go what lines hold since a time when one stage did not start the next, if it does now."""
    whole = await host(node)
    async with node.store.read() as view:
        known = await lines(view)
    if whole.policy.auto:
        # They go with the next event of their line, and to be opened again changes nothing else.
        again = [Opened(variant=line.variant, workload=line.workload) for line in known]
        await node.router.publish_many(again, source="hosting")


def is_automatic(node: Embedded) -> bool:
    """Whether one stage starts the next where this program runs the loop: as somebody said, else not."""
    whole = hosted(node)
    if whole is not None:
        return whole.policy.auto
    found = effective()
    said: bool = node.kept.get(AUTO, "policy.auto" in found.origins and found.settings.policy.auto)
    return said


def leads(node: Embedded, whole: Node) -> bool:
    """Whether *whole* is the coordinator of its home, and no guest: only that one has the node's own name."""
    return whole.node_id == node.settings.node.id


def _lock(node: Embedded) -> asyncio.Lock:
    found: asyncio.Lock = node.kept.setdefault(LOCK, asyncio.Lock())
    return found


async def _open(node: Embedded) -> Node:
    settings = await _settings(node)
    async with AsyncExitStack() as stack:
        leads = settings.node.profile in COORDINATES and await _lead(node, stack)
        id = settings.node.id if leads else f"{settings.node.id[:ID_CHARACTERS_MAX]}-{node.readers.strip('.')}"
        # Every duty must be there to be asked for, whatever profile is started by default.
        own = settings_of(settings, Member(id=id, profile="full", ephemeral=settings.node.ephemeral))
        rng = Random(seed_of(id, node.clock.now(), node.clock.tick()))
        opened = Node.open(own, node.clock, rng, store=node.store, begin=ALWAYS, leads=leads)
        whole = await stack.enter_async_context(opened)
        whole.runner.kinds = KINDS[settings.node.profile]
        whole.router.subscribe(_FLEETING, _relayed_to(node), name="ambient")
        whole.supervisor.broken.add_done_callback(_complain)
        node.kept[HOST] = whole, await node.stack.enter_async_context(stack.pop_all())
    return whole


def _relayed_to(node: Embedded) -> Callable[[Event, Envelope], Coroutine[Any, Any, None]]:
    """What skips the log reaches those who listen to the bus of the program too."""

    async def relay(event: Event, envelope: Envelope) -> None:
        node.router.relay(event, envelope)

    return relay


async def _lead(node: Embedded, stack: AsyncExitStack) -> bool:
    """Be the coordinator of this home until *stack* ends, if nobody is; whether we are."""
    try:
        stack.enter_context(only_coordinator(node.settings.store, node.settings.node.id))
    except NotLeader as other:
        log.info("the duties of a coordinator stay with %s", other.holder)
        return False
    await free_roles(node.store)
    return True


async def _settings(node: Embedded) -> Settings:
    """The settings in force, with the workload that ``ringrift run`` would choose."""
    found = effective()
    async with node.store.read() as view:
        known = await lines(view)
    choice = preset.choose(found, known, preset.lacking())
    settings = effective(preset=preset.of(choice.workload, 1, preset.cores())).settings
    policy = msgspec.structs.replace(settings.policy, auto=is_automatic(node))
    # What the bus was opened with stays.
    return msgspec.structs.replace(
        settings, policy=policy, store=node.settings.store, bus=node.settings.bus, node=node.settings.node
    )


def _complain(broken: "asyncio.Future[None]") -> None:
    if not broken.cancelled() and (gone := broken.exception()) is not None:
        log.error("the ambient node cannot go on: %s", gone)
