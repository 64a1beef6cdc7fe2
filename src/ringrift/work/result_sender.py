"""Sends the results in the spool to the coordinator, oldest first, until it has acknowledged each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from random import Random

from ringrift.jobs import Play
from ringrift.kernel.errors import TRANSIENT, Corrupt, JobFailed, LeaseLost, NodeAway, NoRoute
from ringrift.wire.connection import Connection
from ringrift.work.remote_desk import Finish, FinishAnswer, FinishedJob, Ingest, IngestAnswer, IslandBatch
from ringrift.work.spool import Spool, SpooledResult

_SENT_AT_ONCE_MAX = 4
_IDLE_SECONDS = 5.0  # between two signs of life
_PAUSE_SECONDS = 1.0  # before a result that could not be sent is tried again, and as much more at random
_SEND_SECONDS_MAX = 30.0  # for one request
log = logging.getLogger(__name__)


class ResultSender:
    """Delivers the results of *spool*; *upload* brings their files to the coordinator first."""

    def __init__(
        self, connection: Connection, spool: Spool, upload: Callable[[Collection[str]], Awaitable[None]], rng: Random
    ) -> None:
        self._connection, self._spool, self._upload, self._rng = connection, spool, upload, rng
        self._wake = asyncio.Event()
        self._sending = set[int]()
        self._lost = set[int]()  # those whose lease was lost
        self._ends: dict[int, asyncio.Future[None]] = {}  # of those that somebody waits for

    def wake(self) -> None:
        """Look at the spool again."""
        self._wake.set()

    async def send(self, result: SpooledResult, seconds_max: float) -> None:
        """Wait until *result* is acknowledged.  Raises LeaseLost, JobFailed, or NodeAway: it is sent later."""
        end = self._ends.get(result.number)
        if end is None:
            end = self._ends[result.number] = asyncio.get_running_loop().create_future()
        self.wake()
        await asyncio.wait((end,), timeout=seconds_max)
        if not end.done():
            raise NodeAway(f"coordinator at {self._connection.address}")
        end.result()

    async def run(self, alive: Callable[[], None]) -> None:
        """Send for ever.  Raises what cannot pass by itself, such as KeyRefused."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_SENT_AT_ONCE_MAX):
                group.create_task(self._serve(alive))

    async def drain(self, seconds_max: float) -> None:
        """Send what is left, once.  Raises TRANSIENT, and TimeoutError after *seconds_max*."""
        async with asyncio.timeout(seconds_max):
            for row in self._spool.results:
                await self._deliver(row)

    async def _serve(self, alive: Callable[[], None]) -> None:
        while True:
            alive()
            rows = [row for row in self._spool.results if row.number not in self._sending]
            if not rows:
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_IDLE_SECONDS):
                        await self._wake.wait()
                continue
            try:
                self._sending.add(rows[0].number)
                await self._deliver(rows[0])
            except TRANSIENT as error:
                log.info("%s waits in the spool: %s", rows[0].key, error)
                await asyncio.sleep(_PAUSE_SECONDS * (1 + self._rng.random()))
            finally:
                self._sending.discard(rows[0].number)

    async def _deliver(self, row: SpooledResult) -> None:
        """Deliver one result, with its files before it, and forget it once it is acknowledged.  Raises TRANSIENT."""
        try:
            await self._upload(row.blobs)
        except (Corrupt, NoRoute) as error:  # its file is gone from this disk
            await self._end(row, JobFailed(f"the file of a result is lost: {error}"))
            return
        if row.lease is not None and row.number not in self._lost:
            await self._finish(row, row.lease.job)
        if row.lease is None or row.number in self._lost:
            await self._ingest(row)

    async def _finish(self, row: SpooledResult, job: str) -> None:
        assert row.lease is not None
        finished = FinishedJob(lease=row.lease, result=row.result, context=row.context, run=row.run)
        answer = await self._connection.call(
            "finish", Finish(jobs=(finished,)), FinishAnswer, seconds_max=_SEND_SECONDS_MAX
        )
        if job in answer.lost:
            self._tell(row, LeaseLost([job]))
            if row.kind == Play.kind():
                self._lost.add(row.number)  # behind its fence it comes in as an island's, never as the job's
            else:
                await self._end(row, None)
        elif job in answer.refused:
            refusal = answer.refused[job]
            await self._end(row, JobFailed(refusal.reason, retry=refusal.retry, blob=refusal.blob))
        else:
            await self._end(row, None)

    async def _ingest(self, row: SpooledResult) -> None:
        facts = {name: getattr(row, name) for name in ("epoch", "number", "body", "result", "context", "run")}
        batch = IslandBatch(**facts)
        answer = await self._connection.call(
            "ingest", Ingest(batches=(batch,)), IngestAnswer, seconds_max=_SEND_SECONDS_MAX
        )
        if reason := answer.refused.get(row.key):
            log.warning("games played without a lease were refused: %s", reason)
        await self._end(row, None)

    async def _end(self, row: SpooledResult, error: Exception | None) -> None:
        await self._spool.remove(row)
        self._lost.discard(row.number)
        if error is not None:
            log.warning("the result %s of a %s job was not accepted: %s", row.key, row.kind, error)
        self._tell(row, error)

    def _tell(self, row: SpooledResult, error: Exception | None) -> None:
        """Tell whoever waits for *row* how it went."""
        end = self._ends.pop(row.number, None)
        if end is None or end.done():
            return
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)
            end.exception()  # retrieved: who waited may have gone
