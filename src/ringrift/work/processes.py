"""Processes of this machine: which ones live, even when the number of a dead one is used again."""

import os
from pathlib import Path

from ringrift.kernel.value import Value

_PROC = Path("/proc")
_STATE, _START = 0, 19  # fields of /proc/<pid>/stat after the name, which ends with the last bracket
_DEAD = frozenset("ZX")  # states of a process that has ended and whose parent has not waited for it yet


class Process(Value):
    """A process: its number, valid on *host* only, and a mark of when it began, which no other process has."""

    host: str
    pid: int
    mark: str


def this_host(proc: Path = _PROC) -> str:
    """The boot of this machine and its space of process numbers: ticks and numbers of another mean nothing here."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink(proc / "self" / "ns" / "pid")
    except OSError:  # not Linux: the name of the machine has to do
        return os.uname().nodename
    return f"{boot}-{space.strip('pid:[]')}"


def _mark_of(pid: int, proc: Path = _PROC) -> str | None:
    """The mark of when the process *pid* of this machine began; None if there is no such process."""
    if pid <= 0:
        return None
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None if (proc / "self").exists() else _probe_by_signal(pid)
    except OSError:  # it ended while we read, or is hidden from us
        return _probe_by_signal(pid)
    return None if fields[_STATE] in _DEAD else fields[_START]


def _probe_by_signal(pid: int) -> str | None:
    """A mark that only says that the process lives, where its start cannot be read."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return "alive" if isinstance(error, PermissionError) else None
    return "alive"


def find(pid: int) -> Process | None:
    """The process *pid* of this machine, if it is alive."""
    mark = _mark_of(pid)
    return None if mark is None else Process(host=this_host(), pid=pid, mark=mark)


def is_gone(process: Process, here: str) -> bool:
    """Whether *process* has certainly ended; False for one of another host than *here*, which cannot be looked at."""
    return process.host == here and _mark_of(process.pid) != process.mark
