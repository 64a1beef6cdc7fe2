"""Explain what each line does or waits for: the answer first, then what is behind it."""

from collections.abc import Iterator, Sequence
from typing import Any

from ringrift.cli import why_answer
from ringrift.cli.brakes import brake_lines
from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.faults import fault_lines, is_running, node_faults
from ringrift.cli.formats import ago, plural, short, since, verdict_line
from ringrift.cli.presence import disabled_lines
from ringrift.cli.why_answer import CLAIM_PREFIX, SUCCESSES, Situation, find_failures
from ringrift.cli.why_node import describe_idleness, idle_reasons
from ringrift.cluster.liveness import stored_states
from ringrift.cluster.roster import NODES, NodeState
from ringrift.events import catalog, work
from ringrift.jobs import Train
from ringrift.kernel.errors import require_name
from ringrift.kernel.value import changed
from ringrift.pipeline.absence import CHAMPION_GATE
from ringrift.pipeline.healer import EVERYWHERE
from ringrift.pipeline.line import LINES, Stage
from ringrift.store.ports import LIVE_STATES, TASK_PREFIX, JobRow, Reads, RoleRow
from ringrift.store.roles import ROLE_PREFIX
from ringrift.supervision.spec import COORDINATES
from ringrift.work.failures import latest_failures
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import load_run_states
from ringrift.work.tasks import TRAINING_SLOT, running_tasks
from ringrift.workload.registry import Registry

_JOBS_MAX = 50
_JOBS_LISTED = 5
_EVENTS_MAX = 500  # newest results and failures of all lines: an older failure is no cause of today's wait
_SIGNAL_PREFIX, _REQUESTED = "feedback ", "requested"
_ENDS = [work.Buried.name(), *(event.name() for event in SUCCESSES)]
_DECIDES = "pipeline"  # the role of the node that decides about lines
_FACTS = ("variant", "line", "verdicts", "trainers", "jobs", "failures", "faults")  # of a situation, for programs
_Reply = dict[str, Any]  # the answer for one line, with the facts behind it


def _arguments(parser: Parser) -> None:
    parser.add_argument("variant", nargs="?", help="e.g. hex8_2p (default: every line)")
    parser.add_argument("--node", metavar="ID", help="why this node does no jobs, or no more")
    parser.add_argument("--all", action="store_true", help="internals too: roles, every gate, every signal")


def _rows(facts: Situation, reply: _Reply, *, all: bool) -> Iterator[tuple[str, str]]:
    """The chain behind the answer, each with its title."""
    now, line = facts.now, facts.line
    if reply["answer"].remedy:
        yield "do", reply["answer"].remedy
    for kind, reason, begin in why_answer.refusal_reasons(facts):
        yield "not started", f"{kind} {facts.variant} waits: {reason}, {since(begin, now)}"
    if line is None:
        return
    title = "jobs" if facts.has_coordinator else "when it runs"
    ordered = sorted(facts.jobs, key=lambda job: (job.kind != facts.kind, job.state != "claimed", job.time))
    for job in ordered[:_JOBS_LISTED]:
        yield title, _job(job, now)
    if len(ordered) > _JOBS_LISTED:
        yield title, f"… and {len(ordered) - _JOBS_LISTED} more: ringrift jobs"
    elif not ordered:
        yield title, "nothing is queued"
    for failure in facts.failures:
        yield "given up", f"{failure.kind} {failure.job}: {failure}, {ago(failure.time, now)}"
    if away := facts.verdict(CHAMPION_GATE):
        yield "champion", f"{away.rule}, {since(away.since, now)}"
    model = f"champion {short(line.champion)} of generation {line.generation}, {plural(line.iteration, 'promotion')}"
    yield "line", f"{line.stage} {since(line.since, now)}, {model if line.champion else 'no champion yet'}"
    for verdict in facts.verdicts:
        if verdict.gate == _REQUESTED:
            yield "your request", verdict_line(verdict, now)
    if all:
        yield from _internals(facts, reply)


def _internals(facts: Situation, reply: _Reply) -> Iterator[tuple[str, str]]:
    """Roles, gates and signals."""
    vacant = [role.role for role in reply["roles"] if not role.holder and not role.role.startswith(ROLE_PREFIX)]
    if vacant:
        yield "vacant roles", ", ".join(vacant)
    if reply["waits_on"] is not None:
        yield "gate", verdict_line(reply["waits_on"], facts.now)
    for verdict in facts.verdicts:
        if verdict.gate.startswith(_SIGNAL_PREFIX):
            state = f"{verdict.gate.removeprefix(_SIGNAL_PREFIX)} is {'on' if verdict.allowed else 'off'}"
            yield "signals", f"{state}: {verdict.rule} (now {verdict.value:.4g}, limit {verdict.limit:.4g})"
        # The gates of stages that lie behind say nothing about now.
        elif verdict.gate not in {*Stage, _REQUESTED} and not verdict.gate.startswith(CLAIM_PREFIX):
            yield "other gates", verdict_line(verdict, facts.now)


