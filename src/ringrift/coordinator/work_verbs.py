"""The verbs of a desk for remote nodes: a worker returns what its workload returned, and all else is looked up.

What a worker says about a job is compared with the row of the job: it must hold the lease by its name and fence.  The
job, its attempt and its line come from the store, and the outcome is concluded here, so that a worker cannot publish an
event, blame a file, move a lease of another node or list itself as the holder of a file.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ringrift import jobs
from ringrift.bus import trace
from ringrift.coordinator.verbs import WORK, Parts, Peer, Verb
from ringrift.jobs import NODE_KINDS, STAGES, Job, Play
from ringrift.kernel.errors import InputError, JobFailed, LeaseLost
from ringrift.kernel.ids import ID_CHARACTERS, is_blob
from ringrift.kernel.value import changed
from ringrift.pipeline.file_jobs import conclude
from ringrift.pipeline.models import MODELS
from ringrift.store.ports import JobRow, Reads, Renewal
from ringrift.work import remote_desk as messages
from ringrift.work.checkpoints import CHECKPOINTS, Checkpoint, decode_checkpoints
from ringrift.work.desk import Done, Fault, JobOutcome, lease_of
from ringrift.work.durations import JobRun
from ringrift.work.limits import LINE_WORK, QUARANTINES, LineWork
from ringrift.workload.api import JobResult

_HELD_MAX = 1_000  # leases of one node that are looked at
_CLAIMED_AT_ONCE_MAX, _ROWS_MAX = 64, 256
_CHECKPOINTS_MAX, _OUTPUTS_MAX = 16, 64  # of one job
_CONTEXT_CHARACTERS_MAX = 1_000
_EPOCH_CHARACTERS_MAX = 100
_CAUSES = frozenset({"error", "silent", "timeout", "child_died", "stopped", "spawn", "no_room", "folder_away"})
_CAUSES |= {"away", "busy", "lost"}  # of a fault; any other is an *error*
_OF_STAGE = {"selfplay": "play", "evaluate": "evaluate"}  # the jobs of all other stages are for those who train
_SCOPES = {kind: _OF_STAGE.get(stage, "train") for kind, stage in STAGES.items() if kind not in NODE_KINDS}


def _require_few(rows: Sequence[object]) -> None:
    """Raise InputError unless one request may carry *rows*."""
    if len(rows) > _ROWS_MAX:
        raise InputError(f"one request carries {len(rows)} jobs: at most {_ROWS_MAX}")


async def _claim(peer: Peer, body: messages.Claim, parts: Parts) -> messages.Claimed:
    kinds = [kind for kind in dict.fromkeys(body.kinds) if kind in _SCOPES]
    limit = min(body.limit, _CLAIMED_AT_ONCE_MAX)
    if not kinds or limit < 1:
        return messages.Claimed()
    desk = parts.desks.of(peer.node)
    wakes = parts.desks.wakes
    wakes.record_claim(peer.node, (), is_filled=False)  # before the look: a job that comes meanwhile wakes it
    if wakes.has_none(kinds) and not desk.has_refusals:
        return messages.Claimed()  # an idle fleet asks often, and a transaction is dear
    denied = {kind: _SCOPES[kind] for kind in kinds if _SCOPES[kind] not in peer.scopes}
    leases = await desk.claim(kinds, limit, denied)
    wakes.record_claim(peer.node, [lease.kind for lease in leases], is_filled=len(leases) >= limit)
    async with parts.store.read(brief=True) as view:
        lines = await _lines(view, {lease.variant for lease in leases}, parts) if leases else {}
    return messages.Claimed(leases=tuple(leases), lines=lines)


async def _lines(view: Reads, variants: Collection[str], parts: Parts) -> dict[str, LineWork]:
    own = LineWork(workload=parts.settings.work.workload, params=dict(parts.settings.work.params))
    rows = await LINE_WORK.get_many(view, sorted(variants))
    return {variant: rows.get(variant, own) for variant in variants}


async def held_jobs(view: Reads, node: str) -> dict[str, JobRow]:
    """The jobs that *node* holds, by id.  A fence is given out once, so a row that fits stays true in a later step."""
    return {row.id: row for row in await view.jobs(("claimed",), _HELD_MAX, holder=node)}


async def _renew(peer: Peer, body: messages.Renew, parts: Parts) -> messages.Renewed:
    _require_few(body.renewals)
    named = {row.blob: renewal.job for renewal in body.renewals for row in _checkpoints(renewal.outputs)}
    async with parts.store.read(brief=True) as view:
        rows = await held_jobs(view, peer.node)
        own = await _own_files(view, named, parts)
    lost = [renewal.job for renewal in body.renewals if not _holds(rows, renewal)]
    renewals = [_own_renewal(renewal, own, parts) for renewal in body.renewals if _holds(rows, renewal)]
    await parts.desks.together.wait()
    while renewals:
        try:
            await parts.desks.of(peer.node).renew(renewals)
            break
        except LeaseLost as error:
            lost += error.names
            renewals = [renewal for renewal in renewals if renewal.job not in error.names]
    return messages.Renewed(lost=tuple(lost))


async def _own_files(view: Reads, named: Mapping[str, str], parts: Parts) -> Collection[str]:
    """Those of the files *named* that can be checkpoints of their jobs: here, and nothing else already."""
    blobs = [blob for blob in named if is_blob(blob)]
    if not blobs:
        return ()
    owners, here = await CHECKPOINTS.get_many(view, blobs), await parts.blobs.have(blobs)
    made = {origin.blob for origin in await view.origins(blobs)}
    return {blob for blob in here - made if owners.get(blob, named[blob]) == named[blob]}


def _own_renewal(renewal: Renewal, own: Collection[str], parts: Parts) -> Renewal:
    """*renewal* as far as a worker may say it: no length, and its *own* files as checkpoints."""
    blobs = [row.blob for row in _checkpoints(renewal.outputs) if row.blob in own]
    rows = [Checkpoint(blob=blob, node=parts.node_id) for blob in blobs]
    progress = min(max(renewal.progress, 0.0), 1.0) if math.isfinite(renewal.progress) else 0.0
    outputs = msgspec.json.encode(rows) if rows else None
    return Renewal(job=renewal.job, fence=renewal.fence, progress=progress, outputs=outputs)


def _checkpoints(outputs: bytes | None) -> list[Checkpoint]:
    try:
        return decode_checkpoints(outputs)[-_CHECKPOINTS_MAX:]
    except msgspec.DecodeError as error:
        raise InputError(f"partial outputs of a job cannot be read: {error}") from error


async def _finish(peer: Peer, body: messages.Finish, parts: Parts) -> messages.FinishAnswer:
    _require_few(body.jobs)
    async with parts.store.read(brief=True) as view:
        rows = await held_jobs(view, peer.node)
        missing = [job.lease for job in body.jobs if not _holds(rows, job.lease)]
        lost = [lease.job for lease in missing if not await _is_done(view, lease)]
        leased = [job for job in body.jobs if _holds(rows, job.lease)]
        lines = await _lines(view, {rows[job.lease.job].variant for job in leased}, parts)
    here = await _files_here([job.result for job in leased], parts)
    results, refused = list[Done](), dict[str, messages.RefusedResult]()
    for job in leased:
        row = rows[job.lease.job]
        try:
            work = jobs.decode(row.kind, row.body)
            outcome = _conclude(work, job.result, lines[row.variant], peer.node, parts, here)
        except JobFailed as error:
            refused[row.id] = messages.RefusedResult(reason=str(error), retry=error.retry, blob=error.blob)
            continue
        lease = Renewal(job=row.id, fence=row.fence)
        results.append(Done(lease=lease, outcome=outcome, context=_context(job.context), run=_run(job, work, parts)))
    lost += await _store_results(results, refused, peer, parts)
    return messages.FinishAnswer(lost=tuple(lost), refused=refused)


def _holds(rows: Mapping[str, JobRow], lease: Renewal) -> bool:
    return lease.job in rows and rows[lease.job].fence == lease.fence


async def _is_done(view: Reads, lease: Renewal) -> bool:
    """Whether the job was done under this very fence: then its result is stored, and only the answer was lost."""
    if len(lease.job) != ID_CHARACTERS:
        return False  # the beginning of many ids would be looked up among all jobs that ever were
    rows = await view.list_jobs(jobs.JobQuery(begins=lease.job, states=("done",)), 1)
    return any((row.id, row.fence) == (lease.job, lease.fence) for row in rows)


async def _files_here(results: Sequence[JobResult], parts: Parts) -> Collection[str]:
    """Those files of *results* that are here: asked for all at once, and not for a result with too many."""
    outputs = [result.outputs for result in results if len(result.outputs) <= _OUTPUTS_MAX]
    names = {output.blob for files in outputs for output in files if is_blob(output.blob)}
    return await parts.blobs.have(names) if names else frozenset()


def _conclude(
    job: Job, result: JobResult, line: LineWork, node: str, parts: Parts, here: Collection[str]
) -> JobOutcome:
    """The outcome of *result*; its files are *here*, so this node is their holder.  Raises JobFailed."""
    names = {output.blob for output in result.outputs}
    if len(result.outputs) > _OUTPUTS_MAX:
        raise JobFailed(f"the result has {len(result.outputs)} files: at most {_OUTPUTS_MAX}", retry=False)
    if absent := names.difference(here):
        raise JobFailed(f"{min(absent):.12} was not uploaded before the job was finished")
    return conclude(job, result, line, node=node, holder=parts.node_id, ephemeral=False)


async def _store_results(
    results: Sequence[Done], refused: dict[str, messages.RefusedResult], peer: Peer, parts: Parts
) -> list[str]:
    """Finish *results* in one transaction, without those that cannot be: into *refused*, or the lost ones returned."""
    lost, waiting, desk = list[str](), [list(results)] if results else [], parts.desks.of(peer.node)
    while waiting:
        batch = waiting.pop()
        try:
            await desk.finish(batch)
        except LeaseLost as error:
            lost += error.names
            batch = [done for done in batch if done.lease.job not in error.names]
            waiting += [batch] if batch else []
        except InputError as error:  # an event that the log does not take; which one is found by trying each alone
            if len(batch) > 1:
                waiting += [[done] for done in batch]
            else:
                refused[batch[0].lease.job] = messages.RefusedResult(reason=str(error), retry=False)
    return [job for job in lost if job not in refused]


def _context(text: str) -> str:
    """*text* if it is the place of a job in its trace, else nothing."""
    try:
        trace.from_text(text[:_CONTEXT_CHARACTERS_MAX])
    except msgspec.DecodeError:
        return ""
    return text


def _run(finished: messages.FinishedJob | messages.IslandBatch, job: Job, parts: Parts) -> JobRun | None:
    """How the job went: times as the worker measured them, within what a job may take, and the rest from the job."""
    run, most = finished.run, parts.settings.work.deadline_seconds
    if run is None or not all(map(math.isfinite, (run.seconds, run.silence, run.cpu_seconds))):
        return None
    seconds = min(max(run.seconds, 0.0), most)
    silence, cpu_seconds = min(max(run.silence, 0.0), seconds), max(run.cpu_seconds, 0.0)
    kind, variant, size = job.kind(), job.variant, job.size
    return JobRun(kind=kind, variant=variant, size=size, seconds=seconds, silence=silence, cpu_seconds=cpu_seconds)


async def _fail(peer: Peer, body: messages.Fail, parts: Parts) -> messages.FailAnswer:
    _require_few(body.faults)
    async with parts.store.read() as view:
        rows = await held_jobs(view, peer.node)
    pairs = [(fault, rows[fault.lease.job]) for fault in body.faults if fault.lease.job in rows]
    faults = [_own_fault(fault, row) for fault, row in pairs if row.fence == fault.lease.fence]
    return messages.FailAnswer(again=await parts.desks.of(peer.node).fail(faults) if faults else {})


def _own_fault(fault: Fault, row: JobRow) -> Fault:
    """*fault* about the job as it is stored; only an input of that job can be at fault."""
    lease, job = changed(lease_of(row), context=_context(fault.lease.context)), jobs.decode_if_known(row.kind, row.body)
    blob = fault.blob if job is not None and fault.blob in job.blobs else None
    cause = fault.cause if fault.cause in _CAUSES else "error"
    return changed(fault, lease=lease, blob=blob, cause=cause, renewals=None, version=fault.version[:200])


async def _give_back(peer: Peer, body: messages.GiveBack, parts: Parts) -> messages.GivenBack:
    desk, keep = parts.desks.of(peer.node), frozenset(body.keep)
    return messages.GivenBack(jobs=tuple(await desk.revoke_own(body.reason[:200], started=body.started, keep=keep)))


async def _ingest(peer: Peer, body: messages.Ingest, parts: Parts) -> messages.IngestAnswer:
    _require_few(body.batches)
    refused = dict[str, str]()
    for batch in body.batches:
        try:
            await _ingest_batch(peer, batch, parts)
        except (JobFailed, InputError) as error:
            refused[f"{batch.epoch}:{batch.number}"] = str(error)
    return messages.IngestAnswer(refused=refused)


async def _ingest_batch(peer: Peer, batch: messages.IslandBatch, parts: Parts) -> None:
    """Count one batch.  Raises JobFailed or InputError for one that cannot be counted, now or later."""
    if not (0 < len(batch.epoch) <= _EPOCH_CHARACTERS_MAX and batch.epoch.isprintable() and batch.number >= 0):
        raise InputError(f"an island batch has an epoch of at most {_EPOCH_CHARACTERS_MAX} characters and a number")
    job = jobs.decode(Play.kind(), batch.body)
    assert isinstance(job, Play)
    async with parts.store.read() as view:
        quarantine = await QUARANTINES.get(view, peer.node)
        lines, model = await _lines(view, {job.variant}, parts), await MODELS.get(view, f"{job.variant}:{job.model}")
    if quarantine is not None:
        raise InputError(f"node {peer.node} is in quarantine: {quarantine.rule}")
    if model is None:
        raise InputError(f"{job.model:.12} is no model of {job.variant}")
    key = f"island:{peer.node}:{batch.epoch}:{batch.number}"
    here = await _files_here([batch.result], parts)
    outcome = _conclude(job, batch.result, lines[job.variant], peer.node, parts, here)
    outcome = changed(outcome, events=tuple(changed(event, island=True) for event in outcome.events))
    run = _run(batch, job, parts)
    await parts.desks.of(peer.node).ingest(key, job, outcome, _context(batch.context), run)


VERBS = (
    Verb("claim", messages.Claim, messages.Claimed, WORK, _claim, writes=True, takes_work=True),
    Verb("renew", messages.Renew, messages.Renewed, WORK, _renew, urgent=True, writes=True),
    Verb("finish", messages.Finish, messages.FinishAnswer, WORK, _finish, urgent=True, writes=True),
    Verb("fail", messages.Fail, messages.FailAnswer, WORK, _fail, urgent=True, writes=True),
    Verb("give_back", messages.GiveBack, messages.GivenBack, WORK, _give_back, urgent=True, writes=True),
    Verb("ingest", messages.Ingest, messages.IngestAnswer, "play", _ingest, writes=True),
)
