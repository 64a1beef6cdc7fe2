"""Show lines, jobs, nodes and open problems."""

from collections.abc import Mapping
from typing import Any

from ringrift.cli.brakes import brake_lines
from ringrift.cli.command import Command, Context, Output
from ringrift.cli.commands.alerts import alert_line
from ringrift.cli.faults import fault_lines, node_faults
from ringrift.cli.formats import ago, duration, short, since, table
from ringrift.cli.presence import disabled_lines
from ringrift.cluster.activity import Activity
from ringrift.cluster.health import SurveyedNodes
from ringrift.cluster.liveness import stored_states
from ringrift.cluster.roster import NODES, SILENT_BEATS, NodeState
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.health_survey import read_facts
from ringrift.pipeline.line import LINES
from ringrift.pipeline.prefetch import champion_spread, spread_text
from ringrift.pipeline.system_health import SystemHealth, judge
from ringrift.store.ports import STATES
from ringrift.work.breakers import StoredBreaker

_LISTED_MAX = 20


def _as_text(state: Mapping[str, Any], now: float) -> str:
    lines = []
    for line in state["lines"]:
        model = (ago(line.since, now), line.generation, short(line.champion), line.iteration)
        lines.append((line.variant, line.stage, *model, line.counts.games, line.fresh))
    head = ("variant", "stage", "since", "generation", "champion", "promotions", "games", "waiting for export")
    jobs = [(kind, *(counts.get(name, 0) for name in STATES)) for kind, counts in sorted(state["tally"].items())]
    states = {id: text for id, text in state["node_states"].items() if text != NodeState.ALIVE}
    does = {node.id: states.get(node.id) or _does(node.activity) for node in state["nodes"]}
    nodes = [(node.id, node.profile, does[node.id], node.address) for node in state["nodes"]]
    roles = ", ".join(f"{role.role}={role.holder or 'none'} (term {role.term})" for role in state["roles"])
    problems, off = _problems(state, now), disabled_lines(state["nodes"])
    brakes = [*brake_lines(state["run_states"], now), *(_breaker_line(breaker, now) for breaker in state["breakers"])]
    parts = ["\n".join(fault_lines(state["faults"])), "\n".join(brakes), _health_line(state["health"])]
    spreads = [f"champion of {name}: {spread_text(spread)}" for name, spread in state["spreads"].items() if spread]
    parts += [f"log: {state['position']} events", table(head, lines), "\n".join(spreads)]
    parts += [table(("jobs", *STATES), jobs), table(("node", "profile", "now", "blobs"), nodes), "\n".join(off)]
    parts += [f"roles: {roles or 'none'}", "\n  ".join(["problems:", *problems]) if problems else "problems: none"]
    return "\n\n".join(filter(None, parts))


def _breaker_line(breaker: StoredBreaker, now: float) -> str:
    state = "open" if breaker.state is BreakerState.OPEN else "tried with one job"
    if fault := breaker.node_fault():
        return f"{fault}, {since(breaker.failing_since, now)}"
    lasted, error = duration(now - breaker.since), breaker.error
    return f"breaker of {breaker.subject}: {state} for {lasted} after {breaker.failures} failures in a row: {error}"


def _health_line(health: SystemHealth) -> str:
    text = f"health by the last reports: {health.status.name.lower()}, score {health.score:.2f}"
    for issue in health.reasons()[:1]:
        more = len(health.issues) - 1
        text += f": {issue}" + (f"; and {more} more (all: ringrift health)" if more else "")
    return text


def _problems(state: Mapping[str, Any], now: float) -> list[str]:
    problems = [f"job {job.key}: {job.error} (after {job.attempts} attempts)" for job in state["dead"]]
    problems += [f"delivery {row.reader}@{row.position}: {row.state}: {row.error}" for row in state["deliveries"]]
    problems += [alert_line(alert, now) for alert in state["alerts"][:_LISTED_MAX]]
    more = len(state["alerts"]) - _LISTED_MAX
    return [*problems, f"… and {more} more alerts (all: ringrift alerts)"] if more > 0 else problems


def _does(activity: Activity) -> str:
    """The activity of a node, e.g. ``train hex8_2p 40 %, play hex8_3p 0 %``."""
    jobs = [f"{job.kind} {job.variant} {100 * job.done:.0f} %" for job in activity.jobs]
    more = [f"{activity.more} more"] if activity.more else []
    failing = [f"FAILING: {' '.join(activity.daemons.failed)}"] if activity.daemons.failed else []
    return ", ".join(jobs + more + failing) or "idle"


async def _question(context: Context) -> Output:
    tally: dict[str, dict[str, int]] = {}
    settings, clock, beat_seconds = context.settings, context.clock, context.settings.cluster.beat_seconds
    async with context.store.read() as view:
        for (kind, name), count in (await view.count_jobs()).items():
            tally.setdefault(kind, {})[name] = count
        nodes = await NODES.all(view)
        states = await stored_states(view, nodes)
        # A node that was not reported lost is believed to live: unlike ``ringrift health``, this looks only once.
        silent = frozenset(id for id, text in states.items() if text is NodeState.LOST)
        moved, seconds = frozenset(set(states) - silent), SILENT_BEATS * beat_seconds
        moved -= {id for id, text in states.items() if text is NodeState.STARTING}
        survey = SurveyedNodes(nodes=tuple(nodes), silent=silent, moved=moved, seconds=seconds)
        facts = await read_facts(view, survey, settings, clock, StallDetector())
        lines = await LINES.all(view)
        state = {"run_states": facts.run_states, "position": context.store.position, "lines": lines}
        state |= {"tally": tally} | {name: await view.jobs((name,), _LISTED_MAX) for name in ("claimed", "dead")}
        state |= {"spreads": {line.variant: await champion_spread(view, line) for line in lines}}
        state |= {"nodes": nodes, "node_states": states, "roles": await view.roles()}
        state |= {"deliveries": await view.deliveries(("parked", "dead"), _LISTED_MAX), "alerts": facts.alerts}
    faults = [*context.faults, *node_faults(nodes, clock, beat_seconds)]
    state |= {"health": judge(facts), "breakers": facts.breakers, "faults": faults}
    return Output(value=state, text=_as_text(state, clock.now()))


COMMAND = Command(question=_question, names_faults=True)
