"""Processes: which ones are alive on this machine, told apart even when a number is used again."""

import os
from pathlib import Path

from ringrift.kernel.value import Value

PROC = Path("/proc")
BOOT = "sys/kernel/random/boot_id"
STATE, START = 0, 19
"""Fields of ``/proc/<pid>/stat`` behind the name, which may hold anything but ends with the last bracket."""
DEAD = frozenset("ZX")
"""States of a process that has ended and whose parent has not looked yet."""


class Process(Value):
    """A process: its number, which means something on *host* only, and the moment it began, which nobody repeats."""

    host: str
    pid: int
    mark: str


def this_host(proc: Path = PROC) -> str:
    """The boot of this machine and its space of process numbers: ticks and numbers of another mean nothing here."""
    try:
        boot = (proc / BOOT).read_text().strip()
        space = os.readlink(proc / "self" / "ns" / "pid")
    except OSError:  # not Linux: the name of the machine has to do
        return os.uname().nodename
    return f"{boot}-{space.strip('pid:[]')}"


def mark_of(pid: int, proc: Path = PROC) -> str | None:
    """When the process *pid* of this machine began, in words that only it has; None if there is none."""
    if pid <= 0:
        return None
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None if (proc / "self").exists() else _signalled(pid)
    except OSError:  # it ended while we read, or is hidden from us
        return _signalled(pid)
    return None if fields[STATE] in DEAD else fields[START]


def _signalled(pid: int) -> str | None:
    """Where nobody tells when a process began, only whether it is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "alive"
    return "alive"


def find(pid: int) -> Process | None:
    """The process *pid* of this machine, if it is alive."""
    mark = mark_of(pid)
    return None if mark is None else Process(host=this_host(), pid=pid, mark=mark)


def is_gone(process: Process, here: str) -> bool:
    """Whether *process* has certainly ended: one of another host than *here* is never known to have."""
    return process.host == here and mark_of(process.pid) != process.mark
