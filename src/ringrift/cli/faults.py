"""Faults of this machine and of its nodes while they last, by looking: it works also when nothing can be written.

Every look at a disk has a deadline, since a network share may hang.
"""

import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.cluster.roster import SILENT_BEATS, NodeRecord
from ringrift.kernel.clock import Clock
from ringrift.kernel.health import Status
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import find_writer
from ringrift.work import processes

_LOOK_SECONDS_MAX = 1.0  # how long one folder may take to answer, and how long a writer is watched
_LOOKS = 20  # at the writer, within these seconds
_ROOM_BYTES_MIN = 1 << 20  # less is no room: a game file or a group of transactions does not fit
_WALL_SECONDS_MAX = 5.0  # how far the wall clocks of two processes of one machine may differ
_DESCRIPTORS_MIN = 2  # a process that has no more left can open no file of the store
_UNWELL = ("failed", "pausing", "waiting", "unusable")


def machine_faults(settings: StoreSettings) -> list[str]:
    """The faults that need no store: a writer that does not end, a disk that is full, read-only or away."""
    folder = Path(settings.path).parent
    texts = (_writer_fault(settings), ask_disk(partial(_space_fault, folder), str(folder)))
    return [f"store: {text}" for text in texts if text]


def fault_lines(faults: Sequence[str]) -> list[str]:
    """*faults* for people, before everything else."""
    return [f"FAULT: {fault}" for fault in faults]


def node_faults(nodes: Sequence[NodeRecord], clock: Clock, beat_seconds: float, *, daemons: bool = True) -> list[str]:
    """The faults of *nodes*, by their last heartbeats, their processes and their folders, and those of *daemons*."""
    faults = []
    for node in (node for node in nodes if not node.gone):
        texts = _daemon_faults(node) if daemons else []
        if node.has_files:  # otherwise neither its clock nor its process nor its disk is of this machine
            texts = [_beat_fault(node, clock, SILENT_BEATS * beat_seconds), *texts]
            texts.append(ask_disk(partial(_folder_fault, node), node.address))
        faults += [f"node {node.id}: {text}" for text in texts if text]
    return faults


def is_running(node: NodeRecord, clock: Clock, beat_seconds: float) -> bool:
    """Whether *node* has sent a heartbeat lately, or is a process that is stopped or hangs: it has not ended."""
    if node.gone or not node.has_files:
        return not node.gone  # nothing of this machine tells about a worker of another one
    if node.pid:
        return processes.find(node.pid) is not None
    return 0 <= clock.tick() - node.beat / 1000 <= SILENT_BEATS * beat_seconds


def _beat_fault(node: NodeRecord, clock: Clock, silent_seconds: float) -> str:
    """What the last heartbeat of *node* shows, and the process that wrote it."""
    # A store lies on a local disk, so its nodes run on this machine, and a heartbeat is a tick of its clock.
    age, off = clock.tick() - node.beat / 1000, node.wall - (clock.now() - clock.tick())
    files, limit = _descriptors(node.pid)
    is_stopped = _is_stopped(node.pid)
    if is_stopped or (node.beat and not 0 <= age <= silent_seconds):
        since = f"for {age:.0f} s" if age > 0 else "since this machine started"
        state = f"is stopped: run  kill -CONT {node.pid}" if is_stopped else "runs" if files else "has ended"
        return f"no heartbeat {since}: its process {node.pid} {state}"
    if limit and files >= limit - _DESCRIPTORS_MIN:
        return f"its process {node.pid} has no file descriptor left ({files} of {limit}): raise  ulimit -n"
    if node.wall and abs(off) > _WALL_SECONDS_MAX:
        return f"its wall clock is {off:+.0f} s off the one of this process: set the clocks right"
    return ""


def _daemon_faults(node: NodeRecord) -> list[str]:
    """The daemons that wait, fail or hang, by their reason."""
    by_reason: dict[str, list[str]] = {}
    for status in node.activity.daemons.statuses:
        if not status.disabled and (status.state in _UNWELL or status.health.status is Status.UNHEALTHY):
            by_reason.setdefault(f"{status.state}: {status.health.reason or status.last_error}", []).append(status.name)
        elif status.waits_often:
            by_reason.setdefault(f"had to wait several times lately: {status.waits_often}", []).append(status.name)
    return [f"{', '.join(names)} {reason}" for reason, names in by_reason.items()]


def _writer_fault(settings: StoreSettings) -> str:
    """A process that holds the write lock and is stopped, or that does not give it up while we look."""
    pid = find_writer(settings)
    for _ in range(_LOOKS):
        if pid is None:
            return ""
        name = f"process {pid} ({_read_process(pid, 'comm').strip()})"
        if _is_stopped(pid):
            return f"{name} holds the write lock and is stopped: run  kill -CONT {pid}  or end it"
        threading.Event().wait(_LOOK_SECONDS_MAX / _LOOKS)
        pid = pid if find_writer(settings) == pid else None
    return f"{name} has held the write lock for {_LOOK_SECONDS_MAX:g} s: no other process can write" if pid else ""


def _descriptors(pid: int) -> tuple[int, int]:
    """How many files a process has open, and how many it may; zeros if that cannot be read."""
    limit = re.search(r"Max open files +(\d+)", _read_process(pid, "limits"))
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd")), int(limit[1]) if limit else 0
    return 0, 0


def _is_stopped(pid: int) -> bool:
    return _read_process(pid, "stat").rpartition(") ")[2][:1] in ("T", "t")


def _read_process(pid: int, file: str) -> str:
    """What the system says about a process; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    return ""


def _space_fault(folder: Path) -> str:
    """What keeps files from being written to *folder*, or to the nearest one above it that exists."""
    place = nearest(folder)
    disk = os.statvfs(place)
    free = disk.f_frsize * disk.f_bavail
    if disk.f_flag & os.ST_RDONLY:
        return f"the disk of {place} is read-only: make it writable again"
    if free < _ROOM_BYTES_MIN or (disk.f_files and not disk.f_ffree):
        return f"no room left at {place} ({free >> 10} KiB, {disk.f_ffree} files): free some space"
    return "" if os.access(place, os.R_OK | os.W_OK | os.X_OK) else f"no right to write to {place}: change its owner"


def nearest(folder: Path) -> Path:
    """*folder*, or the nearest one above it that exists."""
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def _folder_fault(node: NodeRecord) -> str:
    if away := Folder(node.address, node.id).find_away():
        return f"blob folder {away.reason}: mount the right disk; if it is lost, run  ringrift data adopt"
    return (fault := _space_fault(Path(node.address))) and f"blob folder: {fault}"


def ask_disk(look: Callable[[], str], folder: str, seconds_max: float = _LOOK_SECONDS_MAX) -> str:
    """The answer of *look*, or a fault if it has none in time or fails."""
    answers: list[str] = []

    def try_look() -> None:
        try:
            answers.append(look())
        except (OSError, ValueError) as error:
            answers.append(f"{folder} cannot be read: {getattr(error, 'strerror', None) or error}")

    thread = threading.Thread(target=try_look, daemon=True)  # it may hang for ever, and must not keep the process
    thread.start()
    thread.join(seconds_max)
    return answers[0] if answers else f"{folder} does not answer within {seconds_max:g} s: its disk hangs"
