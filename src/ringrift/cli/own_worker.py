"""Own worker: a job that a command asks for is done by a running node, else by a worker of the command itself.

The worker is a node that leads nothing, claims these jobs and no others, and is gone with the command; a node that
appears meanwhile may do some of them, and leases keep the two apart.  What the command asked for is taken back when it
fails or is interrupted, so that nothing is computed that nobody waits for.
"""

import asyncio
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from ringrift.blobs.folder import Folder
from ringrift.cli.command import Context
from ringrift.cli.follow_jobs import JobsResult, follow
from ringrift.cli.run_plan import cores
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.jobs import Job
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.pipeline.line import LINES
from ringrift.store.open import take_program_number
from ringrift.store.ports import LIVE_STATES, Tx
from ringrift.sync import ledger
from ringrift.threads import beside, to_its_end
from ringrift.work.desk import cancel_rows, enqueue
from ringrift.workload.presets import checked_preset
from ringrift.workload.registry import Registry

_JOBS_MAX = 100_000
_GRACE_SECONDS = 2.0  # a command that is interrupted does not wait longer for its job


async def do_jobs(
    context: Context, jobs: Sequence[Job], require: Callable[[Tx], Awaitable[None]] | None = None
) -> JobsResult:
    """Enqueue *jobs*, which are of one kind and variant, and see them done; what is not is taken back.

    *require* raises, in the transaction that enqueues them, if that must not be done any more.
    """
    store, first = context.store, jobs[0]
    async with store.begin() as tx:
        live = {row.key for row in await tx.jobs(LIVE_STATES, _JOBS_MAX, variant=first.variant)}
        newest = await tx.last(None, 1)
        if require is not None:
            await require(tx)
        ids = await enqueue(tx, jobs, context.envelopes(), context.clock.now())
    own = {id for job, id in zip(jobs, ids, strict=True) if job.key not in live}  # others are somebody else's
    after = newest[-1].position if newest else 0
    with _ended_by_sigterm():
        async with AsyncExitStack() as stack:
            try:
                result = await follow(context, jobs, after)
                if result.no_node:
                    print(f"{first.kind()} {first.variant}: no node runs; this command does it itself", file=sys.stderr)
                    worker = await stack.enter_async_context(_open_worker(context, first, ids))
                    result = await _follow_worker(context, worker, jobs, after)
            finally:
                await _take_back(context, own)
    return result


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the body as Ctrl-C does, with everything that it cleans up, and then the program."""
    loop, task, is_terminated = asyncio.get_running_loop(), asyncio.current_task(), False

    def terminate() -> None:
        nonlocal is_terminated
        is_terminated = True
        assert task is not None
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        yield
    except asyncio.CancelledError:
        if not is_terminated:
            raise
        raise SystemExit(ExitCode.TERMINATED) from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _take_back(context: Context, own: Collection[str]) -> None:
    """Cancel those of our jobs that have not ended."""
    async with context.store.begin() as tx:
        rows = [row for row in await tx.jobs(LIVE_STATES, _JOBS_MAX) if row.id in own]
        await cancel_rows(tx, rows, context.envelopes())


async def _follow_worker(context: Context, worker: Node, jobs: Sequence[Job], after: int) -> JobsResult:
    """Follow *jobs* until they end, or until a brake refuses them to the worker.  Raises Unreachable."""
    async with beside(follow(context, jobs, after, worker.node_id)) as following:
        ends: list[asyncio.Future[Any]] = [worker.supervisor.broken, following]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        result: JobsResult = next(end for end in ends if end.done()).result()
        return result


@asynccontextmanager
async def _open_worker(context: Context, job: Job, ids: Sequence[str]) -> AsyncIterator[Node]:
    """A node of this process that does the jobs *ids* alone; what it made is on another node when it has gone."""
    settings, store = await _worker_settings(context, job.variant), context.store
    async with AsyncExitStack() as stack:
        number = take_program_number(settings.store, settings.node.id, stack)  # no other command has it now
        id = f"{settings.node.id[:48]}-command-{number}"
        folder = Path(settings.blobs.folder) / id
        node = {"id": id, "profile": "minimal", "ephemeral": True}  # others neither wait for it nor copy to it
        own = settings.overlaid({"node": node, "blobs.folder": str(folder)})
        stack.push_async_callback(_remove, context, id, folder)
        rng = Random(SystemRandom().getrandbits(64))
        opened = Node.open(own, context.clock, rng, store=store, begin=("beat",), leads=False)
        worker = await stack.enter_async_context(opened)
        worker.runner.kinds, worker.desk.only = {job.kind()}, frozenset(ids)
        await worker.supervisor.start("work")
        try:
            yield worker
        finally:
            await worker.supervisor.stop("work")
            await _save_outputs(worker)


async def _worker_settings(context: Context, variant: str) -> Settings:
    """The settings, with the preset of the variant's workload below what a person set, and one try for each job.

    Raises UnknownName if no installed workload plays *variant*.
    """
    work = context.settings.work
    async with context.store.read() as view:
        line = await LINES.get(view, variant)
    registry = Registry.load(work.executables)
    workload = line.workload if line is not None else registry.owner(variant, work.workload)
    preset = {"work.workload": workload, **checked_preset(registry.get(workload), cores=cores(), nodes=1).settings}
    unset = {key: value for key, value in preset.items() if key not in context.effective.origins}
    settings = context.settings.overlaid(unset)
    return settings.overlaid({"work.grace_seconds": _GRACE_SECONDS, "work.retry.tries": 1})


async def _save_outputs(worker: Node) -> None:
    """Copy what only the worker holds to a node whose files are on this machine, running or not."""
    async with worker.store.read() as view:
        blobs = await ledger.some_of(view, worker.node_id)
        alone = [blob for blob in blobs if await ledger.holders(view, blob) == [worker.node_id]]
        target = local_node(await NODES.all(view), "", without=worker.node_id)
    for blob in alone if target else ():
        assert target is not None
        await worker.transfer.copy(blob, target.id, source=worker.node_id)


def local_node(nodes: Sequence[NodeRecord], own: str, *, without: str = "") -> NodeRecord | None:
    """A node whose files are on this machine: *own* if it is one, else one that has not left."""
    local = [row for row in nodes if row.id != without and Folder(row.address, row.id).find_away() is None]
    return min(local, key=lambda row: (row.gone, row.id != own, row.ephemeral, row.id), default=None)


async def _remove(context: Context, id: str, folder: Path) -> None:
    """Remove the record and the folder of a worker that has left, unless it alone holds something."""
    async with context.store.begin() as tx:
        for blob in await ledger.some_of(tx, id):
            if await ledger.holders(tx, blob) == [id]:
                return
            await ledger.forget(tx, blob, [id])
        await NODES.delete(tx, [id])
    await to_its_end(None, lambda: shutil.rmtree(folder, ignore_errors=True))
