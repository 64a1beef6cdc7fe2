"""Start a whole cluster in the foreground: a coordinator and workers, here or on the hosts of a file, until Ctrl-C."""

import asyncio
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from ringrift.cli.command import Command, Context, Output, Parser, open_existing
from ringrift.cli.commands.coordinator import SERVES_AT
from ringrift.cli.commands.run import stop_on_signal
from ringrift.cli.live import Live
from ringrift.cli.members import (
    MemberProcesses,
    common_arguments,
    make_member_token,
    own_command,
    ssh_command,
    worker_command,
    worker_name,
)
from ringrift.cli.run_plan import cores
from ringrift.cluster.hosts import Host, find_destination, read_hosts
from ringrift.kernel.errors import ChildDied, SettingsError, require_range
from ringrift.threads import beside
from ringrift.wire.address import is_loopback, parse_address
from ringrift.workload.presets import NODES_MAX

_WORKERS = 2
_COORDINATOR = "coordinator"
_STOP_MARGIN_SECONDS = 15.0  # beside the time that a job has to end


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("--nodes", type=int, metavar="N", help="workers on this machine (default: 2, or 0 with --hosts)")
    add("--hosts", metavar="FILE", help="also start the hosts of this file over ssh (config/distributed_hosts.yaml)")
    add("--ssh", metavar="COMMAND", default="ssh", help="how hosts are reached, e.g. 'ssh -F FILE' (default: ssh)")
    add("--variants", metavar="A,B", help="open these lines (default: policy.variants if it is set, else none)")
    add("--bind", metavar="ADDRESS", help="listen at this address (default: 127.0.0.1; hosts get tunnels through ssh)")
    add("--port", type=int, metavar="N", help="listen at this port (default: RINGRIFT_P2P_PORT or 8770; 0: a free one)")
    add("--insecure", action="store_true", help="listen beyond this machine without TLS; keys are still required")


def _own_arguments(options: Namespace) -> list[str]:
    """The arguments of the coordinator."""
    named = {"--variants": options.variants, "--bind": options.bind, "--port": options.port}
    named |= {"--settings": options.settings}
    words = [word for key, value in named.items() if value is not None for word in (key, str(value))]
    words += [word for pair in options.set for word in ("--set", pair)]
    return words + (["--insecure"] if options.insecure else [])


class _Cluster:
    """The processes of ``ringrift up``."""

    def __init__(self, context: Context, live: Live, members: MemberProcesses) -> None:
        self._context, self._live, self._members = context, live, members
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def show(self, name: str, text: str) -> None:
        """Print what a member has printed; the address of the coordinator is among it."""
        self._live.line(f"{name}: {text}")
        _, is_address, address = text.partition(f"{SERVES_AT} ")
        if name == _COORDINATOR and is_address and not self._address.done():
            self._address.set_result(address)

    async def run(self, nodes: int, hosts: Sequence[Host]) -> None:
        """Start every member, then watch them.  Raises ChildDied when the coordinator has ended."""
        context, options = self._context, self._context.options
        home, settings = context.effective.home, context.settings
        command = own_command(_COORDINATOR, *_own_arguments(options), home=home, settings=_link_settings(options))
        coordinator = await self._members.start(_COORDINATOR, command)
        await asyncio.wait((coordinator.ended, self._address), return_when=asyncio.FIRST_COMPLETED)
        if self._address.done():
            await self._start_workers(self._address.result(), nodes, hosts)
        await asyncio.wait((coordinator.ended,))
        how = coordinator.describe_end()
        raise ChildDied(f"the coordinator of {settings.store.path} has ended ({how}); its workers are stopped")

    async def _start_workers(self, url: str, nodes: int, hosts: Sequence[Host]) -> None:
        context, options, address = self._context, self._context.options, parse_address(url)
        home, own, rng, now = Path(context.effective.home), context.settings.node.id, SystemRandom(), context.clock.now
        tunnel, ssh = is_loopback(address.host), shlex.split(options.ssh)
        async with open_existing(context.settings.store) as store:
            for number in range(1, nodes + 1):
                name, slots = worker_name(own, number), {"work.slots": max(cores() // nodes, 1)}
                command = worker_command(home, name, number, url, common_arguments(options, home), slots)
                await self._members.start(name, command, await make_member_token(store, name, now()))
            destinations = await asyncio.gather(*map(find_destination, hosts))
            for host, destination in zip(hosts, destinations, strict=True):
                command = ssh_command(host, address, ssh, rng, tunnel=tunnel, destination=destination)
                token = await make_member_token(store, host.name, now(), host.scopes())
                await self._members.start(host.name, command, token)
        names = ", ".join(member.name for member in self._members.running[1:])
        self._live.line(f"started {names or 'no worker'}; Ctrl-C ends all of them")


def _link_settings(options: Namespace) -> dict[str, object]:
    """The settings by which the coordinator reaches the files of hosts, as this command reaches the hosts."""
    return {"links.hosts": os.path.abspath(options.hosts), "links.ssh": options.ssh} if options.hosts else {}


async def _up(context: Context, live: Live, nodes: int, hosts: Sequence[Host]) -> int:
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop_on_signal(stop, live)
    seconds = context.settings.work.grace_seconds + _STOP_MARGIN_SECONDS
    cluster: list[_Cluster] = []
    async with MemberProcesses.open(lambda name, text: cluster[0].show(name, text), seconds) as members:
        cluster.append(_Cluster(context, live, members))
        async with beside(cluster[0].run(nodes, hosts)) as running:
            await asyncio.wait((running, stop), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
    return 0


def _prepare(context: Context) -> Output:
    """Exit code 0 after a signal, which is its normal end; a second one ends it at once, and its members with it."""
    options = context.options
    nodes = (0 if options.hosts else _WORKERS) if options.nodes is None else options.nodes
    require_range("--nodes", nodes, 0, NODES_MAX)
    live = Live(sys.stdout, context.settings.policy, context.clock, table=False)
    hosts = list[Host]()
    if options.hosts:
        listed, notes = read_hosts(options.hosts)
        skipped = {host.name: host.reason_to_skip() for host in listed}
        hosts = [host for host in listed if not skipped[host.name]]
        for note in [*notes, *(f"host {name} is not started: {why}" for name, why in skipped.items() if why)]:
            live.line(note)
    names = [host.name for host in hosts]
    if context.settings.node.id in names:
        raise SettingsError("hosts", context.settings.node.id, "is this machine: give it the role coordinator")
    code = asyncio.run(_up(context, live, nodes, hosts))
    return Output(value=None, text="every member has stopped", code=code)


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None, starts_node=True)
