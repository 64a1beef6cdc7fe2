"""A child process is read line by line, keeps its last output for errors, and takes its whole group with it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent

import pytest

from ringrift.child import Child, _LastOutput, run_program
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import ChildDied
from wait import until, wait_until

LINE_BYTES_MAX = 1024


def python(text: str, *arguments: str) -> list[str]:
    """The arguments of a process that runs *text*."""
    return [sys.executable, "-S", "-E", "-c", dedent(text), *arguments]


def with_child(text: str, use: Callable[[Child], Awaitable[None]], *arguments: str) -> int:
    """Start *text* as a child, *use* it, end it at once; its process id."""

    async def run() -> int:
        child = await Child.start("the child", python(text, *arguments), line_bytes_max=LINE_BYTES_MAX)
        try:
            async with asyncio.timeout(10.0):
                await use(child)
        finally:
            await child.end(0.0)
        return child.pid

    return asyncio.run(run())


def is_running(pid: int) -> bool:
    """Return whether the process *pid* exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_readiness_and_progress_come_as_lines() -> None:
    """Lines are read as they are printed, one that is too long is left out, and what we write reaches its stdin."""
    text = """
    import sys
    print("ready", flush=True)
    print("x" * 10_000, flush=True)
    for line in sys.stdin:
        print("echo " + line, end="", flush=True)
    """
    lines = []

    async def use(child: Child) -> None:
        async for line in child.lines():
            lines.append(line)
            if len(lines) == 1:
                child.write_line(b"half done")
            if len(lines) == 2:
                return

    pid = with_child(text, use)

    assert lines == [b"ready\n", b"echo half done\n"]
    assert not is_running(pid)


def test_a_death_is_explained_by_the_end_of_the_output() -> None:
    """The exit code and the last lines of stderr are in the error, however much was printed."""
    text = """
    import sys
    for number in range(100_000):
        print(f"line {number}", file=sys.stderr)
    sys.exit(3)
    """

    async def use(child: Child) -> None:
        with pytest.raises(ChildDied) as death:
            await child.read_line()
        first, *last_lines = str(death.value).splitlines()
        assert first == "the child ended with exit 3"
        assert [line.strip() for line in last_lines] == [f"line {number}" for number in range(99_992, 100_000)]

    with_child(text, use)


def test_the_last_output_is_bounded() -> None:
    """A few KiB of any line or text are kept, and lines are printable."""
    output = _LastOutput()
    output.feed(b"begin")
    for _ in range(100):
        output.feed(b"x" * 10_000)
    output.feed(b"\n\x1b[31mred \xff\n")

    assert len(output.text()) <= 4096
    assert "begin" not in output.text()
    assert output.lines()[-1] == "\\x1b[31mred \N{REPLACEMENT CHARACTER}"
    assert max(len(line) for line in output.lines()) <= 300


def test_a_signal_is_named() -> None:
    """The error of a killed child names the signal."""

    async def use(child: Child) -> None:
        child.kill()
        with pytest.raises(ChildDied, match="the child ended with signal 9"):
            await child.read_line()

    with_child("import signal; signal.pause()", use)


