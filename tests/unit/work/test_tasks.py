"""Tasks: a dead task holds no slot, and a process is known by its number and start."""

import os
import subprocess
from pathlib import Path
from typing import Any

from ringrift.kernel.stall_detector import Observation
from ringrift.work import processes
from ringrift.work.processes import Process
from ringrift.work.tasks import HostTick, Task, find_orphans

HERE = HostTick(host="here", tick=1000.0)


def task(**changes: Any) -> Task:
    """A task on node n."""
    usual = {"id": "t", "type": "training", "node": "n", "beat_at": HERE}
    return Task(**usual | changes)


def test_a_dead_task_holds_no_slot() -> None:
    """A visible process decides itself; otherwise beats of this host count by age, and others by an observer."""
    mine = Process(host="here", pid=7, mark="a")
    old = HostTick(host="here", tick=HERE.tick - 300.0)
    tasks = [
        task(id="dead", process=mine, pid=7),
        task(id="lives", process=Process(host="here", pid=8, mark="b"), beat_at=old),
        task(id="silent", beat_at=old),
        task(id="alive", beat_at=HostTick(host="here", tick=old.tick + 1)),
        task(id="away", beat_at=HostTick(host="there", tick=0.0), process=Process(host="there", pid=7, mark="a")),
        task(id="away and silent", beat_at=HostTick(host="there", tick=0.0)),
    ]

    silent = [Observation(name="task:away and silent", counter=0, seconds=300.0)]
    orphans = find_orphans(tasks, HERE, 300.0, silent, has_died=lambda process, host: process == mine)

    assert {orphan.id: orphan.reason for orphan in orphans} == {
        "dead": "its process 7 is gone",
        "silent": "no sign of life for 300 s",
        "away and silent": "no sign of life for 300 s",
    }
    assert {orphan.state for orphan in orphans} == {"orphaned"}


def test_a_process_is_identified_by_its_number_and_start_time() -> None:
    """A live process is recognised; one that ended is gone, also as a zombie; a reused number is another process."""
    here = processes.this_host()
    child = subprocess.Popen(["sleep", "60"])
    process = processes.find(child.pid)
    assert process is not None
    assert not processes.is_gone(process, here)

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet reaped
    assert processes.is_gone(process, here)
    child.wait()
    assert processes.is_gone(process, here)
    assert processes.find(child.pid) is None
    reused = Process(host=here, pid=os.getpid(), mark="another beginning")
    assert processes.is_gone(reused, here)
    assert not processes.is_gone(Process(host="elsewhere", pid=process.pid, mark="x"), here)
    assert processes.find(0) is None


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    """A name with blanks and brackets does not hide when its process began."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) Z (b) R {' '.join(str(n) for n in range(4, 22))} 4711 0\n")

    assert processes._mark_of(7, tmp_path) == "4711"
