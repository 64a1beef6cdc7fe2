"""The documented launcher: a node of this machine in the foreground, with all daemons or those of one category.

``--all`` is the coordinator of its home.  The others may run beside it and beside each other: each is a node with a
name of its own that stands only for the roles of the daemons it runs.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

from ringrift.cli import daemons, preset, session
from ringrift.cli.environment import effective
from ringrift.cli.live import told
from ringrift.cli.logs import start_logs
from ringrift.daemons import COORDINATES, DAEMONS
from ringrift.events.base import Envelope, Event
from ringrift.events.daemon import Failed
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName
from ringrift.kernel.health import Status
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.node import Node
from ringrift.pipeline.records import lines
from ringrift.supervision.spec import CATEGORIES
from ringrift_compat.ambient import open_embedded

EXIT_FAILED, EXIT_WRONG_INPUT = 1, 2
ID_CHARACTERS_MAX = 40
NO_LINE = "no variant is open on this store, so there is nothing to train:  ringrift run  opens those of the settings"
Say = Callable[[str], None]


class Group(Value):
    """What an option starts: the daemons of a category and those that every node needs."""

    category: str
    profile: str
    """Which kinds of jobs its node does."""


GROUPS = {
    "sync": Group(category="sync", profile="coordinator"),
    "training": Group(category="training", profile="full"),
}


def parser() -> argparse.ArgumentParser:
    """The command line of the launcher."""
    top = argparse.ArgumentParser(
        prog="launch_daemons.py", description="Run a node of this machine until SIGINT or SIGTERM, or show what runs."
    )
    one = top.add_mutually_exclusive_group(required=True)
    one.add_argument("--all", dest="what", action="store_const", const="all", help="all daemons: be the coordinator")
    one.add_argument("--sync", dest="what", action="store_const", const="sync", help="those that move files, and core")
    one.add_argument("--training-only", dest="what", action="store_const", const="training", help="those of the "
                     "training loop, and core")  # fmt: skip
    one.add_argument("--status", dest="what", action="store_const", const="status", help="list the daemons of every "
                     "running node; exit 1 if none runs")  # fmt: skip
    return top


def names(group: Group) -> frozenset[str]:
    """The daemons that *group* starts."""
    chosen = (daemon for daemon in DAEMONS if group.profile in daemon.profiles)
    return frozenset(daemon.name for daemon in chosen if daemon.category in ("core", group.category))


def prepared() -> Settings:
    """The settings in force, with the workload that ``ringrift run`` would choose; the log is written from now on."""
    found = effective()
    choice = preset.choose(found, session.known(found.settings.store).lines, preset.lacking())
    found = effective(preset=preset.of(choice.workload, 1, preset.cores()))
    start_logs(found.home, found.settings.sweep, debug=found.debug, trace=found.settings.trace.debug)
    return found.settings


@asynccontextmanager
async def opened(settings: Settings, what: str, clock: Clock) -> AsyncIterator[Node]:
    """The running node of *what*.  Raises NotLeader for ``all`` where somebody else is the coordinator."""
    me = settings.node
    if what == "all":
        profile = me.profile if me.profile in COORDINATES else "coordinator"
        own = settings_of(settings, Member(id=me.id, profile=profile, ephemeral=me.ephemeral))
        async with Node.open(own, clock, _rng(own, clock)) as node:
            yield node
        return
    group = GROUPS[what]
    begin = names(group)
    async with open_embedded(settings) as base:
        place = base.readers.strip(".").rpartition("_")[2]
        member = Member(id=f"{me.id[:ID_CHARACTERS_MAX]}-{what}_{place}", profile=group.profile, ephemeral=me.ephemeral)
        own = settings_of(settings, member)
        opening = Node.open(own, clock, _rng(own, clock), store=base.store, begin=begin, leads=False)
        async with opening as node:
            for daemon in DAEMONS:
                if daemon.name in begin and daemon.role is not None:
                    node.roles.want(daemon.role)
            yield node


def _rng(settings: Settings, clock: Clock) -> Random:
    return Random(seed_of(settings.node.id, os.getpid(), clock.now(), clock.tick()))


def started(node: Node) -> str:
    """What runs on *node* by category, and what is wrong."""
    reports = [report for report in node.supervisor.reports() if report.wanted]
    text = [f"node {node.node_id} ({node.settings.node.profile}) runs {len(reports)} daemons"]
    for category in CATEGORIES:
        mine = [report.name for report in reports if report.category == category]
        if mine:
            text.append(f"  {category}: {', '.join(mine)}")
    wrong = [one for one in node.supervisor.health() if one.status is not Status.HEALTHY]
    text += [f"  PROBLEM {one.part}: {one.status.name.lower()}: {one.reason}" for one in wrong]
    return "\n".join(text)


async def launch(settings: Settings, what: str, say: Say) -> int:
    """Run until a signal comes; 0 after a clean end.  Raises Unreachable when the store is gone."""
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _listen(stop)
    async with opened(settings, what, SystemClock()) as node:

        async def tell(event: Event, envelope: Envelope) -> None:
            if getattr(event, "node", None) == node.node_id:
                say(f"PROBLEM {told(event)}")

        node.router.subscribe(Failed, tell, name="launcher")
        async with node.store.read() as view:
            known = await lines(view)
        say(started(node))
        if not known and what != "sync":
            say(NO_LINE)
        await asyncio.wait((stop, node.supervisor.broken), return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            node.supervisor.broken.result()
        say("stopping")
    say("stopped")
    return 0


def _listen(stop: "asyncio.Future[None]") -> None:
    """First signal: stop in good order.  Second: stop now; the next start recovers."""

    def stopped(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped, number)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for: 0 done, 1 failed or nothing runs, 2 wrong input."""
    options = parser().parse_args(arguments)
    try:
        if options.what == "status":
            return daemons.show(effective().settings, SystemClock())
        return asyncio.run(launch(prepared(), options.what, _say))
    except (InputError, UnknownName, SettingsError) as wrong:
        sys.stderr.write(f"launch_daemons.py: {wrong}\n")
        return EXIT_WRONG_INPUT
    except RingriftError as failed:
        sys.stderr.write(f"launch_daemons.py: {failed}\n")
        return EXIT_FAILED