def _job(job: JobRow, now: float) -> str:
    state = f"{job.progress:.0%} done on {job.holder}" if job.holder else "waits in the queue"
    return f"{job.kind} {job.id}: {state}{why_answer.retry_text(job)}, enqueued {ago(job.time, now)}"


async def _trainers(view: Reads, variant: str) -> tuple[str, ...]:
    """The jobs and tasks that hold the training slot of *variant*."""
    tasks = [task for task in await running_tasks(view) if task.variant == variant]
    holders = [f"task {task.id} on node {task.node}" for task in tasks if TASK_PREFIX + task.type in TRAINING_SLOT]
    jobs = await view.jobs(("claimed",), _JOBS_MAX, variant=variant)
    return (*holders, *(f"job {row.id} on node {row.holder}" for row in jobs if row.kind == Train.kind()))


async def _shared_facts(view: Reads, context: Context, roles: Sequence[RoleRow]) -> Situation:
    """What is the same for every line: nodes, faults, run states and whether a node decides."""
    clock, beat_seconds = context.clock, context.settings.cluster.beat_seconds
    nodes = await NODES.all(view)
    states = await stored_states(view, nodes)
    here = [node for node in nodes if states[node.id] is not NodeState.LOST]
    running = tuple(node for node in here if is_running(node, clock, beat_seconds))
    holders = {role.holder for role in roles if role.role == _DECIDES}
    ended = [node.beat / 1000 + node.wall for node in nodes if node.profile in COORDINATES and node.wall]
    off = [set(node.activity.daemons.disabled) for node in running if node.profile in COORDINATES]
    faults = (*context.faults, *node_faults(running, clock, beat_seconds, daemons=False))
    facts = Situation(variant="", now=clock.now(), faults=faults, nodes=running, run_states=await load_run_states(view))
    has_coordinator, left = any(node.id in holders for node in running), max(ended, default=None)
    disabled = tuple(set.intersection(*off)) if off else ()
    return changed(facts, has_coordinator=has_coordinator, coordinator_left=left, disabled=disabled)


async def _find_reply(view: Reads, shared: Situation, variant: str) -> tuple[Situation, _Reply]:
    line, ends = await LINES.get(view, variant), await view.last(None, _EVENTS_MAX, _ENDS)
    facts = changed(
        shared,
        variant=variant,
        line=line,
        verdicts=tuple(await VERDICTS.all(view, "variant", variant, EVERYWHERE)),
        jobs=tuple(await view.jobs(LIVE_STATES, _JOBS_MAX, variant=variant)),
        failures=tuple(find_failures([(end.time, catalog.decode(end.name, end.body)) for end in ends], variant)),
        trainers=await _trainers(view, variant),
        tracebacks={failure.job: failure.traceback for failure in await latest_failures(view, variant)},
    )
    waits_on = facts.verdict(CHAMPION_GATE) or (facts.verdict(line.stage, closed=False) if line else None)
    if waits_on is not None and line is not None:
        waits_on = changed(waits_on, since=max(waits_on.since, line.since))
    reply = {name: getattr(facts, name) for name in _FACTS}
    reply |= {"answer": why_answer.answer(facts), "waits_on": waits_on, "roles": await view.roles()}
    return facts, reply | {"run_states": shared.run_states.in_force(shared.now)}


async def _ask_node(context: Context, id: str) -> Output:
    """Why the node *id* does no jobs.  Raises UnknownName."""
    async with context.store.read() as view:
        nodes, now = {node.id: node for node in await NODES.all(view)}, context.clock.now()
        require_name("node", id, nodes)
        record = nodes[id]
        reasons = await idle_reasons(view, record, now)
        return Output(value={"node": id, "reasons": reasons}, text=await describe_idleness(view, record, now))


async def _question(context: Context) -> Output:
    """Raises UnknownName for a variant that has no line and that no workload plays, and for an unknown node."""
    options, texts, replies = context.options, [], []
    if options.node is not None:
        return await _ask_node(context, options.node)
    async with context.store.read() as view:
        lines, work = list(await LINES.scan(view)), context.settings.work
        if options.variant is not None and options.variant not in lines:
            Registry.load(work.executables).owner(options.variant, work.workload)
        names = lines if options.variant is None else [options.variant]
        shared = await _shared_facts(view, context, await view.roles())
        for variant in names:
            facts, reply = await _find_reply(view, shared, variant)
            rows = [f"  {name + ':':<14} {text}" for name, text in _rows(facts, reply, all=options.all)]
            texts.append("\n".join([why_answer.first_line(facts, reply["answer"]), *rows]))
            replies.append(reply)
    texts = texts or ["no line yet: nothing was ever run here\n  do:            ringrift run"]
    # The rest concerns every line: it comes behind the first answer.
    brakes = brake_lines(shared.run_states.in_force(shared.now), shared.now)
    text = "\n\n".join(filter(None, [*texts, "\n".join([*brakes, *disabled_lines(shared.nodes)])]))
    text = "\n".join([*fault_lines(shared.faults), text])
    return Output(value=replies[0] if options.variant is not None else replies, text=text)


COMMAND = Command(arguments=_arguments, question=_question, names_faults=True)
