"""The documented launcher: a node of this machine in the foreground, with all daemons or those of one category.

``--all`` is the coordinator of its home.  The others may run beside it and beside each other: each is a node with a
name of its own that stands only for the roles of its daemons.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

from ringrift.cli import main as cli
from ringrift.cli.live import describe_event
from ringrift.cli.logs import log_events, start_logs
from ringrift.cli.run_plan import choose_workload, read_previous
from ringrift.daemons import DAEMONS
from ringrift.events.base import Envelope, Event
from ringrift.events.daemon import Failed
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.health import Status
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.pipeline.line import LINES
from ringrift.supervision.spec import CATEGORIES, COORDINATES
from ringrift_compat.embedded_node import open_embedded
from ringrift_compat.variables import read_settings

_ID_CHARACTERS_MAX = 40
_NO_LINE = 'no variant is open on this store, so nothing is trained; "ringrift run" opens those of the settings'
_PROFILES = {"sync": "coordinator", "training": "full"}
"""For each category that can be started alone, the profile of its node, which decides on its kinds of jobs."""
_OPTIONS = {
    "--all": ("all", "all daemons: be the coordinator"),
    "--sync": ("sync", "the daemons that copy files, and those of every node"),
    "--training-only": ("training", "the daemons of the training loop, and those of every node"),
    "--status": ("status", "list the daemons of every running node; exit code 1 if none runs"),
}


def _parser() -> argparse.ArgumentParser:
    description = "Run a node of this machine until SIGINT or SIGTERM, or show what runs."
    parser = argparse.ArgumentParser(prog="launch_daemons.py", description=description)
    group = parser.add_mutually_exclusive_group(required=True)
    for option, (value, text) in _OPTIONS.items():
        group.add_argument(option, dest="mode", action="store_const", const=value, help=text)
    return parser


async def _settings(mode: str, report: Callable[[str], None]) -> Settings:
    """The settings in force, with the workload that ``ringrift run`` would choose; starts the log file."""
    read = read_settings()
    for line in read.warnings:
        report(line)
    previous = await read_previous(read.settings.store)
    read = read_settings(preset=choose_workload(read, previous.lines).settings(1))
    name = read.settings.node.id + ("" if mode == "all" else f"-{mode}")  # each process has a file of its own
    start_logs(read.home, read.settings.sweep, debug=read.debug, trace=read.settings.trace.debug, node=name)
    return read.settings


@asynccontextmanager
async def _open_node(settings: Settings, mode: str) -> AsyncIterator[Node]:
    """The running node of *mode*.  Raises NotLeader for ``all`` where another process is the coordinator."""
    me, clock = settings.node, SystemClock()
    rng = Random(seed_of(me.id, os.getpid(), clock.now(), clock.tick()))
    if mode == "all":
        profile = me.profile if me.profile in COORDINATES else "coordinator"
        own = settings_of(settings, Member(id=me.id, profile=profile, ephemeral=me.ephemeral))
        async with Node.open(own, clock, rng) as node:
            yield node
        return
    profile = _PROFILES[mode]
    daemons = [daemon for daemon in DAEMONS if profile in daemon.profiles and daemon.category in ("core", mode)]
    async with open_embedded(settings) as base:
        id = f"{me.id[:_ID_CHARACTERS_MAX]}-{mode}_{base.program.rpartition('_')[2]}"
        own = settings_of(settings, Member(id=id, profile=profile, ephemeral=me.ephemeral))
        begin = [daemon.name for daemon in daemons]
        async with Node.open(own, clock, rng, store=base.store, begin=begin, leads=False) as node:
            for daemon in daemons:
                if daemon.role is not None:
                    node.roles.stand_for(daemon.role)
            yield node


def _describe(node: Node) -> str:
    """The running daemons of *node* by category, and their problems."""
    running = [status for status in node.supervisor.statuses() if status.should_run]
    text = [f"node {node.node_id} ({node.settings.node.profile}) runs {len(running)} daemons"]
    for category in CATEGORIES:
        names = [status.name for status in running if status.category == category]
        if names:
            text.append(f"  {category}: {', '.join(names)}")
    off = sorted(status.name for status in node.supervisor.statuses() if status.disabled)
    text += [f"  off by settings: {', '.join(off)}"] if off else []
    problems = [health for health in node.supervisor.health() if health.status is not Status.HEALTHY]
    text += [f"  PROBLEM {health.part}: {health.status.name.lower()}: {health.reason}" for health in problems]
    return "\n".join(text)


async def _launch(mode: str, report: Callable[[str], None]) -> int:
    """Run until a signal comes; 0 after a clean end.  Raises Unreachable when the store is gone."""
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _stop_on_signals(stop)
    async with _open_node(await _settings(mode, report), mode) as node:

        async def report_failure(event: Event, envelope: Envelope) -> None:
            if getattr(event, "node", None) == node.node_id:
                report(f"PROBLEM {describe_event(event)}")

        node.router.subscribe(Failed, report_failure, name="launcher")
        log_events([node])
        async with node.store.read() as view:
            lines = await LINES.all(view)
        report(_describe(node))
        if not lines and mode != "sync":
            report(_NO_LINE)
        await asyncio.wait((stop, node.supervisor.broken), return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            node.supervisor.broken.result()
        report("stopping")
    report("stopped")
    return 0


def _stop_on_signals(stop: "asyncio.Future[None]") -> None:
    """First signal: stop in good order.  Second: stop now; the next start recovers."""

    def stop_on(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop_on, number)


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 done, 1 failed or nothing runs, 2 wrong input."""
    mode = _parser().parse_args(arguments).mode
    try:
        if mode == "status":
            return cli.call(["daemons"])
        return asyncio.run(_launch(mode, _report))
    except RingriftError as error:
        sys.stderr.write(f"launch_daemons.py: {error}\n")
        is_input = isinstance(error, InputError | UnknownName | SettingsError)
        return ExitCode.WRONG_INPUT if is_input else ExitCode.FAILED
