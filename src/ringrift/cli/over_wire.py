"""A run over the wire: its coordinator in this process, and its workers in processes of their own, over HTTP."""

from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ringrift.cli.live import Live
from ringrift.cli.members import MemberProcesses, common_arguments, make_member_token, worker_command, worker_name
from ringrift.cli.run_plan import Plan
from ringrift.cluster.served import wait_until_served
from ringrift.harness import Member
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import ChildDied
from ringrift.store.ports import Store

_SERVE_SECONDS_MAX = 60.0
_STOP_MARGIN_SECONDS = 15.0  # beside the time that a job has to end


def plan_over_wire(plan: Plan) -> Plan:
    """*plan* with a coordinator that does no jobs, and serves at a free port of this machine alone."""
    node = plan.settings.node.id
    serving = {"wire.serve": True, "wire.bind": "127.0.0.1", "wire.port": 0, "node.coordinators": ()}
    effective = plan.effective.overlaid(serving, "run")
    return replace(plan, effective=effective, nodes=[Member(id=node, profile="coordinator")])


@asynccontextmanager
async def open_workers(
    plan: Plan, count: int, store: Store, live: Live, clock: Clock, options: Namespace
) -> AsyncIterator[None]:
    """Have *count* workers while the body runs.  One that ends is told, and not started again.  Raises ChildDied."""
    own, home = plan.settings.node.id, Path(plan.effective.home)
    address = await wait_until_served(store, own, clock, _SERVE_SECONDS_MAX)
    if not address:
        raise ChildDied(f"the coordinator does not serve after {_SERVE_SECONDS_MAX:g} s: see its log")
    seconds = plan.settings.work.grace_seconds + _STOP_MARGIN_SECONDS
    work = {key: row.value for key, row in plan.effective.in_force().items() if key.startswith("work.")}
    scalars = {key: value for key, value in work.items() if plan.effective.origins.get(key) == "preset"}
    common = common_arguments(options, home)
    async with MemberProcesses.open(lambda name, text: live.line(f"{name}: {text}"), seconds) as members:
        for number in range(1, count + 1):
            name = worker_name(own, number)
            token = await make_member_token(store, name, clock.now())
            await members.start(name, worker_command(home, name, number, address, common, scalars), token)
        yield
