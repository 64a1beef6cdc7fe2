"""Show lines, jobs, nodes and open problems."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringrift.cli.brakes import brake_lines
from ringrift.cli.command import Command, Context, Output
from ringrift.cli.commands.alerts import alert_line
from ringrift.cli.formats import ago, duration, short, table
from ringrift.cli.presence import disabled_lines
from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert
from ringrift.cluster.health import SurveyedNodes
from ringrift.cluster.liveness import LOST_NODES
from ringrift.cluster.roster import NODES, SILENT_BEATS, NodeRecord
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.health_survey import read_facts
from ringrift.pipeline.line import LINES, Line
from ringrift.pipeline.system_health import HealthFacts, SystemHealth, judge
from ringrift.store.ports import STATES, Delivery, JobRow, Reads, RoleRow
from ringrift.work.breakers import StoredBreaker
from ringrift.work.run_states import RunState

_LISTED_MAX = 20


@dataclass(frozen=True)
class _State:
    run_states: Sequence[RunState]
    position: int
    lines: list[Line]
    tally: dict[str, dict[str, int]]
    claimed: Sequence[JobRow]
    dead: Sequence[JobRow]
    nodes: Sequence[NodeRecord]
    roles: Sequence[RoleRow]
    deliveries: Sequence[Delivery]
    alerts: Sequence[Alert]
    health: SystemHealth  # as far as the last reports go: unlike ``ringrift health``, this looks only once
    breakers: Sequence[StoredBreaker] = ()  # those that are not closed


def _as_text(state: _State, now: float) -> str:
    lines = []
    for line in state.lines:
        model = (ago(line.since, now), line.generation, short(line.champion), line.iteration)
        lines.append((line.variant, line.stage, *model, line.counts.games, line.fresh))
    head = ("variant", "stage", "since", "generation", "champion", "promotions", "games", "waiting for export")
    jobs = [(kind, *(counts.get(name, 0) for name in STATES)) for kind, counts in sorted(state.tally.items())]
    does = {node.id: "left" if node.gone else _does(node.activity) for node in state.nodes}
    nodes = [(node.id, node.profile, does[node.id], node.address) for node in state.nodes]
    roles = ", ".join(f"{role.role}={role.holder or 'none'} (term {role.term})" for role in state.roles)
    problems, off = _problems(state, now), disabled_lines(state.nodes)
    brakes = [*brake_lines(state.run_states, now), *(_breaker_line(breaker, now) for breaker in state.breakers)]
    parts = ["\n".join(brakes), _health_line(state.health), f"log: {state.position} events", table(head, lines)]
    parts += [table(("jobs", *STATES), jobs), table(("node", "profile", "now", "blobs"), nodes), "\n".join(off)]
    parts += [f"roles: {roles or 'none'}", "\n  ".join(["problems:", *problems]) if problems else "problems: none"]
    return "\n\n".join(filter(None, parts))


def _breaker_line(breaker: StoredBreaker, now: float) -> str:
    state = "open" if breaker.state is BreakerState.OPEN else "tried with one job"
    since, error = duration(now - breaker.since), breaker.error
    return f"breaker of {breaker.subject}: {state} for {since} after {breaker.failures} failures in a row: {error}"


def _health_line(health: SystemHealth) -> str:
    text = f"health by the last reports: {health.status.name.lower()}, score {health.score:.2f}"
    for issue in health.reasons()[:1]:
        more = len(health.issues) - 1
        text += f": {issue}" + (f"; and {more} more (all: ringrift health)" if more else "")
    return text


async def _facts(view: Reads, nodes: Sequence[NodeRecord], context: Context) -> HealthFacts:
    """The facts about health, where every node that was not reported lost is believed to live."""
    lost, seconds = await LOST_NODES.scan(view), SILENT_BEATS * context.settings.cluster.beat_seconds
    silent = frozenset(node.id for node in nodes if lost.get(node.id) == node.beat)
    moved = frozenset(node.id for node in nodes) - silent
    survey = SurveyedNodes(nodes=tuple(nodes), silent=silent, moved=moved, seconds=seconds)
    return await read_facts(view, survey, context.settings, context.clock, StallDetector())


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
        lines, nodes = await LINES.all(view), await NODES.all(view)
        claimed, dead = [await view.jobs((name,), _LISTED_MAX) for name in ("claimed", "dead")]
        deliveries, roles = await view.deliveries(("parked", "dead"), _LISTED_MAX), await view.roles()
        facts = await _facts(view, nodes, context)
    rows = (lines, tally, claimed, dead, nodes, roles, deliveries)
    state = _State(facts.run_states, context.store.position, *rows, facts.alerts, judge(facts), facts.breakers)
    return Output(value=state, text=_as_text(state, context.clock.now()))


COMMAND = Command(question=_question)
