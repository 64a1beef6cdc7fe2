"""Data sync: ask for the second durable copy of every file that has one only, and follow until they are there."""

from collections.abc import Mapping, Sequence

from ringrift.cli.command import Context, Output
from ringrift.cli.data_status import present_nodes
from ringrift.cli.disk_usage import size_text
from ringrift.cli.formats import plural, short
from ringrift.cli.progress import Progress
from ringrift.jobs import URGENT, JobQuery, Sync
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.singles import Single, find_singles
from ringrift.store.follow import wait_for
from ringrift.store.ports import LIVE_STATES, Reads
from ringrift.sync import ledger
from ringrift.work.desk import enqueue
from ringrift.work.limits import KINDS

_WAIT_SECONDS_MAX, _POLL_SECONDS = 3600.0, 0.2
_JOBS_MAX = 100_000


class _SyncReport(Value):
    """What was asked for and what came of it."""

    copied: tuple[str, ...] = ()  #: Files that have their second durable copy now.
    bytes: int = 0
    open: tuple[str, ...] = ()  #: Files whose copy was asked for and is not made yet.
    failed: dict[str, str] = {}  #: File → why no copy could be made.
    impossible: tuple[str, ...] = ()  #: Files for which there is no durable node, or whose holders are away.
    error: str = ""  #: Why the wait ended early.


def _copy_jobs(singles: Sequence[Single], present: Sequence[str]) -> list[Sync]:
    """A job for each of *singles* that can be copied, from the first of its holders that is *present*."""
    jobs = list[Sync]()
    for row in singles:
        sources = [node for node in row.holders if node in present]
        if row.can_be_copied and sources:
            job = Sync(variant=row.variant, blob=row.blob, kind_of=row.kind, source=sources[0])
            jobs.append(changed(job, repair=True, priority=URGENT))
    return jobs


async def data_sync(context: Context) -> Output:
    """Copy what has too few copies; what is still single though it need not be is the exit code of a failure."""
    async with context.store.read() as view:
        present, _ = await present_nodes(view)
        singles = await find_singles(view, present)
        jobs = _copy_jobs(singles, present)
        copies = await ledger.copies(view, [job.blob for job in jobs])
    sizes = {job.blob: copies[job.blob][1] for job in jobs}
    impossible = tuple(row.blob for row in singles if row.blob not in sizes)
    if context.options.dry_run or not jobs:
        report = _SyncReport(open=tuple(sizes), impossible=impossible)
        return Output(value=report, text=_dry_text(report, sizes))
    async with context.store.begin() as tx:
        ids = await enqueue(tx, jobs, context.envelopes(), context.clock.now())
    by_job = dict(zip(ids, sizes, strict=True))
    error = await _follow(context, ids)
    async with context.store.read() as view:
        present, _ = await present_nodes(view)
        still = {row.blob for row in await find_singles(view, present) if row.can_be_copied}
        rows = {id: await view.list_jobs(JobQuery(begins=id, states=("dead",)), 1) for id in ids}
    failed = {by_job[id]: jobs_dead[0].error or "it was given up" for id, jobs_dead in rows.items() if jobs_dead}
    copied = tuple(blob for blob in sizes if blob not in still)
    is_open = tuple(blob for blob in sizes if blob in still and blob not in failed)
    moved = sum(sizes[blob] for blob in copied)
    report = _SyncReport(copied=copied, bytes=moved, open=is_open, failed=failed, impossible=impossible, error=error)
    return Output(value=report, text=_text(report), code=ExitCode.FAILED if failed or is_open else 0)


async def _follow(context: Context, ids: Sequence[str]) -> str:
    """Wait for the jobs *ids*, with progress; why the wait ended before they did, empty if all have."""
    progress = Progress("copies", len(ids), context.clock, unit="files")

    async def find_end(view: Reads) -> str | None:
        live = {row.id for row in await view.jobs(LIVE_STATES, _JOBS_MAX)}.intersection(ids)
        progress.update(len(ids) - len(live))
        if not live:
            return ""
        if any(Sync.kind() in KINDS[node.profile] for node in await context.roster.present(view)):
            return None
        return 'no running node can copy files; start one with "ringrift run"'

    end = await wait_for(context.store, find_end, context.clock, _WAIT_SECONDS_MAX, poll_seconds=_POLL_SECONDS)
    progress.end()
    return f"not done after {_WAIT_SECONDS_MAX:g} s" if end is None else end


def _dry_text(report: _SyncReport, sizes: Mapping[str, int]) -> str:
    if not report.open and not report.impossible:
        return "nothing to do: every file that a line needs is on two durable nodes"
    lines = [f"{short(blob)}  {size_text(sizes[blob]) if sizes[blob] else '—'}" for blob in report.open]
    word = "copy" if len(lines) == 1 else "copies"
    head = f"{len(lines)} {word} would be made:" if lines else "nothing to do now"
    return "\n".join([head, *lines, *_waiting(report)])


def _waiting(report: _SyncReport) -> list[str]:
    count = len(report.impossible)
    return [f"{plural(count, 'file')} must wait for a durable node, or for a holder to come back"] if count else []


def _text(report: _SyncReport) -> str:
    lines = [f"{plural(len(report.copied), 'file')} copied, {size_text(report.bytes)}"]
    lines += [f"{short(blob)} could not be copied: {reason}" for blob, reason in report.failed.items()]
    if report.open:
        lines.append(f"{plural(len(report.open), 'file')} not copied yet: {report.error or 'a copy was not made'}")
    return "\n".join([*lines, *_waiting(report)])
