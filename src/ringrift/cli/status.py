"""``ringrift status``: lines, jobs, nodes, and what is wrong."""

import argparse
import asyncio
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli.alerts import alert_line
from ringrift.cli.environment import effective
from ringrift.cli.show import ago, short, table
from ringrift.cli.store import existing
from ringrift.cluster.activity import Doing
from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.roster import KIND as NODE
from ringrift.cluster.roster import NODES_MAX, NodeRecord
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import Line
from ringrift.pipeline.records import lines
from ringrift.store.ports import STATES, Delivery, JobRow, RoleRow

SHOWN_MAX = 20


class State(Value):
    """Everything that status shows."""

    position: int
    lines: list[Line]
    tally: dict[str, dict[str, int]]
    claimed: list[JobRow]
    dead: list[JobRow]
    nodes: list[NodeRecord]
    roles: list[RoleRow]
    letters: list[Delivery]
    alerts: list[Alert]


async def gather(settings: Settings) -> State:
    """What the store says now."""
    async with existing(settings.store) as store, store.read() as view:
        tally: dict[str, dict[str, int]] = {}
        for (kind, state), count in (await view.tally()).items():
            tally.setdefault(kind, {})[state] = count
        nodes = [msgspec.json.decode(r.body, type=NodeRecord) for r in await view.scan(NODE, "", NODES_MAX)]
        return State(
            position=store.position,
            lines=await lines(view),
            tally=tally,
            claimed=list(await view.jobs(("claimed",), SHOWN_MAX)),
            dead=list(await view.jobs(("dead",), SHOWN_MAX)),
            nodes=nodes,
            roles=list(await view.roles()),
            letters=list(await view.deliveries(("parked", "dead"), SHOWN_MAX)),
            alerts=await open_alerts(view),
        )


def as_text(state: State, now: float) -> str:
    """The state for people."""
    parts = [f"log: {state.position} events"]
    parts.append(table(
        ("variant", "stage", "since", "generation", "champion", "promotions", "games", "waiting for export"),
        [(line.variant, line.stage, f"{ago(now - line.since)} ago", line.generation, short(line.champion),
          line.iteration, line.counts.games, line.fresh) for line in state.lines],
    ))  # fmt: skip
    rows = [(kind, *(found.get(one, 0) for one in STATES)) for kind, found in sorted(state.tally.items())]
    parts.append(table(("jobs", *STATES), rows))
    rows_nodes = [
        (node.id, node.profile, "gone" if node.gone else does(node.doing), node.address) for node in state.nodes
    ]
    parts.append(table(("node", "profile", "does", "blobs"), rows_nodes))
    held = ", ".join(f"{role.role}={role.holder or 'nobody'} (term {role.term})" for role in state.roles)
    parts.append(f"roles: {held or 'none'}")
    wrong = [f"job {job.key}: {job.error} (after {job.attempts} tries)" for job in state.dead]
    wrong += [f"{letter.reader} at {letter.position}: {letter.state}: {letter.error}" for letter in state.letters]
    wrong += [alert_line(one, now) for one in state.alerts[:SHOWN_MAX]]
    if len(state.alerts) > SHOWN_MAX:
        wrong.append(f"… and {len(state.alerts) - SHOWN_MAX} more alerts: see  ringrift alerts")
    parts.append("what is wrong:\n  " + "\n  ".join(wrong) if wrong else "what is wrong: nothing")
    return "\n\n".join(parts)


def does(doing: Doing) -> str:
    """What a node does, e.g. ``train hex8_2p 40 %, play hex8_3p 0 %``."""
    jobs = [f"{job.kind} {job.variant} {100 * job.done:.0f} %" for job in doing.jobs]
    more = [f"{doing.more} more"] if doing.more else []
    failing = [f"FAILING: {' '.join(doing.failing)}"] if doing.failing else []
    return ", ".join(jobs + more + failing) or "nothing"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print the state; 0."""
    found = effective(file=options.settings, given=given)
    state = asyncio.run(gather(found.settings))
    if options.json:
        print(json.dumps(msgspec.to_builtins(state), indent=2))
    else:
        print(as_text(state, SystemClock().now()))
    return 0
