"""``ringrift why VARIANT``: the gate that a line waits on, with value, limit and since when."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence

import msgspec

from ringrift.cli.environment import effective
from ringrift.cli.show import ago, clock, short
from ringrift.cli.show import verdict as verdict_line
from ringrift.cli.store import existing
from ringrift.kernel import variant as variants
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import load, verdicts_of
from ringrift.store.ports import JobRow, RoleRow
from ringrift.work.exclusive import PREFIX
from ringrift.workload.registry import Registry

JOBS_MAX = 50


class Answer(Value):
    """Why a line stands where it stands."""

    line: Line | None
    waits_on: Verdict | None
    verdicts: list[Verdict]
    jobs: list[JobRow]
    dead: list[JobRow]
    roles: list[RoleRow]


def current(line: Line, verdicts: Sequence[Verdict]) -> Verdict | None:
    """The verdict of the gate that *line* stands before."""
    return next((said for said in verdicts if said.gate == line.stage), None)


async def ask(settings: Settings, variant: str) -> Answer:
    """What the store says about *variant*."""
    async with existing(settings.store) as store, store.read() as view:
        line = await load(view, variant)
        verdicts = await verdicts_of(view, variant)
        return Answer(
            line=line,
            waits_on=current(line, verdicts) if line else None,
            verdicts=verdicts,
            jobs=list(await view.jobs(("ready", "claimed"), JOBS_MAX, variant=variant)),
            dead=list(await view.jobs(("dead",), JOBS_MAX, variant=variant)),
            roles=list(await view.roles()),
        )


def as_text(answer: Answer, variant: str, now: float) -> str:
    """The answer for people: the gate first, then what is being done about it."""
    line = answer.line
    if line is None:
        return f"{variant} has never been opened: start it with  ringrift run --variants {variant}"
    out = [
        f"{variant} is {line.stage} since {clock(line.since)} ({ago(now - line.since)} ago): "
        f"champion {short(line.champion)} of generation {line.generation}, {line.iteration} promotions"
    ]
    if answer.waits_on is not None:
        out.append(f"it waits on   {verdict_line(answer.waits_on, now)}")
    # The gates of stages that lie behind say nothing about now.
    others = [said for said in answer.verdicts if said.gate not in set(Stage)]
    out += [f"other gates   {verdict_line(said, now)}" for said in others]
    out += [f"under way     {_job(job, now)}" for job in answer.jobs[:10]] or ["under way     nothing"]
    if len(answer.jobs) > 10:
        out.append(f"              … and {len(answer.jobs) - 10} more")
    out += [f"given up      {job.key[:60]}: {job.error} (after {job.attempts} tries)" for job in answer.dead[-3:]]
    idle = [role.role for role in answer.roles if not role.holder and not role.role.startswith(PREFIX)]
    if idle:
        out.append(f"nobody holds  {', '.join(idle)}: no coordinator is running (start one with  ringrift run)")
    return "\n".join(out)


def _job(job: JobRow, now: float) -> str:
    where = f"{job.state} at {job.holder}, {job.progress:.0%}" if job.holder else job.state
    pause = f", paused for {job.pause:g} s after: {job.error}" if job.pause else ""
    return f"{job.kind} ({where}, try {job.attempts or 1}{pause}), asked for {ago(now - job.time)} ago"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print the answer; 0.  Raises UnknownName for a variant that no workload plays."""
    found = effective(file=options.settings, given=given)
    registry = Registry.load(found.settings.work.executables, prefer=found.settings.work.workload)
    variants.parse(options.variant)
    registry.owner(options.variant)
    answer = asyncio.run(ask(found.settings, options.variant))
    if options.json:
        print(json.dumps(msgspec.to_builtins(answer), indent=2))
    else:
        print(as_text(answer, options.variant, SystemClock().now()))
    return 0
