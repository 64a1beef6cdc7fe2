"""Carries out the commands for daemons of this node: start, stop, restart, clear."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.cluster import daemon_commands
from ringrift.cluster.daemon_commands import DaemonCommand
from ringrift.cluster.remote_roster import CommandOutcome, RemoteRoster
from ringrift.events.base import Envelope, Event
from ringrift.events.daemon import CommandIssued
from ringrift.kernel.errors import TRANSIENT, SupervisionError, UnknownName, printable
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor
from ringrift.threads import beside

_LOOK_SECONDS = 5.0  #: Between looks without a wake-up: a command may have been issued while the node was away.
_LIFE_SECONDS = 5.0  #: Between two signs of life while a command runs, which takes as long as the daemon does.
_ERROR_CHARACTERS_MAX = 500
NAME = "run_commands"


async def run_commands(
    *, store: Store, router: Router, envelopes: EnvelopeFactory, supervisor: Supervisor, alive: Callable[[], None]
) -> None:
    """Look at once, whenever a command is issued, and now and then."""
    issued = asyncio.Event()

    async def wake(event: Event, envelope: Envelope) -> None:
        issued.set()

    subscription = router.subscribe(CommandIssued, wake, name=f"{NAME}:{envelopes.node}")
    try:
        while True:
            issued.clear()
            async with store.read() as view:
                commands = await daemon_commands.pending(view, envelopes.node)
            for command in commands:
                error = await _run_alive(supervisor, command, alive)
                async with store.begin() as tx:
                    await daemon_commands.complete(tx, envelopes, command, error)
            alive()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):  # asyncio.wait_for could swallow a cancellation
                    await issued.wait()
    finally:
        await router.unsubscribe(subscription)


async def run_remote_commands(*, roster: RemoteRoster, supervisor: Supervisor, alive: Callable[[], None]) -> None:
    """The same on a worker: a heartbeat brings back that there are commands, and their outcomes are reported."""
    outcomes: list[CommandOutcome] = []
    while True:
        alive()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await roster.issued.wait()
        if not outcomes and not roster.issued.is_set():
            continue
        roster.issued.clear()
        with suppress(*TRANSIENT):  # the outcomes are kept, and a later heartbeat tells of the commands again
            commands = await roster.report_commands(outcomes)
            outcomes = [
                CommandOutcome(command=command.id, error=await _run_alive(supervisor, command, alive))
                for command in commands
            ]
            if outcomes:
                roster.issued.set()


async def _run_alive(supervisor: Supervisor, command: DaemonCommand, alive: Callable[[], None]) -> str:
    """Run *command* and show life meanwhile: each step of it has a limit of its own."""
    async with beside(_run_command(supervisor, command)) as task:
        while not task.done():
            alive()
            await asyncio.wait((task,), timeout=_LIFE_SECONDS)
        return task.result()


async def _run_command(supervisor: Supervisor, command: DaemonCommand) -> str:
    name = command.daemon
    if name == NAME and command.action != "start":
        return "this daemon runs the commands itself and cannot stop before it has answered; restart the node instead"
    try:
        if command.action == "stop":
            return "" if await supervisor.stop(name) else "it was asked to stop and still runs: restart the node"
        actions = {"start": supervisor.start, "restart": supervisor.restart, "clear": supervisor.clear}
        if command.action not in actions:
            return f"this node has no action {command.action}: it is older than the command"
        await actions[command.action](name)
    except (SupervisionError, UnknownName) as error:
        return printable(str(error), _ERROR_CHARACTERS_MAX)
    return ""


SPEC = Daemon(name="run_commands", run=run_commands, serve=True, after=("beat",), category="core")
