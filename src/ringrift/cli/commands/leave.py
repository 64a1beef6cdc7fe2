"""Let the worker of this home leave its cluster in good order; with --forget it gives up its key too."""

import asyncio
import os
import signal
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from random import Random

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.worker_home import Membership, WorkerHome
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NodeAway, SettingsError, SupervisionError
from ringrift.kernel.settings import Settings
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire.connection import Connection, Leave, Nothing
from ringrift.wire.keys import SigningKey
from ringrift.wire.open import open_wire
from ringrift.work.spool import Spool

_STEP_SECONDS = 0.1
_LEAVE_SECONDS_MAX = 4.0
_STOP_MARGIN_SECONDS = 30.0  # after the grace period of its jobs


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("--forget", action="store_true", help="also give up the key: another join needs a new token")
    add("--discard", action="store_true", help="with --forget: delete results that no coordinator has accepted yet")


async def _stop(home: WorkerHome, pid: int, seconds_max: float) -> None:
    """Ask the process to stop, and wait until it has ended.  Raises SupervisionError."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    for _ in range(int(seconds_max / _STEP_SECONDS)):
        if home.running() != pid:
            return
        await asyncio.sleep(_STEP_SECONDS)
    raise SupervisionError(f"the worker (process {pid}) has not stopped within {seconds_max:g} s: it finishes its jobs")


async def _say_goodbye(settings: Settings, key: SigningKey, clock: Clock, *, remove: bool) -> str:
    """Tell a coordinator that the node has left; how that went."""
    wire = open_wire(settings.wire)
    boot, reason = f"leave-{os.getpid()}-{clock.now():.0f}", "left by an operator"
    client = Connection(wire, settings.node.coordinators, key, Random(os.getpid()), boot=boot)
    try:
        await client.call("leave", Leave(reason=reason, remove=remove), Nothing, seconds_max=_LEAVE_SECONDS_MAX)
    except KeyRefused as error:
        return f"its key is not accepted any more ({error.reason})"
    finally:
        wire.close()
    return "its key is given up" if remove else "ringrift join brings it back"


def _settings_of(context: Context, home: WorkerHome, before: Membership, key: SigningKey) -> Settings:
    settings = context.settings
    tree: dict[str, object] = {"node.id": key.node}
    if not settings.node.coordinators:
        tree["node.coordinators"] = before.addresses
    if before.ca and not settings.wire.ca:
        tree["wire.ca"] = str(home.ca)
    return settings.overlaid(tree)


async def _leave(context: Context, home: WorkerHome, settings: Settings, key: SigningKey, options: Namespace) -> str:
    if (pid := home.running()) is not None:
        await _stop(home, pid, settings.work.grace_seconds + _STOP_MARGIN_SECONDS)
    spool = Spool(Path(settings.blobs.address()) / "spool", settings.cluster.spool_bytes_max)
    await spool.open()
    if options.forget and spool.results and not options.discard:
        remedy = "join again to deliver them, or delete them with --discard"
        reason = f"{len(spool.results)} results wait that no coordinator has accepted yet: {remedy}"
        raise SettingsError("--forget", True, reason)
    try:
        end = await _say_goodbye(settings, key, context.clock, remove=options.forget)
    except NodeAway as away:
        if options.forget:
            raise
        end = f"no coordinator was told: {away}"
    if options.forget:
        for row in spool.results:
            await spool.remove(row)
        home.forget()
    return end


def _prepare(context: Context) -> Output:
    """Stop the worker if it runs, and say goodbye for it."""
    home, options = WorkerHome(context.effective.home), context.options
    before, key = home.membership(), home.key()
    if before is None or key is None:
        raise SettingsError("RINGRIFT_HOME", context.effective.home, "no worker of this home has joined a cluster")
    settings = _settings_of(context, home, before, key)
    end = asyncio.run(_leave(context, home, settings, key, options))
    return Output(value={"node": key.node, "end": end}, text=f"worker {key.node} has left: {end}")


COMMAND = Command(arguments=_arguments, prepare=_prepare)