def test_the_whole_group_dies(tmp_path: Path) -> None:
    """A child that ignores SIGTERM and has a child of its own: after the grace period both are gone."""
    text = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = os.fork()
    if grandchild:
        print(grandchild, flush=True)
    while True:
        signal.pause()
    """

    async def run() -> tuple[int, int]:
        child = await Child.start("the child", python(text), line_bytes_max=LINE_BYTES_MAX)
        grandchild = int(await child.read_line())
        await child.end(0.1)
        return child.pid, grandchild

    pid, grandchild = asyncio.run(run())

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    until(lambda: not is_running(grandchild))


def test_output_without_lines_does_not_block_a_child() -> None:
    """A progress bar prints for hours and never ends its line: it is read all the same, and its end is kept."""
    text = """
    import os, sys
    for number in range(400):
        os.write(2, b"x" * 65536)
    os.write(2, b"the last words")
    print("done", flush=True)
    sys.stdin.read()
    """

    async def use(child: Child) -> None:
        assert await child.read_line() == b"done\n"
        child.kill()
        with pytest.raises(ChildDied, match="the last words"):
            await child.read_line()

    with_child(text, use)


def test_what_a_dead_child_has_started_dies_with_it() -> None:
    """A child that ends by itself leaves a child of its own in its group: that ends too, before anybody ends it."""
    text = """
    import os, signal
    grandchild = os.fork()
    if grandchild:
        print(grandchild, flush=True)
        os._exit(3)
    os.closerange(0, 3)
    signal.pause()
    """

    async def use(child: Child) -> None:
        grandchild = int(await child.read_line())
        with pytest.raises(ChildDied, match="exit 3"):
            await child.read_line()
        await wait_until(lambda: not is_running(grandchild))

    with_child(text, use)


def start_with_number(pid: int) -> "subprocess.Popen[bytes]":
    """A process in a group of its own that has the number *pid*."""
    for _ in range(1000):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        process = subprocess.Popen(python("import signal; signal.pause()"), start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    pytest.skip("the number was taken by another process each time")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose the number of the next process")
def test_a_number_that_is_used_again_is_not_signalled() -> None:
    """After a child was reaped, its number may name a stranger: ending the child once more must not harm that."""

    async def run() -> int | None:
        child = await Child.start("the child", python(""), line_bytes_max=LINE_BYTES_MAX)
        with pytest.raises(ChildDied, match="exit 0"):
            await child.read_line()
        stranger = start_with_number(child.pid)
        try:
            child.kill()
            await child.end(1.0)
            with pytest.raises(subprocess.TimeoutExpired):
                stranger.wait(0.2)
            return stranger.poll()
        finally:
            stranger.kill()
            stranger.wait()

    assert asyncio.run(run()) is None


@pytest.mark.parametrize("close_input", [True, False], ids=["input closed", "asked by signal"])
def test_a_child_ends_cleanly_within_its_grace_period(tmp_path: Path, close_input: bool) -> None:
    """Within its grace period a child can clean up, stopped by SIGTERM or by the end of its input."""
    text = """
    import signal, sys
    def leave(*_):
        open(sys.argv[1], "w").write("left")
        sys.exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "True" else leave)
    print("ready", flush=True)
    sys.stdin.read()
    leave()
    """

    async def run() -> None:
        argv = python(text, str(tmp_path / "left"), str(close_input))
        child = await Child.start("the child", argv, line_bytes_max=LINE_BYTES_MAX)
        assert await child.read_line() == b"ready\n"
        await child.end(10.0, close_input=close_input)

    asyncio.run(run())

    assert (tmp_path / "left").read_text() == "left"


def test_the_end_of_the_parent_ends_the_child() -> None:
    """The kernel closes the pipe of a parent that was killed: a child that reads its stdin sees its end."""
    child = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
    parent = f"""
    import asyncio, os, signal, sys
    sys.path[:] = {sys.path!r}
    from ringrift.child import Child
    async def run():
        child = await Child.start("the child", [sys.executable, "-S", "-E", "-c", {child!r}], line_bytes_max=1024)
        print((await child.read_line()).decode(), end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    asyncio.run(run())
    """
    pids = []

    async def use(process: Child) -> None:
        pids.append(int(await process.read_line()))
        with pytest.raises(ChildDied, match="signal 9"):
            await process.read_line()

    with_child(parent, use)

    until(lambda: not is_running(pids[0]))


def test_a_child_that_cannot_be_started() -> None:
    """It is an OSError that names the program."""
    with pytest.raises(OSError, match="/no/such/program"):
        asyncio.run(Child.start("the child", ["/no/such/program"], line_bytes_max=LINE_BYTES_MAX))


def test_a_program_runs_to_its_end() -> None:
    """Code that may block gets the output as it comes, the exit code, and the end of stderr."""
    output = bytearray()
    text = "import sys; print('x' * 200_000); print('last line', file=sys.stderr); sys.exit(75)"

    ended = run_program(python(text), output.extend, lambda: False, stop_seconds_max=1.0, clock=SystemClock())

    assert ended == (75, "last line")
    assert output == b"x" * 200_000 + b"\n"


@pytest.mark.parametrize("passes", [False, True])
def test_the_stderr_of_a_program_is_passed_on_if_asked_for(capfd: pytest.CaptureFixture[str], passes: bool) -> None:
    """In a worker that makes it the output of the job, beside its end in the error."""
    limits = {"stop_seconds_max": 1.0, "clock": SystemClock(), "passes_errors": passes}
    ended = run_program(python("import sys; print('why', file=sys.stderr)"), list, lambda: False, **limits)

    assert (ended, capfd.readouterr().err) == ((0, "why"), "why\n" * passes)


def test_a_program_that_does_not_stop_is_killed() -> None:
    """Deaf to SIGTERM it gets its time and no more."""
    text = "import signal; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    output = bytearray()

    code, _ = run_program(python(text), output.extend, lambda: bool(output), stop_seconds_max=0.2, clock=SystemClock())

    assert (code, bytes(output)) == (-9, b"ready\n")


def test_a_program_is_killed_when_its_reader_fails() -> None:
    """An error of the output's reader leaves no process behind."""
    pids = []

    def fail(data: bytes) -> None:
        pids.append(int(data))
        raise RuntimeError("too much")

    text = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    with pytest.raises(RuntimeError, match="too much"):
        run_program(python(text), fail, lambda: False, stop_seconds_max=1.0, clock=SystemClock())

    assert not is_running(pids[0])
