"""The worker process: takes jobs from its stdin, one at a time, until that ends."""

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
from ringrift.work.launch.process import Said, Told
from ringrift.workers import rate
from ringrift.workers.context import Context
from ringrift.workers.story import belonging
from ringrift.workload.api import JobSpec, Refused, Workload
from ringrift.workload.registry import Registry


class Line:
    """The pipe to the node.  What the workload itself prints goes to stderr and cannot get in between."""

    def __init__(self) -> None:
        self._out: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def say(self, said: Said) -> None:
        """Send one line; if nobody listens any more there is nothing left to do here."""
        try:
            with self._lock:
                self._out.write(msgspec.json.encode(said) + b"\n")
        except BrokenPipeError:
            _vanish()


def _vanish() -> None:
    """End this process and everything it started."""
    os.killpg(0, signal.SIGKILL)


def _listen(jobs: "SimpleQueue[Told | None]", stopping: threading.Event) -> None:
    """Take in what the node says.  The end of it is the end of us: a node that was killed leaves no orphan."""
    decode = msgspec.json.Decoder(Told).decode
    for line in sys.stdin.buffer:
        told = decode(line)
        if told.run is None:
            stopping.set()
        else:
            stopping.clear()
            jobs.put(told)
    _vanish()


def _do(workload: Workload, told: Told, context: Context) -> Said:
    assert told.run is not None
    with belonging(told) as kept:
        said = _said(workload, told.run, context)
    said.spans, said.spans_dropped = tuple(kept.spans), kept.dropped
    return said


def _said(workload: Workload, spec: JobSpec, context: Context) -> Said:
    try:
        do = rate.run if spec.stage == Rate.kind() else workload.run
        result = replace(do(spec, context), version=workload.version)
    except Refused as refused:
        return Said(error=refused.reason, retry=False, blob=refused.blob)
    except NoRoom as full:
        return Said(error=str(full))
    except RingriftError as wrong:
        return Said(error=f"{type(wrong).__name__}: {wrong}", blob=getattr(wrong, "blob", None))
    except Exception as wrong:  # noqa: BLE001 - a workload may raise anything; the node decides what follows
        return Said(error=f"{type(wrong).__name__}: {wrong}")
    return Said(result=result, memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    """Serve jobs of one workload."""
    parser = argparse.ArgumentParser(prog="ringrift-worker", description=__doc__)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--blobs", required=True)
    parser.add_argument("--executables", default="{}")
    options = parser.parse_args()
    line, stopping = Line(), threading.Event()
    jobs: SimpleQueue[Told | None] = SimpleQueue()

    def leave(*_: object) -> None:
        """Stop the job that runs, then this process."""
        stopping.set()
        jobs.put(None)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the node, which tells us
    try:
        executables = msgspec.json.decode(options.executables, type=dict[str, list[str]])
        workload = Registry.load(executables).get(options.workload)
    except RingriftError as unknown:
        line.say(Said(error=str(unknown), retry=False))
        return
    threading.Thread(target=_listen, args=(jobs, stopping), daemon=True).start()
    line.say(Said(ready=True))
    folder = Folder(options.blobs)
    while (told := jobs.get()) is not None:
        context = Context(folder, line.say, stopping.is_set, told.resume, told.traceparent)
        line.say(_do(workload, told, context))
    # The listening thread still waits on stdin; an orderly interpreter shutdown would wait for it and then abort.
    os._exit(0)


if __name__ == "__main__":
    main()
