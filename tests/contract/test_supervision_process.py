"""A daemon that is a program is started, monitored, restarted and ended like any other, and leaves nothing behind."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ringrift.events.daemon import Failed
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Status
from ringrift.kernel.settings import Settings
from ringrift.supervision.hang_detector import CheckIntervals
from ringrift.supervision.program import _LINE_BYTES_MAX, _parse_line
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import PARTS, QUICK, health, serving, supervisor, undisturbed
from unit.work.world import World, play
from wait import wait_until

QUICK_CHECKS = CheckIntervals(critical_seconds=0.05, routine_seconds=0.05)


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Daemon]:
    """Makes a daemon from the text of a Python program, which gets the test's folder in its arguments."""

    def make(text: str, **changes: Any) -> Daemon:
        path = tmp_path / "program.py"
        path.write_text(dedent(text))
        argv = (sys.executable, "-S", "-E", str(path), str(tmp_path))
        return Daemon(**{"name": "foreign", "process": argv, "restart": QUICK} | changes)

    return make


def gone(pid: int) -> bool:
    """Whether there is no process *pid*, not even a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def ready(sup: Supervisor) -> int:
    """Wait until the program has reported that it is ready; its process id."""
    await wait_until(lambda: health(sup, "foreign").status is Status.HEALTHY)
    pid = sup.status("foreign").pid
    assert pid is not None
    return pid


def test_a_program_gets_its_settings_and_is_asked_to_stop(tmp_path: Path, program: Callable[..., Daemon]) -> None:
    """It receives its name and all settings, reports when it is ready, and ends at SIGTERM in its own way."""
    spec = program(
        """
    import signal, sys
    greeting = sys.stdin.readline()
    def stop(*_):
        open(sys.argv[1] + "/left", "w").write(greeting)
        sys.exit(0)
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        signal.pause()
    """
    )

    async def story(world: World) -> int:
        sup = supervisor(world, clock=SystemClock())
        async with sup.run([spec, serving("behind", after=("foreign",))], PARTS, "full"):
            return await ready(sup)

    pid = play(tmp_path, story)

    greeting = json.loads((tmp_path / "left").read_text())
    assert (greeting["daemon"], greeting["node"]) == ("foreign", "here")
    assert greeting["settings"]["work"]["lease_seconds"] == Settings().work.lease_seconds
    assert gone(pid)


def test_a_program_that_does_not_stop_is_killed_with_all_it_started(
    tmp_path: Path, program: Callable[..., Daemon]
) -> None:
    """A program that ignores SIGTERM, with a child: after its time both have ended, and no zombie is left."""
    spec = program(
        """
    import os, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = os.fork()
    if child:
        open(sys.argv[1] + "/child", "w").write(str(child))
        print("ready", flush=True)
    while True:
        signal.pause()
    """,
        stop_seconds_max=0.2,
    )

    async def story(world: World) -> int:
        sup = supervisor(world, clock=SystemClock())
        async with sup.run([spec, serving("sound")], PARTS, "full"):
            pid = await ready(sup)
            assert await sup.stop("foreign")
            assert gone(pid)
            assert sup.status("foreign").pid is None
            assert undisturbed(sup, "sound")
            child = int((tmp_path / "child").read_text())
            await wait_until(lambda: gone(child) or _is_zombie_of_another(child))
        return pid

    play(tmp_path, story)


def _is_zombie_of_another(pid: int) -> bool:
    """Whether *pid* has ended and only waits for the process that adopts orphans on this machine."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True  # it has ended meanwhile


def test_a_program_that_crashes_is_restarted_and_given_up(tmp_path: Path, program: Callable[..., Daemon]) -> None:
    """Its exit code and its last output are the error; the restart budget is that of every daemon."""
    spec = program("import sys\nsys.stderr.write('no licence\\n')\nsys.exit(3)")

    async def story(world: World) -> None:
        sup = supervisor(world, clock=SystemClock())
        async with sup.run([serving("sound"), spec], PARTS, "full"):
            await wait_until(lambda: sup.status("foreign").state == "failed")

            status = sup.status("foreign")
            assert status.last_error == "ChildDied: the program ended with exit 3\n  no licence"
            assert (status.restarts, len(status.history)) == (2, 3)
            assert undisturbed(sup, "sound")
        assert [event.daemon for event in await world.events(Failed) if isinstance(event, Failed)] == ["foreign"]

    play(tmp_path, story)


