"""Explain why a variant waits: the cause first, then what to do, then the details."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.cli.brakes import brake_lines
from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.faults import fault_lines
from ringrift.cli.formats import ago, short, since, verdict_line, verdict_reason
from ringrift.cli.presence import disabled_lines
from ringrift.cluster.roster import NODES
from ringrift.jobs import Train
from ringrift.kernel import variant as variants
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.absence import CHAMPION_GATE
from ringrift.pipeline.healer import EVERYWHERE
from ringrift.pipeline.line import LINES, Stage
from ringrift.store.ports import TASK_PREFIX, JobRow, Reads
from ringrift.store.roles import ROLE_PREFIX
from ringrift.work.claims import slot_rule
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import load_run_states
from ringrift.work.tasks import TRAINING_SLOT, running_tasks
from ringrift.workload.registry import Registry

_JOBS_MAX = 50
_JOBS_LISTED, _DEAD_LISTED = 10, 3
_SIGNAL_PREFIX, _CLAIM_PREFIX = "feedback ", "claim."


def _arguments(parser: Parser) -> None:
    parser.add_argument("variant", help="e.g. hex8_2p")


def _as_text(facts: Mapping[str, Any], variant: str, now: float) -> str:
    line, waits_on, brakes = facts["line"], facts["waits_on"], brake_lines(facts["run_states"], now)
    vacant = [role.role for role in facts["roles"] if not role.holder and not role.role.startswith(ROLE_PREFIX)]
    if line is None:
        return "\n".join([*brakes, f"{variant} has no line yet.\n  open one:      ringrift run --variants {variant}"])
    jobs = [_job(job, now) for job in facts["jobs"][:_JOBS_LISTED]]
    if len(facts["jobs"]) > _JOBS_LISTED:
        jobs.append(f"… and {len(facts['jobs']) - _JOBS_LISTED} more")
    if vacant:
        rows = [("start one", "ringrift run"), *(("when it runs", job) for job in jobs or ["nothing is queued"])]
        cause = f"{variant} is waiting: no coordinator is running."
    else:
        rows = [("jobs", job) for job in jobs or ["none"]]
        cause = f"{variant} is {line.stage}."
        if waits_on:
            state = "goes on" if waits_on.allowed else "waits"
            cause = f"{variant} is {line.stage} and {state}: {verdict_reason(waits_on, now)}"
    champion = "no champion yet"
    if line.champion is not None:
        champion = f"champion {short(line.champion)} of generation {line.generation}, {line.iteration} promotions"
    rows[:0] = [("not started", text) for text in _refusals(facts["verdicts"], facts["trainers"], variant, now)]
    rows.append(("line", f"{line.stage} {since(line.since, now)}, {champion}"))
    if vacant and waits_on:
        rows.append(("gate", verdict_line(waits_on, now)))
    if vacant:
        rows.append(("vacant roles", ", ".join(vacant)))
    # The gates of stages that lie behind say nothing about now.
    others = [verdict for verdict in facts["verdicts"] if verdict.gate not in set(Stage)]
    gates = [verdict for verdict in others if not verdict.gate.startswith((_CLAIM_PREFIX, _SIGNAL_PREFIX))]
    rows += [("other gates", verdict_line(verdict, now)) for verdict in gates]
    for verdict in others:
        if verdict.gate.startswith(_SIGNAL_PREFIX):
            state = f"{verdict.gate.removeprefix(_SIGNAL_PREFIX)} is {'on' if verdict.allowed else 'off'}"
            numbers = f"(now {verdict.value:.4g}, limit {verdict.limit:.4g})"
            rows.append(("signals", f"{state}: {verdict.rule} {numbers}"))
    dead = facts["dead"][-_DEAD_LISTED:]
    rows += [("given up", f"{job.key[:60]}: {job.error} (after {job.attempts} attempts)") for job in dead]
    return "\n".join([*brakes, *facts["off"], cause, *(f"  {name + ':':<14} {text}" for name, text in rows)])


def _refusals(verdicts: Sequence[Verdict], trainers: Sequence[str], variant: str, now: float) -> list[str]:
    """Why queued jobs are not started, by kind: each reason once, for however many nodes."""
    first: dict[tuple[str, str], Verdict] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.since):
        if verdict.gate.startswith(_CLAIM_PREFIX):
            first.setdefault((verdict.gate.removeprefix(_CLAIM_PREFIX), verdict.rule), verdict)
    texts = []
    for (kind, rule), verdict in first.items():
        reason = f"{rule}: {verdict.value:.4g} of {verdict.limit:.4g}" if verdict.limit > 1 else rule
        if kind == Train.kind() and rule == slot_rule(variant) and trainers:
            reason = f"{rule} is held by {', '.join(trainers)}"
        texts.append(f"{kind} {variant} waits: {reason}, {since(verdict.since, now)}")
    return texts


async def _trainers(view: Reads, variant: str) -> list[str]:
    """The jobs and tasks that hold the training slot of *variant*."""
    tasks = [task for task in await running_tasks(view) if task.variant == variant]
    holders = [f"task {task.id} on node {task.node}" for task in tasks if TASK_PREFIX + task.type in TRAINING_SLOT]
    jobs = await view.jobs(("claimed",), _JOBS_MAX, variant=variant)
    return [*holders, *(f"job {row.id} on node {row.holder}" for row in jobs if row.kind == Train.kind())]


def _job(job: JobRow, now: float) -> str:
    state = f"{job.state} by {job.holder}, {job.progress:.0%} done" if job.holder else job.state
    pause = f", paused for {job.pause:g} s after: {job.error}" if job.pause else ""
    return f"{job.kind} ({state}, attempt {job.attempts or 1}{pause}), enqueued {ago(job.time, now)}"


def _prepare(context: Context) -> None:
    """Raises InvalidId, or UnknownName for a variant that no workload plays."""
    work = context.settings.work
    variants.parse(context.options.variant)
    Registry.load(work.executables, prefer=work.workload).owner(context.options.variant)


async def _question(context: Context) -> Output:
    variant = context.options.variant
    async with context.store.read() as view:
        run_states = (await load_run_states(view)).in_force(context.clock.now())
        line, verdicts = await LINES.get(view, variant), await VERDICTS.all(view, "variant", variant, EVERYWHERE)
        closed = next((verdict for verdict in verdicts if verdict.gate == CHAMPION_GATE and not verdict.allowed), None)
        waits_on = closed or next((verdict for verdict in verdicts if line and verdict.gate == line.stage), None)
        facts: dict[str, Any] = {"run_states": run_states, "line": line, "waits_on": waits_on, "verdicts": verdicts}
        facts |= {"trainers": await _trainers(view, variant), "roles": await view.roles()}
        facts["jobs"] = await view.jobs(("ready", "claimed"), _JOBS_MAX, variant=variant)
        facts["dead"] = await view.jobs(("dead",), _JOBS_MAX, variant=variant)
        facts["off"] = disabled_lines(await NODES.all(view))  # daemons that settings forbid to start, in words
    text = _as_text(facts, variant, context.clock.now())
    return Output(value=facts, text="\n".join([*fault_lines(context.faults), text]))


COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_question, names_faults=True)
