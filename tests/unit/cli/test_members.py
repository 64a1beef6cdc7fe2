"""Processes that a command starts as members: their secret, their end, and their end without the command."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringrift.cli.members import _HOLD, MemberProcesses
from ringrift.kernel.errors import ChildDied
from wait import until, wait_until

SECRET = "not-for-others"
# Says what it got, then runs until SIGTERM, which it reports; with "deaf" it ignores that.
MEMBER = """
import signal, sys, time
def stop(*_):
    print("stopped", flush=True)
    if sys.argv[1] != "deaf":
        sys.exit(3)
signal.signal(signal.SIGTERM, stop)
print("got", sys.stdin.readline().strip() == "-".join(["not", "for", "others"]), flush=True)
if sys.argv[1] == "short":
    sys.exit(7)
while True:
    time.sleep(0.05)
"""
SECONDS_MAX = 30.0


def async_test(story: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run *story* on a loop of its own."""

    @wraps(story)
    def test() -> None:
        asyncio.run(story())

    return test


def member_argv(how: str) -> list[str]:
    return ["sh", "-c", _HOLD, "sh", sys.executable, "-c", MEMBER, how]


@async_test
async def test_a_member_gets_its_secret_by_its_input_alone_and_ends_in_good_order() -> None:
    """No argument and no variable of any of its processes has it; the end of the body is SIGTERM for it."""
    lines = list[tuple[str, str]]()
    async with MemberProcesses.open(lambda *line: lines.append(line), SECONDS_MAX) as members:
        member = await members.start("one", member_argv("well"), SECRET)
        await wait_until(lambda: ("one", "got True") in lines, SECONDS_MAX)
        family = psutil.Process(member._process.pid)
        texts = [" ".join([*p.cmdline(), *p.environ().values()]) for p in (family, *family.children(recursive=True))]

    assert len(texts) >= 2
    assert not any(SECRET in text for text in texts)
    assert lines == [("one", "got True"), ("one", "stopped")]
    assert member.describe_end() == "exit code 3"


@async_test
async def test_a_member_that_ends_by_itself_is_told_and_not_started_again() -> None:
    """With its exit code; the others go on."""
    lines = list[tuple[str, str]]()
    async with MemberProcesses.open(lambda *line: lines.append(line), SECONDS_MAX) as members:
        other = await members.start("other", member_argv("well"), SECRET)
        await members.start("short", member_argv("short"), SECRET)
        text = "has ended (exit code 7) and is not started again; the others go on"
        await wait_until(lambda: ("short", text) in lines, SECONDS_MAX)
        assert not other.ended.done()
        assert len(members.running) == 2
    assert [name for name, line in lines if "has ended" in line] == ["short"]


@async_test
async def test_a_member_that_does_not_end_is_killed_with_all_that_it_started() -> None:
    """After its time; the first member ends last."""
    lines = list[tuple[str, str]]()
    async with MemberProcesses.open(lambda *line: lines.append(line), 0.5) as members:
        await members.start("first", member_argv("well"), SECRET)
        deaf = await members.start("deaf", member_argv("deaf"), SECRET)
        await wait_until(lambda: len(lines) == 2, SECONDS_MAX)
        family = [psutil.Process(deaf._process.pid), *psutil.Process(deaf._process.pid).children(recursive=True)]

    assert [name for name, line in lines if line == "stopped"] == ["deaf", "first"]
    assert deaf.describe_end() == "signal 9"
    assert not psutil.wait_procs(family, timeout=SECONDS_MAX)[1]


@async_test
async def test_a_program_that_cannot_be_started_is_named() -> None:
    """With the reason."""
    async with MemberProcesses.open(lambda *_: None, 1.0) as members:
        with pytest.raises(ChildDied, match="cannot start x: /none/program: No such file"):
            await members.start("x", ["/none/program"])


def test_a_member_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    """Whose end is the end of its input."""
    file = tmp_path / "pid"
    member_program = f"import os; open({str(file)!r}, 'w').write(str(os.getpid()))\n{MEMBER}"
    argv = ["sh", "-c", _HOLD, "sh", sys.executable, "-c", member_program, "well"]
    program = f"import subprocess, time; p = subprocess.Popen({argv!r}, stdin=-1, bufsize=0)\n"
    program += "p.stdin.write(b'x\\n'); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL) as starter:
        until(lambda: file.exists() and bool(file.read_text()), SECONDS_MAX)
        member = psutil.Process(int(file.read_text()))
        starter.kill()

    until(lambda: not member.is_running() or member.status() == psutil.STATUS_ZOMBIE, SECONDS_MAX)
