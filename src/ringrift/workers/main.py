"""The worker process: runs jobs from its stdin, one at a time, until that ends."""

import faulthandler
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import TextIOWrapper
from queue import SimpleQueue
from traceback import format_exception

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.jobs import Rate
from ringrift.kernel.errors import NodeAway, NoRoom, NoRoute, RingriftError
from ringrift.work.failures import TRACEBACK_CHARACTERS_MAX
from ringrift.work.launch.output import job_mark
from ringrift.work.launch.process import STACKS_SIGNAL, FromChild, ToChild
from ringrift.workers import rate
from ringrift.workers.context import WorkerContext, finite, traced_job
from ringrift.workload.api import JobSpec, Refused, Workload
from ringrift.workload.registry import Registry


def _receive(jobs: "SimpleQueue[ToChild | None]", stopping: threading.Event) -> None:
    """Queue the jobs that the node sends."""
    decode = msgspec.json.Decoder(ToChild).decode
    for line in sys.stdin.buffer:
        message = decode(line)
        if message.run is None:
            stopping.set()
        else:
            stopping.clear()
            jobs.put(message)


def _spent_since(before: os.times_result) -> dict[str, float]:
    """The metrics that every job has: how long it took, and the time of all cores that it and its programs used."""
    spent = [now - then for now, then in zip(os.times(), before, strict=True)]
    return {"cpu_seconds": round(sum(spent[:4]), 3), "seconds": round(spent[4], 3)}


def _answer(workload: Workload, spec: JobSpec, context: WorkerContext) -> FromChild:
    try:
        before, run = os.times(), rate.run if spec.stage == Rate.kind() else workload.run
        result = run(spec, context)
        metrics = finite({**_spent_since(before), **result.metrics})
        result = replace(result, version=workload.version, metrics=metrics)
    except Refused as refused:
        answer = FromChild(error=refused.reason, retry=False, blob=refused.blob, version=workload.version)
        answer.traceback = _print_traceback(refused)
        return answer
    except NoRoom as full:
        return FromChild(error=str(full), full=full.where)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a workload may raise anything; the node decides
        traceback = _print_traceback(error)
        if (away := error if isinstance(error, NodeAway) else context.find_away()) is not None:
            return FromChild(error=str(away), away=(away.node, away.reason))
        # A file that is not here is no bad input: the next try fetches it again from another node.
        is_culprit = isinstance(error, RingriftError) and not isinstance(error, NoRoute)
        blob = getattr(error, "blob", None) if is_culprit else None
        return FromChild(error=f"{type(error).__name__}: {error}", blob=blob, traceback=traceback)
    return FromChild(result=result, memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _print_traceback(error: BaseException) -> str:
    """Print the traceback of *error*, from the workload's own code on, into the output of the job; the end of it."""
    own = error.__traceback__ and error.__traceback__.tb_next
    text = "".join(format_exception(type(error), error, own or error.__traceback__))
    with suppress(ValueError, OSError):
        print(text, end="", file=sys.__stderr__, flush=True)  # a workload may have replaced sys.stderr
    return text[-TRACEBACK_CHARACTERS_MAX:]


@contextmanager
def _own_output(spec: JobSpec) -> Iterator[None]:
    """What the body prints is the output of the job *spec*."""
    mark = job_mark(spec.job, spec.attempt)
    os.write(2, mark)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError, OSError):  # a workload may have closed it, or removed it
                stream.flush()
        os.write(2, mark)


def _main() -> None:
    name, blobs, node, programs = sys.argv[1:]
    out, lock, stopping = os.fdopen(os.dup(1), "wb", buffering=0), threading.Lock(), threading.Event()
    os.dup2(2, 1)  # the workload's own prints go to stderr and cannot get in between
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what it printed before a crash must not be lost with its buffer
    faulthandler.enable()
    faulthandler.register(STACKS_SIGNAL)
    jobs: SimpleQueue[ToChild | None] = SimpleQueue()

    def send(message: FromChild) -> None:
        with lock:
            out.write(msgspec.json.encode(message) + b"\n")

    def leave(*_: object) -> None:
        """Stop the job that runs, then this process."""
        stopping.set()
        jobs.put(None)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the node, which asks us to stop
    try:
        workload = Registry.load(msgspec.json.decode(programs, type=dict[str, list[str]])).get(name)
    except RingriftError as unknown:
        send(FromChild(error=str(unknown), retry=False))
        return
    threading.Thread(target=_receive, args=(jobs, stopping), daemon=True).start()
    send(FromChild())  # it is ready
    folder = Folder(blobs, node)
    while (message := jobs.get()) is not None:
        assert message.run is not None
        send(FromChild(done=0.0))  # from here on a failure is the job's
        with _own_output(message.run), traced_job(message) as buffer:
            answer = _answer(workload, message.run, WorkerContext(folder, send, stopping.is_set, message))
        answer.spans, answer.spans_dropped = tuple(buffer.spans), buffer.dropped
        send(answer)
    # The receiving thread still waits on stdin; an orderly interpreter shutdown would wait for it and then abort.
    os._exit(0)


if __name__ == "__main__":
    _main()
