"""Records on a worker which results were acknowledged to it, so that a test can look for every one of them."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

from ringrift.wire.connection import Connection
from ringrift.work.remote_desk import Claim, Claimed, Finish, FinishAnswer, Ingest, IngestAnswer


def record_acknowledgements(path: str) -> None:
    """Append a line to *path* for each result that a coordinator has acknowledged, before the worker learns it.

    Where a file *vanish* lies beside *path*, the machine vanishes with the next acknowledgement of files.  A line is
    ``job ID FENCE BLOBS`` or ``island EPOCH NUMBER BLOBS``; a lease that it was given is ``lease ID FENCE``.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    call, vanish = Connection.call, Path(path).with_name("vanish")

    async def recorded(self: Connection, verb: str, body: Any, answer: Any, **options: Any) -> Any:
        reply = await call(self, verb, body, answer, **options)
        lines = _acknowledged(body, reply)
        if lines:
            os.write(file, "".join(f"{line}\n" for line in lines).encode())
        if vanish.exists() and any(len(line.split(" ")[3]) for line in lines):
            _vanish(vanish.parent)
        return reply

    Connection.call = recorded  # type: ignore[method-assign]  # an observer, not a replacement


def _vanish(home: Path) -> None:
    """End as a rented machine does: the disk is gone and every process with it, at once."""
    for name in ("blobs", "keys", "logs"):
        shutil.rmtree(home / name, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _acknowledged(body: Any, reply: Any) -> list[str]:
    match body, reply:
        case Claim(), Claimed():
            return [f"lease {lease.job} {lease.fence} " for lease in reply.leases]
        case Finish(), FinishAnswer():
            missing = {*reply.lost, *reply.refused}
            jobs = [job for job in body.jobs if job.lease.job not in missing]
            return [f"job {job.lease.job} {job.lease.fence} {_blobs(job.result)}" for job in jobs]
        case Ingest(), IngestAnswer():
            batches = [batch for batch in body.batches if f"{batch.epoch}:{batch.number}" not in reply.refused]
            return [f"island {batch.epoch} {batch.number} {_blobs(batch.result)}" for batch in batches]
    return []


def _blobs(result: Any) -> str:
    return ",".join(output.blob for output in result.outputs)
