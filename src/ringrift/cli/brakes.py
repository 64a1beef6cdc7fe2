"""Brakes: what ``pause``, ``drain``, ``stop`` and ``resume`` share, and how every command names the run states."""

import getpass
from collections import Counter
from collections.abc import Iterable, Mapping

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import parse_duration, plural, since, timestamp
from ringrift.cluster.roster import NODES
from ringrift.events.work import RunStateChanged
from ringrift.jobs import JOB_KINDS, LOOP_STAGES, STAGES
from ringrift.kernel.errors import SettingsError, require_name
from ringrift.pipeline.line import LINES
from ringrift.store.ports import TASK_PREFIX, JobCounter, Reads
from ringrift.work.run_states import BY_RUN, CLUSTER, EMERGENCY, RUNNING, RunState, load_run_states, set_run_state
from ringrift.work.tasks import LIMITED_KINDS, TASK_KINDS
from ringrift.workload.registry import Registry

_SECONDS_MAX = 365 * 86_400.0
# The stage of each kind of job, and of the tasks that do the same work.
_STAGES = STAGES | {TASK_PREFIX + type: STAGES[kinds[0]] for type, kinds in LIMITED_KINDS.items()}


def _scope_arguments(parser: Parser, *, all: bool = False) -> None:
    """Add the options that name a scope; without one it is the cluster."""
    scope = parser.add_mutually_exclusive_group()
    if all:
        scope.add_argument("--all", action="store_true", help="every scope")
    scope.add_argument("--node", metavar="ID", help="only this node")
    scope.add_argument("--variant", metavar="NAME", help="only this variant")
    scope.add_argument("--stage", metavar="STAGE", help=f"only this stage: {', '.join(LOOP_STAGES)}")


def brake_command(state: str, *, now: str | None = None) -> Command:
    """The command that puts a scope into *state*, or with the option ``--now`` into the state *now*."""

    def arguments(parser: Parser) -> None:
        _scope_arguments(parser)
        if now is not None:
            parser.add_argument("--now", action="store_true", help="emergency: stop running jobs too, after a grace")
        parser.add_argument("--for", dest="duration", metavar="TIME", help="resume after e.g. 90s, 15m, 2h, 1d")
        parser.add_argument("--reason", metavar="TEXT", help="shown by status and why")

    def prepare(context: Context) -> None:
        _seconds(context)

    async def question(context: Context) -> Output:
        return await _brake(context, now if now is not None and context.options.now else state)

    return Command(arguments=arguments, prepare=prepare, question=question)


def resume_command() -> Command:
    """The command that lets work start again."""

    def arguments(parser: Parser) -> None:
        _scope_arguments(parser, all=True)
        parser.add_argument("--reason", metavar="TEXT", default="", help="reason for the log")

    return Command(arguments=arguments, question=_resume)


def _seconds(context: Context) -> float | None:
    """How long the brake lasts; None for good.  Raises SettingsError."""
    text = context.options.duration
    seconds = None if text is None else parse_duration(text) or 0.0
    if seconds is not None and not 0.0 < seconds <= _SECONDS_MAX:
        raise SettingsError("--for", text, "use a number and s, m, h or d, at most a year: 90s, 15m, 2h, 1d")
    return seconds


async def _brake(context: Context, state: str) -> Output:
    """Put a scope into *state*; the output says what that means for the jobs in it."""
    options, now = context.options, context.clock.now()
    seconds, reason = _seconds(context), options.reason
    async with context.store.begin() as tx:
        scope = await _find_scope(tx, context)
        before = (await load_run_states(tx)).current(scope, now)
        if before.state != state or reason is not None or seconds is not None:
            until = None if seconds is None else now + seconds
            # The reason of a brake that is only prolonged stays.
            reason = (before.reason if before.state == state else "") if reason is None else reason
            fields = {"scope": scope, "state": state, "reason": reason, "by": _login(context)}
            await set_run_state(tx, context.envelopes(), **fields, until=until, now=now)
        states, (running, waiting) = await load_run_states(tx), await _count_jobs(tx, scope)
    after, braked = states.current(scope, now), states.in_force(now)
    value = {"before": before.state, "run_state": after, "running": running, "waiting": waiting, "braked": braked}
    running_text = _running_text(running, after.state, context.settings.work.grace_seconds)
    return Output(value=value, text=_as_text(before.state, after, running_text, waiting, now))


async def _resume(context: Context) -> Output:
    """Scopes run again; the output has them as they were before, and those that are still braked."""
    options, now = context.options, context.clock.now()
    async with context.store.begin() as tx:
        states = await load_run_states(tx)
        scopes = sorted(states.by_scope) if options.all else [await _find_scope(tx, context)]
        before = [state for scope in scopes if (state := states.current(scope, now)).state != RUNNING]
        fields = {"state": RUNNING, "reason": options.reason, "by": _login(context)}
        for scope in scopes:
            await set_run_state(tx, context.envelopes(), scope=scope, **fields, now=now)
        braked = (await load_run_states(tx)).in_force(now)
    lines = [f"{_title(state.scope)} runs again; it was {_word(state.state)} by {state.by}" for state in before]
    if not lines:
        lines = ["nothing to resume: no scope is braked" if options.all else f"{_title(scopes[0])} is running already"]
    lines += [f"still braked: {_describe(state, now)}" for state in braked]
    return Output(value={"resumed": before, "braked": braked}, text="\n".join(lines))