def test_a_program_without_output_is_ended_and_restarted(tmp_path: Path, program: Callable[..., Daemon]) -> None:
    """A process without output hangs; it is replaced by a new one, and the first has ended."""
    spec = program(
        """
    import os, signal, sys, time
    print("ready", flush=True)
    mark = sys.argv[1] + "/second"
    if not os.path.exists(mark):
        open(mark, "w").close()
        signal.pause()
    while True:
        time.sleep(0.02)
        print("alive", flush=True)
    """,
        seconds_max=1.0,
    )

    async def story(world: World) -> None:
        sup = supervisor(world, clock=SystemClock(), intervals=QUICK_CHECKS)
        async with sup.run([serving("sound"), spec], PARTS, "full"):
            first = await ready(sup)
            await wait_until(lambda: sup.status("foreign").restarts >= 1 and sup.status("foreign").pid is not None)

            assert "no progress for more than 1 s" in sup.status("foreign").last_error
            assert gone(first)
            assert undisturbed(sup, "sound")

    play(tmp_path, story)


def test_a_program_reports_its_health(tmp_path: Path, program: Callable[..., Daemon]) -> None:
    """A line of JSON counts as progress and enters its health; any other output does not."""
    spec = program(
        f"""
    import sys
    print("ready", flush=True)
    print("x" * {2 * _LINE_BYTES_MAX})
    print("some noise", flush=True)
    print('{{"status": "degraded", "reason": "half the disk is gone"}}', flush=True)
    sys.stdin.read()
    """
    )

    async def story(world: World) -> None:
        sup = supervisor(world, clock=SystemClock())
        async with sup.run([spec], PARTS, "full"):
            await wait_until(lambda: health(sup, "foreign").status is Status.DEGRADED)

            assert health(sup, "foreign").reason == "half the disk is gone"
            assert sup.status("foreign").failures == 0

    play(tmp_path, story)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """It fails like any other daemon, and the node continues."""

    async def story(world: World) -> str:
        sup = supervisor(world, clock=SystemClock())
        spec = Daemon(name="foreign", process=("/no/such/program",), restart=QUICK)
        async with sup.run([spec, serving("sound")], PARTS, "full"):
            await wait_until(lambda: sup.status("foreign").state == "failed")
            assert undisturbed(sup, "sound")
            return sup.status("foreign").last_error

    assert "/no/such/program" in play(tmp_path, story)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"ready\n", Status.HEALTHY),
        (b" alive \n", Status.HEALTHY),
        (b"{}\n", Status.HEALTHY),
        (b'{"status": "unhealthy", "reason": "x"}\n', Status.UNHEALTHY),
        (b'{"status": "splendid"}\n', None),
        (b"readiness\n", None),
        (b"[]\n", None),
        (b"\xff\xfe\n", None),
        (b'{"reason": "\xff"}\n', None),
    ],
)
def test_only_lines_of_the_protocol_count(line: bytes, status: Status | None) -> None:
    """The two words and a JSON object count, and nothing else does."""
    health = _parse_line("foreign", line)

    assert (health and health.status) == status


def test_a_program_that_reads_its_stdin_does_not_outlive_a_killed_node(tmp_path: Path) -> None:
    """The kernel closes the pipe of a node that was killed; the program sees the end of its stdin, and ends."""
    child = "import os, sys; print('ready', flush=True); sys.stderr.write('x'); sys.stdin.read()"
    node = f"""
    import asyncio, sys
    from ringrift.kernel.clock import SystemClock
    from ringrift.supervision.program import serve
    from ringrift.supervision.spec import Daemon
    from ringrift.supervision.unit import Unit

    class PrintingUnit(Unit):
        def report_health(self, health):
            print(self.pid, health.status.name, flush=True)

    async def run():
        spec = Daemon(name="foreign", process=(sys.executable, "-S", "-E", "-c", {child!r}), stop_seconds_max=1.0)
        await serve(PrintingUnit(spec, None, SystemClock()), "here", {{}})

    asyncio.run(run())
    """
    with subprocess.Popen([sys.executable, "-c", dedent(node)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, health = process.stdout.readline().split()
        assert health == "HEALTHY"
        process.kill()

    async def story() -> None:
        await wait_until(lambda: gone(int(pid)) or _is_zombie_of_another(int(pid)))

    asyncio.run(story())
