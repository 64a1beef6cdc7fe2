"""``ringrift daemons``: what every node's daemons do and how they are; start, stop, restart or clear one."""

import argparse
import asyncio
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli import heard
from ringrift.cli.environment import effective
from ringrift.cli.heard import Heard
from ringrift.cli.show import ago, table
from ringrift.cli.store import by_hand, existing
from ringrift.cluster import orders
from ringrift.cluster.duties import Duty
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.obey import NAME as OBEY
from ringrift.events import catalog
from ringrift.events.base import Envelope
from ringrift.events.daemon import Obeyed, Ordered
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import InputError, NodeAway, SupervisionError, UnknownName
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Store
from ringrift.supervision.spec import CATEGORIES

ANSWER_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.1
PAGE = 1000
EXIT_FAILED = 1
HEAD = ("category", "daemon", "state", "health", "since", "runs", "failures", "restarts", "why", "last error")
NOBODY = "no node is here: start one with  ringrift run"


def as_text(found: Heard, now: float) -> str:
    """Every node that is here with its daemons, for people."""
    parts = [f"node {node.id} ({node.profile})\n{_table(node, now)}" for node in found.here]
    if found.silent:
        parts.append(f"not heard of for {found.seconds:g} s: {', '.join(node.id for node in found.silent)}")
    return "\n\n".join(parts if found.here else [NOBODY, *parts])


def _table(node: NodeRecord, now: float) -> str:
    """The daemons of *node* by category, the name of which stands where it begins."""
    duties = sorted(node.doing.duties.shown, key=_place)
    rows, last = [], ""
    for duty in duties:
        rows.append(_row(duty, "" if duty.category == last else duty.category, now))
        last = duty.category
    text = table(HEAD, rows) if rows else "it says nothing of its daemons"
    return f"{text}\n… and {node.doing.duties.more} more" if node.doing.duties.more else text


def _place(duty: Duty) -> tuple[int, str]:
    """By the order of categories; those of a newer node come last."""
    known = duty.category in CATEGORIES
    return (CATEGORIES.index(duty.category), "") if known else (len(CATEGORIES), duty.category)


def _row(duty: Duty, category: str, now: float) -> tuple[object, ...]:
    since = "—" if duty.since is None else f"{ago(now - duty.since)} ago"
    return (
        category, duty.name, duty.state, duty.status, since, duty.runs, duty.failures, duty.restarts,
        _line(duty.reason), _line(duty.error),
    )  # fmt: skip


def _line(text: str) -> str:
    return " ".join(text.split()) or "—"


def as_json(found: Heard) -> str:
    """The same for programs."""

    def tree(duty: Duty) -> dict[str, object]:  # with the fields that have their defaults, which a beat leaves out
        return {name: getattr(duty, name) for name in Duty.__struct_fields__}

    nodes = [
        {"node": node.id, "profile": node.profile, "daemons": [tree(duty) for duty in node.doing.duties.shown],
         "more": node.doing.duties.more}
        for node in found.here
    ]  # fmt: skip
    return json.dumps({"nodes": nodes, "silent": [node.id for node in found.silent]}, indent=2)


def whose(found: Heard, daemon: str, node: str | None) -> NodeRecord:
    """The node that an order for *daemon* goes to.

    Raises UnknownName, NodeAway for a *node* that is not here, InputError if several could be meant.
    """
    nodes = found.only(node).here
    if not nodes:
        raise SupervisionError(NOBODY) if node is None else NodeAway(node)
    able = [one for one in nodes if daemon in one.doing.duties.names() or one.doing.duties.more]
    if not able:
        raise UnknownName("daemon", daemon, {name for one in nodes for name in one.doing.duties.names()})
    if len(able) > 1:
        raise InputError(f"which node?  --node  {', '.join(one.id for one in able)}")
    [chosen] = able
    obeys = next((duty for duty in chosen.doing.duties.shown if duty.name == OBEY), None)
    if obeys is None or obeys.state != "running":
        raise SupervisionError(f"node {chosen.id} takes no orders: its daemon {OBEY} does not run")
    return chosen


async def answer(store: Store, asked: Envelope, clock: Clock) -> Obeyed | None:
    """What came of an order; None if it has not been carried out in time."""
    end, place = clock.tick() + ANSWER_SECONDS_MAX, asked.position
    while clock.tick() < end:
        async with store.read() as view:
            told = await view.read(place, PAGE, [Obeyed.name()])
        for envelope in told:
            said = catalog.decode(envelope.name, envelope.body)
            if isinstance(said, Obeyed) and said.order == asked.id:
                return said
            place = envelope.position
        await store.wait(store.position, LOOK_SECONDS)
    return None


async def order(store: Store, settings: Settings, said: Ordered, node: str | None, clock: Clock) -> Obeyed | None:
    """Give the order and wait for what comes of it.  Raises what :func:`whose` does, and nothing was ordered."""
    found = await heard.look(store, clock, settings.cluster.beat_seconds)
    said = msgspec.structs.replace(said, node=whose(found, said.daemon, node).id)
    async with store.begin() as tx:
        asked = await orders.give(tx, by_hand(settings.node.id), said)
    return await answer(store, asked, clock)


def told(done: Obeyed | None, name: str, action: str) -> str:
    """What came of the order, for people."""
    if done is None:
        return (
            f"{name} is ordered to {action}, and that is not done within {ANSWER_SECONDS_MAX:g} s: the order is kept "
            f"(ringrift events tail --names {Obeyed.name()}  says what comes of it)"
        )
    if done.error:
        return f"{done.daemon} on {done.node} did not {action}: {done.error}"
    return f"{done.daemon} on {done.node}: {action} is done"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print the daemons, or what came of the order; 1 if nobody is here, or if it was not carried out."""
    settings, clock = effective(file=options.settings, given=given).settings, SystemClock()
    if options.verb == "list":
        return show(settings, clock, options.node, as_lines=not options.json)
    if not options.name:
        raise InputError(f"which daemon?  ringrift daemons {options.verb} NAME  (ringrift daemons  lists them)")
    said = Ordered(daemon=options.name, node="", action=options.verb, by=settings.node.id)

    async def run() -> Obeyed | None:
        async with existing(settings.store) as store:
            return await order(store, settings, said, options.node, clock)

    done = asyncio.run(run())
    print(json.dumps(msgspec.to_builtins(done)) if options.json else told(done, options.name, options.verb))
    return 0 if done is not None and not done.error else EXIT_FAILED


def show(settings: Settings, clock: Clock, node: str | None = None, *, as_lines: bool = True) -> int:
    """Print the daemons of every node that is here, or of *node*; 1 if there is none."""

    async def run() -> Heard:
        async with existing(settings.store) as store:
            return await heard.look(store, clock, settings.cluster.beat_seconds)

    found = asyncio.run(run()).only(node)
    print(as_text(found, clock.now()) if as_lines else as_json(found))
    return 0 if found.here else EXIT_FAILED
