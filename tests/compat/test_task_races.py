"""Programs and threads that race for task slots through the documented coordinator never exceed a limit."""

import os
import subprocess
import sys
from pathlib import Path

RACERS, TRIES = 4, 8
RACER = """
import os, sys, threading
from ringrift.kernel.errors import LimitReached
from ringrift_compat.tasks.task_limits import TaskLimits
from ringrift_compat.tasks.task_coordinator import TaskCoordinator
racer, tries = sys.argv[1], int(sys.argv[2])
coordinator, ids = TaskCoordinator.get_instance(), []
coordinator.set_limits(TaskLimits(
    spawns_per_minute_max=1000, selfplay_spawns_per_minute_max=1000, burst_max=1000, selfplay_burst_max=1000
))
print("ready", flush=True)
sys.stdin.readline()
def race(thread):
    for number in range(tries):
        for type in ("training", "selfplay"):
            try:
                ids.append(coordinator.register_task(f"{type}-{racer}-{thread}-{number}", type, "n", os.getpid()))
            except LimitReached:
                pass
threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*ids, flush=True)
sys.stdin.readline()
"""


def test_processes_and_threads_that_race_never_pass_a_limit(tmp_path: Path) -> None:
    """Four programs with four threads each get one training and thirty-two selfplays between them."""
    environ = os.environ | {"RINGRIFT_HOME": str(tmp_path)}
    pipes = {"text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environ}
    argv = [sys.executable, "-c", RACER]
    racers = [subprocess.Popen([*argv, str(number), str(TRIES)], **pipes) for number in range(RACERS)]
    try:
        assert [_line(racer) for racer in racers] == ["ready"] * RACERS
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        ids = [id for racer in racers for id in _line(racer).split()]

        assert sorted(id.partition("-")[0] for id in ids) == ["selfplay"] * 32 + ["training"]
        assert len(set(ids)) == 33
    finally:
        for racer in racers:
            with racer:
                racer.kill()


def _line(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()
