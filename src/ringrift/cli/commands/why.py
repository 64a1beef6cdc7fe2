"""Explain why a variant waits: the cause first, then what to do, then the details."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import duration, short, timestamp, verdict_line
from ringrift.kernel import variant as variants
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift.store.ports import JobRow, RoleRow
from ringrift.work.admission import VERDICTS
from ringrift.work.program_roles import ROLE_PREFIX
from ringrift.workload.registry import Registry

_JOBS_MAX = 50
_JOBS_LISTED, _DEAD_LISTED = 10, 3
_SIGNAL_PREFIX = "feedback "


def _arguments(parser: Parser) -> None:
    parser.add_argument("variant", help="e.g. hex8_2p")


@dataclass(frozen=True)
class _Explanation:
    """Everything that decides what a line does next."""

    line: Line | None
    waits_on: Verdict | None
    verdicts: list[Verdict]
    jobs: Sequence[JobRow]
    dead: Sequence[JobRow]
    roles: Sequence[RoleRow]


def _as_text(explanation: _Explanation, variant: str, now: float) -> str:
    line, roles = explanation.line, [role.role for role in explanation.roles if not role.holder]
    vacant = [role for role in roles if not role.startswith(ROLE_PREFIX)]
    if line is None:
        return f"{variant} has no line yet.\n  open one:      ringrift run --variants {variant}"
    jobs = [_job(job, now) for job in explanation.jobs[:_JOBS_LISTED]]
    if len(explanation.jobs) > _JOBS_LISTED:
        jobs.append(f"… and {len(explanation.jobs) - _JOBS_LISTED} more")
    if vacant:
        rows = [("start one", "ringrift run"), *(("when it runs", job) for job in jobs or ["nothing is queued"])]
        cause = f"{variant} is waiting: no coordinator is running."
    else:
        rows = [("jobs", job) for job in jobs or ["none"]]
        cause = f"{variant} is {line.stage}" + _gate(explanation.waits_on, now)
    champion = "no champion yet"
    if line.champion is not None:
        champion = f"champion {short(line.champion)} of generation {line.generation}, {line.iteration} promotions"
    rows.append(("line", f"{line.stage} since {timestamp(line.since)} ({duration(now - line.since)} ago), {champion}"))
    if vacant:
        rows += [("gate", verdict_line(verdict, now)) for verdict in (explanation.waits_on,) if verdict is not None]
        rows.append(("vacant roles", ", ".join(vacant)))
    # The gates of stages that lie behind say nothing about now.
    others = [verdict for verdict in explanation.verdicts if verdict.gate not in set(Stage)]
    signals = [verdict for verdict in others if verdict.gate.startswith(_SIGNAL_PREFIX)]
    rows += [("other gates", verdict_line(verdict, now)) for verdict in others if verdict not in signals]
    for verdict in signals:
        state = f"{verdict.gate.removeprefix(_SIGNAL_PREFIX)} is {'on' if verdict.allowed else 'off'}"
        numbers = f"(now {verdict.value:.4g}, limit {verdict.limit:.4g})"
        rows.append(("signals", f"{state}: {verdict.rule} {numbers}"))
    for job in explanation.dead[-_DEAD_LISTED:]:
        rows.append(("given up", f"{job.key[:60]}: {job.error} (after {job.attempts} attempts)"))
    return "\n".join([cause, *(f"  {name + ':':<14} {text}" for name, text in rows)])


def _gate(verdict: Verdict | None, now: float) -> str:
    if verdict is None:
        return "."
    state = "goes on" if verdict.allowed else "waits"
    since = f"since {timestamp(verdict.since)} ({duration(now - verdict.since)} ago)"
    return f" and {state}: {verdict.rule}: {verdict.value:.4g} of {verdict.limit:.4g}, {since}"


def _job(job: JobRow, now: float) -> str:
    state = f"{job.state} by {job.holder}, {job.progress:.0%} done" if job.holder else job.state
    pause = f", paused for {job.pause:g} s after: {job.error}" if job.pause else ""
    return f"{job.kind} ({state}, attempt {job.attempts or 1}{pause}), enqueued {duration(now - job.time)} ago"


def _prepare(context: Context) -> None:
    """Raises InvalidId, or UnknownName for a variant that no workload plays."""
    work = context.settings.work
    variants.parse(context.options.variant)
    Registry.load(work.executables, prefer=work.workload).owner(context.options.variant)


async def _question(context: Context) -> Output:
    variant = context.options.variant
    async with context.store.read() as view:
        line = await LINES.get(view, variant)
        verdicts = await VERDICTS.all(view, "variant", variant)
        jobs = await view.jobs(("ready", "claimed"), _JOBS_MAX, variant=variant)
        dead, roles = await view.jobs(("dead",), _JOBS_MAX, variant=variant), await view.roles()
    waits_on = next((verdict for verdict in verdicts if line and verdict.gate == line.stage), None)
    explanation = _Explanation(line, waits_on, verdicts, jobs, dead, roles)
    return Output(value=explanation, text=_as_text(explanation, variant, context.clock.now()))


COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_question)
