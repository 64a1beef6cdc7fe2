"""The end of a node ends its workers and what they have started, whatever they do at that moment."""

import asyncio
import os
import signal
import sys
from textwrap import dedent

import pytest

from ringrift.child import Child
from ringrift.kernel.errors import ChildDied
from unit.test_child import is_running
from wait import until

# A worker with a child of its own, which never reads its stdin and holds the interpreter's lock for good.
WORKER = f"""
import ctypes, os, signal, subprocess, sys
sys.path[:] = {sys.path!r}
from ringrift.workers.guard import _end_with
_end_with(int(sys.argv[1]))
[guard] = open(f"/proc/self/task/{{os.getpid()}}/children").read().split()
program = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import signal; signal.pause()"])
print(os.getpid(), guard, program.pid, flush=True)
ctypes.PyDLL(None).sleep(600)
"""
# A node that starts it, passes on its numbers, and ends as it is told.
NODE = f"""
import asyncio, os, signal, sys
sys.path[:] = {sys.path!r}
from ringrift.child import Child
async def run():
    child = await Child.start("the worker", [sys.executable, "-c", {WORKER!r}, str(os.getpid())], line_bytes_max=1024)
    print((await child.read_line()).decode(), end="", flush=True)
    if sys.stdin.readline() == "close\\n":
        child._input.close()
        await asyncio.Event().wait()
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(run())
"""


def end_node(order: bytes, *, guarded: bool = True) -> list[int]:
    """Run a node with such a worker, let it end by *order*; the worker, its guard, and its program."""

    async def run() -> list[int]:
        node = await Child.start("the node", [sys.executable, "-c", NODE], line_bytes_max=1024)
        async with asyncio.timeout(20.0):
            processes = [int(word) for word in (await node.read_line()).split()]
            if not guarded:
                os.kill(processes[1], signal.SIGKILL)
            node.write_line(order)
            if order != b"close":
                with pytest.raises(ChildDied, match="signal 9"):
                    await node.read_line()
            await asyncio.to_thread(until, lambda: not is_running(processes[0]))
        await node.end(0.0)
        return processes

    return asyncio.run(run())


@pytest.mark.parametrize("order", [b"die", b"close"], ids=["killed node", "closed input"])
def test_a_worker_that_reacts_to_nothing_does_not_outlive_its_node(order: bytes) -> None:
    """The node is killed, or closes the worker's input: the worker, its guard and its program end."""
    processes = end_node(order)
    until(lambda: not any(map(is_running, processes)))


def test_the_kernel_ends_a_worker_whose_guard_is_gone() -> None:
    """Nothing but the death of its parent ends it then."""
    assert not is_running(end_node(b"die", guarded=False)[0])


def test_a_worker_whose_node_is_gone_already_ends_at_once() -> None:
    """The node may die before the worker asks to end with it."""
    text = f"import sys; sys.path[:] = {sys.path!r}\nfrom ringrift.workers.guard import _end_with; _end_with(1)"

    async def run() -> None:
        child = await Child.start("the worker", [sys.executable, "-c", dedent(text)], line_bytes_max=1024)
        with pytest.raises(ChildDied, match="signal 9"):
            await child.read_line()
        await child.end(0.0)

    asyncio.run(run())
