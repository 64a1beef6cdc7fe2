"""The desk of a worker: claims, renews, finishes and fails jobs of a coordinator; every result is spooled first."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from ringrift import jobs
from ringrift.jobs import Job
from ringrift.kernel.errors import TRANSIENT, Corrupt, LeaseLost, NodeAway, NoRoute
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import changed
from ringrift.store.ports import Lease, Renewal
from ringrift.work.checkpoints import decode_checkpoints
from ringrift.work.desk import Done, Fault, JobOutcome
from ringrift.work.island import Island, is_island
from ringrift.work.limits import LineWork
from ringrift.work.remote_desk import (
    Claim,
    Claimed,
    Fail,
    FailAnswer,
    GiveBack,
    GivenBack,
    Renew,
    Renewed,
    WorkNote,
)
from ringrift.work.result_sender import ResultSender
from ringrift.work.run_states import RunStates
from ringrift.work.spool import Spool, SpooledResult
from ringrift.work.worker_connection import WorkerConnection
from ringrift.workload.api import JobResult

_CLAIM_SECONDS_MAX, _LOOK_SECONDS_MAX, _LAST_CLAIM_SECONDS_MAX = 10.0, 0.5, 1.0
_FINISH_SECONDS, _FINISH_STEPS_MAX = 1.0, 30  # a result is waited for so long at a time, and sent for ever
_CHECKPOINT_SECONDS_MAX = 1.0  # how long a renewal waits for the upload of a checkpoint, before it goes without
_GIVE_BACK_SECONDS_MAX = 3.0  # a node that stops does not wait longer
_UPLOADED_MAX = 1_000  # checkpoints that are remembered as uploaded
_TRUST = 2 / 3  # share of a lease for which a worker relies on it without an answer: then it counts as cut off
log = logging.getLogger(__name__)


class RemoteOutcome(JobOutcome):
    """What a worker hands in: what *job* returned.  The coordinator concludes everything else from it."""

    job: Job
    result: JobResult


class RemoteDesk:
    """The desk of a worker, with what a :class:`ringrift.work.runner.Runner` calls.

    A result is in the spool before it is sent.  Leases that an island gave itself never go over the wire, except their
    results.
    """

    def __init__(
        self,
        connection: WorkerConnection,
        spool: Spool,
        sender: ResultSender,
        upload: Callable[[Collection[str]], Awaitable[None]],
        epoch: str,
        settings: WorkSettings,
        rng: Random,
        island: Island | None = None,
    ) -> None:
        """*upload* brings files to the coordinator, *epoch* is this process, an *island* plays on when cut off."""
        self._connection, self._spool, self._sender, self._upload = connection, spool, sender, upload
        self._epoch, self._settings, self._rng, self._island = epoch, settings, rng, island
        self._lines: dict[str, LineWork] = {}
        self._leases: dict[str, int] = {}  # jobs that the runner has, with their fences
        self._stray: bool | None = True  # leases of ours that nobody here works on; True: of an earlier process
        self._run_states, self._wake = RunStates(), asyncio.Event()
        self._uploads: dict[str, asyncio.Task[None]] = {}  # of checkpoints
        self._uploaded: dict[str, None] = {}

    @property
    def _is_cut_off(self) -> bool:
        return self._connection.is_silent(_TRUST * self._settings.lease_seconds)

    def update(self, note: WorkNote) -> None:
        """Take up what the coordinator says of its own accord."""
        self._run_states = note.run_states or self._run_states
        if note.ready:
            self._wake.set()

    async def wait(self, seconds: float) -> None:
        """Return when there may be jobs, or room for one, or after about *seconds*."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds * (0.9 + self._rng.random() / 5)):  # a fleet does not ask in step
                await self._wake.wait()
        self._wake.clear()

    async def claim(self, kinds: Collection[str], limit: int) -> Sequence[Lease]:
        """Lease up to *limit* jobs; while it is cut off an island leases to itself.  None while the spool is full."""
        if self._spool.is_full:
            log.warning("no job is claimed: the spool is full of results that no coordinator has accepted yet")
            return ()
        try:
            return await self._claim(kinds, limit)
        except NodeAway:
            if self._island is None or not self._is_cut_off:
                raise
            return () if self._spool.is_full else self._island.make_leases(limit)

    async def _claim(self, kinds: Collection[str], limit: int) -> Sequence[Lease]:
        if self._stray is not None:
            of_before = "it was started again" if self._stray else "the answer to a claim was lost"
            await self.revoke_own(f"node {self._connection.node}: {of_before}", started=self._stray)
            self._stray = None
        ask = Claim(kinds=tuple(sorted(kinds)), limit=limit)
        call = self._connection.call("claim", ask, Claimed, seconds_max=self._claim_seconds())
        claiming = asyncio.ensure_future(call)
        try:
            answer = await asyncio.shield(claiming)
        except (NodeAway, asyncio.CancelledError):
            self._stray = False  # it may have leased some all the same
            await asyncio.wait((claiming,), timeout=_LAST_CLAIM_SECONDS_MAX)  # so that giving back comes behind it
            claiming.cancel()
            raise
        self._lines.update(answer.lines)
        self._leases |= {lease.job: lease.fence for lease in answer.leases}
        if self._island is not None:
            self._island.learn(answer.leases)
        return answer.leases

    def _claim_seconds(self) -> float:
        """How long a claim may take; an island that has better things to do only looks whether it still is one."""
        is_island = self._island is not None and self._is_cut_off
        return _LOOK_SECONDS_MAX if is_island else min(max(self._settings.lease_seconds / 3, 1.0), _CLAIM_SECONDS_MAX)

    async def line_work(self, variant: str) -> LineWork:
        """What jobs of *variant* run with, as the coordinator said when it leased the first."""
        default = LineWork(workload=self._settings.workload, params=dict(self._settings.params))
        return self._lines.get(variant, default)

    async def run_states(self) -> RunStates:
        """The scopes that do not run, as far as this worker has heard."""
        return self._run_states

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        """Renew leases.  Raises LeaseLost for those that are lost; the others are renewed."""
        own = [renewal for renewal in renewals if not is_island(renewal.job)]
        if not own:
            return
        ask = Renew(renewals=tuple([await self._with_checkpoint(renewal) for renewal in own]))
        lost = set((await self._connection.call("renew", ask, Renewed)).lost)
        # What has become of a result that is on its way, the answer to it says: the job may be done by now.
        gone = [row for row in own if row.job in lost and self._holds(row) and self._spool.find(row) is None]
        if gone:
            self._forget(gone)
            raise LeaseLost([row.job for row in gone])

    def _holds(self, lease: Renewal) -> bool:
        return self._leases.get(lease.job) == lease.fence

    def _forget(self, leases: Iterable[Renewal]) -> None:
        """Forget *leases* that have ended; the same job may have been claimed anew meanwhile."""
        for lease in leases:
            if self._holds(lease):
                del self._leases[lease.job]

    async def _with_checkpoint(self, renewal: Renewal) -> Renewal:
        """*renewal*, without a checkpoint that the coordinator has not received yet: the next one has it."""
        for blob in (row.blob for row in decode_checkpoints(renewal.outputs)):
            if blob in self._uploaded:
                continue
            task = self._uploads.get(blob)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._upload_checkpoint(blob), name=f"upload:{blob[:12]}")
                self._uploads[blob] = task
            await asyncio.wait((task,), timeout=_CHECKPOINT_SECONDS_MAX)
            if blob not in self._uploaded:
                return changed(renewal, outputs=None)
        return renewal

    async def _upload_checkpoint(self, blob: str) -> None:
        try:
            await self._upload([blob])
            self._uploaded[blob] = None
            for old in list(self._uploaded)[:-_UPLOADED_MAX]:
                del self._uploaded[old]
        except (*TRANSIENT, Corrupt, NoRoute) as error:
            log.warning("checkpoint %.12s is not at the coordinator yet: %s", blob, error)
        finally:
            del self._uploads[blob]

    async def finish(self, results: Sequence[Done]) -> None:
        """Hand in results.  Raises LeaseLost or JobFailed, and NodeAway while no coordinator acknowledges them."""
        self._wake.set()  # their slots are free
        for done in results:
            row = self._spool.find(done.lease) or await self._put(done)
            if row.lease is None:
                self._sender.wake()
                continue
            try:
                await self._deliver(row)
            except LeaseLost:
                self._forget([row.lease])
                self._wake.set()
                raise
            self._forget([row.lease])
        self._wake.set()  # only so many results are waited for at once: now another job may begin

    async def _deliver(self, row: SpooledResult) -> None:
        """Wait until *row* is acknowledged; a worker that stops leaves it to the spool if nobody is there to ask."""
        for _ in range(_FINISH_STEPS_MAX):
            try:
                return await self._sender.send(row, _FINISH_SECONDS)
            except NodeAway as error:
                away = error
                if self._connection.is_stopping and not self._connection.ready:
                    return None
        raise away

    async def _put(self, done: Done) -> SpooledResult:
        outcome = done.outcome
        assert isinstance(outcome, RemoteOutcome)
        job, result, lease = outcome.job, outcome.result, None if is_island(done.lease.job) else done.lease
        facts: dict[str, Any] = {"kind": job.kind(), "variant": job.variant, "body": jobs.encode(job)}
        facts |= {"result": result, "lease": lease, "context": done.context, "run": done.run}
        return await self._spool.put(SpooledResult(epoch=self._epoch, number=0, **facts))

    async def fail(self, faults: Sequence[Fault]) -> dict[str, bool]:
        """End leases without a result; by job whether it is tried again.  One whose result is in the spool goes on."""
        self._wake.set()
        ends = [fault.printable() for fault in faults if not is_island(fault.lease.job)]
        leases = {fault.lease.job: Renewal(job=fault.lease.job, fence=fault.lease.fence) for fault in ends}
        ends = [fault for fault in ends if self._spool.find(leases[fault.lease.job]) is None]
        self._forget(leases.values())
        try:
            answer = await self._connection.call("fail", Fail(faults=tuple(ends)), FailAnswer) if ends else FailAnswer()
        except NodeAway:
            self._stray = False
            raise
        self._wake.set()
        return answer.again

    async def revoke_own(self, error: str, *, started: bool) -> Sequence[str]:
        """End every lease of this node that neither the runner nor the spool has."""
        waiting = {row.lease.job for row in self._spool.results if row.lease is not None}
        ask = GiveBack(reason=error, started=started, keep=tuple(sorted(waiting.union(self._leases))))
        call = self._connection.call("give_back", ask, GivenBack, seconds_max=_GIVE_BACK_SECONDS_MAX)
        return (await call).jobs

    async def close(self) -> None:
        """End what it does beside."""
        for task in (tasks := list(self._uploads.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
