"""Threads: ours are waited for to their end; those of foreign code are few, and are let go."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from ringrift.threads import Threads, to_its_end
from wait import wait_until


def test_a_call_returns_or_raises_its_own_result() -> None:
    """The result or error of the blocking call reaches the caller unchanged."""

    async def story() -> int:
        with pytest.raises(ZeroDivisionError):
            await to_its_end(None, lambda: 1 // 0)
        return await to_its_end(None, max, 3, 4)

    assert asyncio.run(story()) == 4


def test_a_cancelled_waiter_waits_for_the_end() -> None:
    """However often the waiter is cancelled, it is cancelled only after the call has ended."""

    async def story() -> tuple[bool, bool, bool]:
        begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            may_end.wait(5)
            ended.set()

        waiter = asyncio.create_task(to_its_end(None, work))
        await wait_until(begun.is_set)
        for _ in range(2):
            waiter.cancel()
            await asyncio.sleep(0)
        early = waiter.done()
        may_end.set()
        await asyncio.wait((waiter,))
        return early, ended.is_set(), waiter.cancelled()

    assert asyncio.run(story()) == (False, True, True)


class Rooms:
    """Counts the calls that are inside, and releases them on request."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.names: list[str] = []

    def enter(self) -> str:
        """Stay until let out; the thread's name."""
        name = threading.current_thread().name
        self.names.append(name)
        self.open.wait(5)
        return name


def test_foreign_code_gets_so_many_threads_and_no_more() -> None:
    """Calls beyond the bound wait for a free thread; each gets its own answer in the end."""

    async def story() -> tuple[int, set[str]]:
        threads, rooms = Threads(2, "room"), Rooms()
        calls = [threads.run(rooms.enter) for _ in range(5)]
        await wait_until(lambda: len(rooms.names) == 2)
        first = len(rooms.names)
        rooms.open.set()
        names = set(await asyncio.gather(*calls))
        threads.close()
        return first, names

    assert asyncio.run(story()) == (2, {"room-1", "room-2"})


def test_an_idle_thread_is_used_again() -> None:
    """One call after the other needs one thread only."""

    async def story() -> set[str]:
        threads, names = Threads(8, "room"), set()
        for _ in range(20):
            names.add(await threads.run(lambda: threading.current_thread().name))
            await wait_until(lambda: threads._idle._value == 1)  # type: ignore[attr-defined]  # the thread waits again
        threads.close()
        return names

    assert asyncio.run(story()) == {"room-1"}


def test_a_call_that_is_let_go_ends_alone() -> None:
    """Cancelling lets go of a call that runs, and one that has not begun never does; the thread is free again."""
    ran: list[str] = []

    async def story() -> str:
        threads, rooms = Threads(1, "room"), Rooms()
        running = threads.run(rooms.enter)
        waiting = threads.run(lambda: ran.append("waiting"))
        await wait_until(lambda: bool(rooms.names))
        running.cancel()
        waiting.cancel()
        await asyncio.sleep(0)
        rooms.open.set()
        answer = await threads.run(lambda: "free")
        threads.close()
        return answer

    assert asyncio.run(story()) == "free"
    assert ran == []


def test_a_call_inherits_the_context_of_its_caller() -> None:
    """Context variables of the caller are visible in the thread, and changes there stay there."""
    caller: ContextVar[str] = ContextVar("caller", default="default")

    def read_caller() -> str:
        result = caller.get()
        caller.set("a thread")
        return result

    async def story() -> tuple[str, str]:
        threads = Threads(1, "room")
        caller.set("the caller")
        result = await threads.run(read_caller)
        threads.close()
        return result, caller.get()

    assert asyncio.run(story()) == ("the caller", "the caller")


def test_closed_threads_end() -> None:
    """After closing, threads end once they have nothing to do."""

    async def story() -> list[threading.Thread]:
        threads = Threads(3, "closing")
        await asyncio.gather(*(threads.run(lambda: None) for _ in range(3)))
        there = [thread for thread in threading.enumerate() if thread.name.startswith("closing")]
        threads.close()
        return there

    there = asyncio.run(story())
    for thread in there:
        thread.join(5)

    assert there
    assert not any(thread.is_alive() for thread in there)


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    """A call that never returns lets the process end all the same."""
    program = (
        "import asyncio, threading\n"
        "from ringrift.threads import Threads\n"
        "async def main():\n"
        "    begun = threading.Event()\n"
        "    Threads(1, 'room').run(lambda: (begun.set(), threading.Event().wait()))\n"
        "    await asyncio.to_thread(begun.wait)\n"
        "asyncio.run(main())\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], timeout=20, capture_output=True)

    assert ended.returncode == 0, ended.stderr.decode()
