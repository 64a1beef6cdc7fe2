"""Faults are named while they last: by the last heartbeats, the processes that wrote them, and a look at the disks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder
from ringrift.cli.faults import node_faults
from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import changed
from ringrift.supervision.status import DaemonStatus
from wait import until

CLOCK = SystemClock()
BEAT_SECONDS = 5.0
DAY = 86_400.0


@pytest.fixture
def node(tmp_path: Path) -> NodeRecord:
    """A node that beats, works, and has its folder."""
    Folder(tmp_path / "blobs", "n1").mark()
    wall, beat = CLOCK.now() - CLOCK.tick(), int(CLOCK.tick() * 1000)
    folder = str(tmp_path / "blobs")
    return NodeRecord(id="n1", profile="full", address=folder, beat=beat, wall=wall, pid=os.getpid())


def faults(node: NodeRecord) -> list[str]:
    """The faults of *node* now."""
    return node_faults([node], CLOCK, BEAT_SECONDS)


def test_a_sound_node_has_no_fault(node: NodeRecord) -> None:
    """Nor has one that has left, whatever became of it, or one that is about to send its first heartbeat."""
    assert faults(node) == []
    assert faults(changed(node, gone=True, beat=1, address="/nowhere")) == []
    assert faults(changed(node, beat=0, wall=0.0)) == []


def test_a_silent_node_is_named_with_the_state_of_its_process(node: NodeRecord) -> None:
    """Its process runs, is stopped or has ended: three different things to do."""
    silent = changed(node, beat=node.beat - 60_000)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        child.send_signal(signal.SIGSTOP)
        until(lambda: "is stopped" in str(faults(changed(silent, pid=child.pid))))
        assert faults(changed(silent, pid=child.pid)) == [
            f"node n1: no heartbeat for 60 s: its process {child.pid} is stopped: run  kill -CONT {child.pid}"
        ]
        assert "is stopped" in faults(changed(node, pid=child.pid))[0], "also before it is missed"
    finally:
        child.kill()
        child.communicate()
    assert f"process {child.pid} has ended" in faults(changed(silent, pid=child.pid))[0]
    assert f"process {node.pid} runs" in faults(silent)[0]


def test_a_heartbeat_of_an_earlier_boot_is_no_sign_of_life(node: NodeRecord) -> None:
    """The clock of the heartbeats starts at zero with the machine."""
    assert "no heartbeat since this machine started" in faults(changed(node, beat=node.beat + 60_000))[0]


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_a_wall_clock_that_was_moved_is_named(node: NodeRecord, seconds: float) -> None:
    """The wall clock of a node is compared with the one of the process that looks, by their monotonic clocks."""
    [fault] = faults(changed(node, wall=node.wall + seconds))

    assert fault.startswith(f"node n1: its wall clock is {seconds:+.0f} s off")
    assert faults(changed(node, wall=node.wall + 1.0)) == []


def test_a_process_without_descriptors_is_named(node: NodeRecord) -> None:
    """A process that can open no more files is named before it has to."""
    program = "import resource; n = len(__import__('os').listdir('/proc/self/fd')); "
    program += "resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert "has no file descriptor left" in faults(changed(node, pid=child.pid))[0]
    finally:
        child.kill()
        child.communicate()


def test_daemons_that_wait_or_fail_are_named_by_their_reason(node: NodeRecord) -> None:
    """One line for all that wait for the same thing; what is off by settings is no fault."""
    waits = Health(part="", status=Status.DEGRADED, reason="waits: no room left at /data")
    hangs = Health(part="", status=Status.UNHEALTHY, reason="no progress for 61 s")
    statuses = (
        DaemonStatus(name="fill", state="waiting", health=waits),
        DaemonStatus(name="rate", state="waiting", health=waits),
        DaemonStatus(name="heal", state="running", health=hangs),
        DaemonStatus(name="sweep", state="resting", health=hangs, disabled=True),
        DaemonStatus(name="work", state="running", health=Health(part="", status=Status.HEALTHY)),
        DaemonStatus(name="beat", health=Health(part="", status=Status.HEALTHY), waits_often="the store is busy"),
    )

    assert faults(changed(node, activity=Activity(daemons=DaemonSummary(statuses=statuses)))) == [
        "node n1: fill, rate waiting: waits: no room left at /data",
        "node n1: heal running: no progress for 61 s",
        "node n1: beat had to wait several times lately: the store is busy",
    ]


def test_a_blob_folder_that_is_away_or_another_one_is_named(node: NodeRecord) -> None:
    """A folder that is gone, one without the marker of its node, and one of another node."""
    marker = Path(node.address) / "node"
    assert "blob folder /nowhere" in faults(changed(node, address="/nowhere"))[0]
    marker.write_text("n2\n")
    assert "belongs to node n2" in faults(node)[0]
    marker.unlink()
    assert f"node n1: blob folder {node.address}" in faults(node)[0]


def test_a_folder_that_hangs_does_not_hang_the_look(node: NodeRecord) -> None:
    """A pipe that is never written stands for a network share that never answers."""
    marker = Path(node.address) / "node"
    marker.unlink()
    os.mkfifo(marker)
    try:
        [fault] = faults(node)
        assert "does not answer within 1 s: its disk hangs" in fault
    finally:
        os.close(os.open(marker, os.O_RDWR))  # the thread that waits goes on