async def _find_scope(view: Reads, context: Context) -> str:
    """The scope that the options name.  Raises UnknownName, which lists the known ones, or InvalidId."""
    options = context.options
    if options.node is not None:
        require_name("node", options.node, await NODES.scan(view))
        return f"node:{options.node}"
    if options.variant is not None:
        work = context.settings.work
        if await LINES.get(view, options.variant) is None:  # it may be braked before it is opened
            Registry.load(work.executables).owner(options.variant, work.workload)
        return f"variant:{options.variant}"
    if options.stage is not None:
        require_name("stage", options.stage, LOOP_STAGES)
        return f"stage:{options.stage}"
    return CLUSTER


def _login(context: Context) -> str:
    """The name of the person at this terminal; the node's id where a container has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return context.settings.node.id


async def _count_jobs(view: Reads, scope: str) -> tuple[dict[str, int], int]:
    """How many jobs and tasks of *scope* run, by kind, and how many jobs wait; those belong to no node."""
    running: Counter[str] = Counter()
    for counter in await view.job_counters("claimed", JOB_KINDS | TASK_KINDS):
        running[counter.kind] += counter.count if _is_inside(counter, scope) else 0
    ready = await view.job_counters("ready", JOB_KINDS)
    return dict(sorted((+running).items())), sum(counter.count for counter in ready if _is_inside(counter, scope))


def _is_inside(counter: JobCounter, scope: str) -> bool:
    """Whether the jobs of *counter* belong to *scope*."""
    names = (f"node:{counter.holder}", f"variant:{counter.variant}", f"stage:{_STAGES.get(counter.kind)}")
    return scope in (CLUSTER, *names)


def _as_text(before: str, state: RunState, running: str, waiting: int, now: float) -> str:
    scope, title = state.scope, _sentence(state, now)
    if before == state.state and state.since < now:
        title += " (as before)"
    elif before not in (RUNNING, state.state):
        title += f" (before: {_word(before)})"
    rows = [("running", running)]
    if not scope.startswith("node:"):
        rows.append(("waiting", f"{waiting} jobs, which start only after it is resumed"))
    if scope.partition(":")[0] in (CLUSTER, "variant") or scope == "stage:promote":
        rows.append(("champions", "stay: promotions and rollbacks by the loop wait, with their evidence"))
    rows.append(("resume", remedy(scope)))
    return "\n".join([title, *(f"  {name + ':':<11} {text}" for name, text in rows)])


def _running_text(running: Mapping[str, int], state: str, grace_seconds: float) -> str:
    jobs = {kind: count for kind, count in running.items() if not kind.startswith(TASK_PREFIX)}
    text, number, end = "no job", sum(jobs.values()), "will finish, and the results count"
    if state == EMERGENCY:
        end = f"asked to stop, killed after {grace_seconds:g} s (work.grace_seconds); "
        end += "what is not done then is queued again as if not tried"
    if jobs:
        kinds = ", ".join(f"{count} {kind}" for kind, count in jobs.items())
        text = f"{plural(number, 'job')} ({kinds}): {end}"
    tasks = sum(running.values()) - number
    return f"{text}; {tasks} tasks of programs outside the loop, which only those can stop" if tasks else text


def remedy(scope: str) -> str:
    """The command that resumes *scope*."""
    kind, _, name = scope.partition(":")
    return f"ringrift resume --{kind} {name}" if name else "ringrift resume"


def _title(scope: str) -> str:
    return scope.replace(":", " ", 1)


def _word(state: str) -> str:
    return f"in {state}" if state == EMERGENCY else state


def _sentence(state: RunState, now: float) -> str:
    """*state* in a sentence: what is stopped, since when and until when, by whom and why."""
    by = f"by {state.by or 'unknown'}{_reason(state)}"
    return f"{_title(state.scope)} is {_word(state.state)} {since(state.since, now)}, {_until(state)}, {by}"


def brake_reason(state: RunState) -> str:
    """*state* as a reason: what is stopped, by whom, until when and why."""
    return f"{_title(state.scope)} is {_word(state.state)} by {state.by or 'unknown'} {_until(state)}{_reason(state)}"


def _until(state: RunState) -> str:
    return "until it is resumed" if state.until is None else f"until {timestamp(state.until)}"


def _reason(state: RunState) -> str:
    return f": {' '.join(state.reason.split())}" if state.reason else ""


def _describe(state: RunState, now: float) -> str:
    return f"{_sentence(state, now)} (resume: {remedy(state.scope)})"


def brake_lines(states: Iterable[RunState], now: float) -> list[str]:
    """A line for each of *states*: the first that a person must know who wonders why nothing starts.

    A line that rests while a run works on others is no brake of theirs.
    """
    return [f"BRAKE: {_describe(state, now)}" for state in states if state.by != BY_RUN]


def describe_change(event: RunStateChanged) -> str:
    """A change of a run state in a sentence."""
    by, reason = f" by {event.by}" if event.by else "", f": {event.reason}" if event.reason else ""
    if event.by == BY_RUN:
        return f"{_title(event.scope)} {'rests' if event.state != RUNNING else 'rests no longer'}{reason}"
    if event.state == RUNNING:
        return f"{_title(event.scope)} runs again{by}{reason} (before: {_word(event.before)})"
    until = "" if event.until is None else f" until {timestamp(event.until)}"
    return f"BRAKE: {_title(event.scope)} is {_word(event.state)}{until}{by}{reason} (resume: {remedy(event.scope)})"
