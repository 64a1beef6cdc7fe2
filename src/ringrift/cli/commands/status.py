"""Show lines, jobs, nodes and open problems."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringrift.cli.command import Command, Context, Output
from ringrift.cli.commands.alerts import alert_line
from ringrift.cli.formats import duration, short, table
from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.pipeline.line import LINES, Line
from ringrift.store.ports import STATES, Delivery, JobRow, RoleRow

_LISTED_MAX = 20


@dataclass(frozen=True)
class _State:
    position: int
    lines: list[Line]
    tally: dict[str, dict[str, int]]
    claimed: Sequence[JobRow]
    dead: Sequence[JobRow]
    nodes: Sequence[NodeRecord]
    roles: Sequence[RoleRow]
    deliveries: Sequence[Delivery]
    alerts: Sequence[Alert]


def _as_text(state: _State, now: float) -> str:
    lines = []
    for line in state.lines:
        model = (f"{duration(now - line.since)} ago", line.generation, short(line.champion), line.iteration)
        lines.append((line.variant, line.stage, *model, line.counts.games, line.fresh))
    head = ("variant", "stage", "since", "generation", "champion", "promotions", "games", "waiting for export")
    jobs = [(kind, *(counts.get(name, 0) for name in STATES)) for kind, counts in sorted(state.tally.items())]
    does = {node.id: "left" if node.gone else _does(node.activity) for node in state.nodes}
    nodes = [(node.id, node.profile, does[node.id], node.address) for node in state.nodes]
    roles = ", ".join(f"{role.role}={role.holder or 'none'} (term {role.term})" for role in state.roles)
    problems = _problems(state, now)
    parts = [
        f"log: {state.position} events",
        table(head, lines),
        table(("jobs", *STATES), jobs),
        table(("node", "profile", "now", "blobs"), nodes),
        f"roles: {roles or 'none'}",
        "problems:\n  " + "\n  ".join(problems) if problems else "problems: none",
    ]
    return "\n\n".join(parts)


def _problems(state: _State, now: float) -> list[str]:
    problems = [f"job {job.key}: {job.error} (after {job.attempts} attempts)" for job in state.dead]
    problems += [f"delivery {row.reader}@{row.position}: {row.state}: {row.error}" for row in state.deliveries]
    problems += [alert_line(alert, now) for alert in state.alerts[:_LISTED_MAX]]
    more = len(state.alerts) - _LISTED_MAX
    return [*problems, f"… and {more} more alerts (all: ringrift alerts)"] if more > 0 else problems


def _does(activity: Activity) -> str:
    """The activity of a node, e.g. ``train hex8_2p 40 %, play hex8_3p 0 %``."""
    jobs = [f"{job.kind} {job.variant} {100 * job.done:.0f} %" for job in activity.jobs]
    more = [f"{activity.more} more"] if activity.more else []
    failing = [f"FAILING: {' '.join(activity.daemons.failed)}"] if activity.daemons.failed else []
    return ", ".join(jobs + more + failing) or "idle"


async def _question(context: Context) -> Output:
    async with context.store.read() as view:
        tally: dict[str, dict[str, int]] = {}
        for (kind, name), count in (await view.count_jobs()).items():
            tally.setdefault(kind, {})[name] = count
        lines, nodes, alerts = await LINES.all(view), await NODES.all(view), await open_alerts(view)
        claimed, dead = [await view.jobs((name,), _LISTED_MAX) for name in ("claimed", "dead")]
        deliveries, roles = await view.deliveries(("parked", "dead"), _LISTED_MAX), await view.roles()
    state = _State(context.store.position, lines, tally, claimed, dead, nodes, roles, deliveries, alerts)
    return Output(value=state, text=_as_text(state, context.clock.now()))


COMMAND = Command(question=_question)
