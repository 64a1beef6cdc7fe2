"""The end of a node ends its workers, however it comes and whatever a worker does at that moment.

A worker begins here, so that the guard beside it is forked before anything large is imported.
"""

import ctypes
import os
import runpy
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _end_with(parent: int) -> None:
    """Bind this process and its group to *parent*, the process that started it and holds the other end of its stdin.

    The kernel kills this process with its parent, even while foreign code holds the interpreter's lock.  It does not
    know the programs that this process has started: a guard beside it watches stdin and kills the whole group.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.killpg(0, signal.SIGKILL)
    if os.fork() == 0:
        _watch()


def _watch() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # they ask the worker to stop, which takes its time, or for its stacks
    os.closerange(1, 3)  # its outputs end when the worker's do
    stdin = select.poll()
    stdin.register(0, 0)  # only its end counts: what comes in is the worker's
    stdin.poll()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _end_with(int(sys.argv.pop(1)))
    runpy.run_module("ringrift.workers.main", run_name="__main__")
