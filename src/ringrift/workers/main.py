"""The worker process: runs jobs from its stdin, one at a time, until that ends."""

import argparse
import os
import resource
import signal
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import BinaryIO

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.jobs import Rate
from ringrift.kernel.errors import NoRoom, RingriftError
from ringrift.work.launch.process import FromChild, ToChild
from ringrift.workers import rate
from ringrift.workers.context import WorkerContext
from ringrift.workers.job_trace import traced_job
from ringrift.workload.api import JobSpec, Refused, Workload
from ringrift.workload.registry import Registry


class _NodePipe:
    """The pipe to the node.  The workload's own prints go to stderr and cannot get in between."""

    def __init__(self) -> None:
        self._out: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, message: FromChild) -> None:
        """Send one line; without a node at the other end this process ends."""
        try:
            with self._lock:
                self._out.write(msgspec.json.encode(message) + b"\n")
        except BrokenPipeError:
            _kill_own_group()


def _kill_own_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _receive(jobs: "SimpleQueue[ToChild | None]", stopping: threading.Event) -> None:
    """Queue the jobs that the node sends.  The end of its input ends this process: a killed node leaves no orphan."""
    decode = msgspec.json.Decoder(ToChild).decode
    for line in sys.stdin.buffer:
        message = decode(line)
        if message.run is None:
            stopping.set()
        else:
            stopping.clear()
            jobs.put(message)
    _kill_own_group()


def _run_job(workload: Workload, message: ToChild, context: WorkerContext) -> FromChild:
    assert message.run is not None
    with traced_job(message) as buffer:
        answer = _answer(workload, message.run, context)
    answer.spans, answer.spans_dropped = tuple(buffer.spans), buffer.dropped
    return answer


def _answer(workload: Workload, spec: JobSpec, context: WorkerContext) -> FromChild:
    try:
        run = rate.run if spec.stage == Rate.kind() else workload.run
        result = replace(run(spec, context), version=workload.version)
    except Refused as refused:
        return FromChild(error=refused.reason, retry=False, blob=refused.blob)
    except NoRoom as full:
        return FromChild(error=str(full), full=full.where)
    except Exception as error:  # noqa: BLE001 - a workload may raise anything; the node decides what follows
        blob = getattr(error, "blob", None) if isinstance(error, RingriftError) else None
        return FromChild(error=f"{type(error).__name__}: {error}", blob=blob)
    return FromChild(result=result, memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="ringrift-worker", description=__doc__)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--blobs", required=True)
    parser.add_argument("--executables", default="{}")
    options = parser.parse_args()
    pipe, stopping = _NodePipe(), threading.Event()
    jobs: SimpleQueue[ToChild | None] = SimpleQueue()

    def leave(*_: object) -> None:
        """Stop the job that runs, then this process."""
        stopping.set()
        jobs.put(None)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the node, which asks us to stop
    try:
        executables = msgspec.json.decode(options.executables, type=dict[str, list[str]])
        workload = Registry.load(executables).get(options.workload)
    except RingriftError as unknown:
        pipe.send(FromChild(error=str(unknown), retry=False))
        return
    threading.Thread(target=_receive, args=(jobs, stopping), daemon=True).start()
    pipe.send(FromChild(ready=True))
    folder = Folder(options.blobs)
    while (message := jobs.get()) is not None:
        pipe.send(_run_job(workload, message, WorkerContext(folder, pipe.send, stopping.is_set, message)))
    # The receiving thread still waits on stdin; an orderly interpreter shutdown would wait for it and then abort.
    os._exit(0)


if __name__ == "__main__":
    _main()
