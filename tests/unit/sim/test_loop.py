"""SimLoop keeps asyncio's promises, keeps hosts apart, and takes the same steps for the same seed."""

import asyncio
import gc
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ringrift
from ringrift.sim.loop import _EPOCH_SECONDS, _HOST, SimLoop, run


async def elapse(seconds: float) -> None:
    """Let virtual time go by; this loop never really sleeps."""
    await asyncio.sleep(seconds)


async def work(loop: SimLoop, mail: asyncio.Queue[str], rng: Random) -> None:
    """Use everything that could leak the order of a hash table, for ever."""
    while True:
        await elapse(rng.random())
        await mail.put(_HOST.get().host)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await mail.get()
        for nap in {asyncio.create_task(elapse(rng.random())) for _ in range(5)}:
            await nap
        _, rest = await asyncio.wait({loop.create_future() for _ in range(3)}, timeout=0.1)
        for future in rest:
            loop.call_soon(future.set_result, None)
            await future


async def story(loop: SimLoop) -> str:
    """A busy minute with a kill, a pause and a restart.  Returns its fingerprint."""
    mail: asyncio.Queue[str] = asyncio.Queue()
    for host in sorted({"a", "b", "c"}):
        loop.spawn(host, work(loop, mail, Random(host)))
    await elapse(20)
    loop.kill("a")
    loop.pause("b")
    await elapse(20)
    loop.spawn("a", work(loop, mail, Random("a")))
    loop.resume("b")
    await elapse(20)
    return loop.fingerprint()


def test_time_jumps_to_the_next_timer() -> None:
    """A year goes by at once, and ends exactly when it should."""

    async def main(loop: SimLoop) -> tuple[bool, str, float]:
        await elapse(365 * 86400)
        return asyncio.get_running_loop() is loop, _HOST.get().host, loop.time()

    assert run(1, main) == (True, "world", 365 * 86400)


@pytest.mark.parametrize("seed", range(10))
def test_a_host_runs_first_in_first_out(seed: int) -> None:
    """Callbacks of one host run in the order in which they became ready, for every seed."""
    seen: list[int] = []

    async def note(loop: SimLoop, into: list[int]) -> None:
        for number in range(5):
            loop.call_soon(into.append, number)
        for number in range(5, 10):
            loop.call_at(1.0, into.append, number)
        await elapse(2)

    async def main(loop: SimLoop) -> None:
        loop.spawn("other", note(loop, []))
        await loop.spawn("a", note(loop, seen))

    run(seed, main)

    assert seen == list(range(10))


def test_the_seed_orders_the_hosts() -> None:
    """Between hosts every order happens, one per seed."""

    async def main(loop: SimLoop) -> tuple[str, ...]:
        order: list[str] = []

        async def arrive() -> None:
            order.append(_HOST.get().host)

        await asyncio.gather(*(loop.spawn(host, arrive()) for host in "abc"))
        return tuple(order)

    assert len({run(seed, main) for seed in range(40)}) == 6


def test_the_same_seed_takes_the_same_steps() -> None:
    """Two runs of a seed take the same steps at the same times; another seed takes others."""
    first, again, other = (run(seed, story) for seed in (3, 3, 4))

    assert first == again
    assert first != other


def test_the_steps_do_not_depend_on_the_hash_seed() -> None:
    """Processes that hash strings differently take the same steps."""
    settled = {**os.environ, "PYTHONPATH": str(Path(ringrift.__path__[0]).parent)}

    stories = [
        subprocess.check_output([sys.executable, __file__], env={**settled, "PYTHONHASHSEED": seed}, text=True)
        for seed in ("0", "42")
    ]

    assert stories == [run(5, story)] * 2


def test_tasks_of_a_host_run_on_that_host() -> None:
    """Tasks, task groups and callbacks inherit the host through the context."""

    async def child(loop: SimLoop) -> str:
        return _HOST.get().host

    async def parent(loop: SimLoop) -> set[str]:
        reply = loop.create_future()
        loop.call_later(1, lambda: reply.set_result(_HOST.get().host))
        async with asyncio.TaskGroup() as group:
            member = group.create_task(child(loop))
        return {await asyncio.create_task(child(loop)), member.result(), await reply}

    async def main(loop: SimLoop) -> set[str]:
        return await loop.spawn("a", parent(loop))

    assert run(1, main) == {"a"}


def test_a_killed_host_is_silent() -> None:
    """After a kill nothing of the host runs: no step, no timer, no ``finally:``, not even by garbage collection."""
    seen: list[str] = []

    async def begin(loop: SimLoop) -> None:
        try:
            loop.call_later(2, seen.append, "timer")
            loop.call_soon(seen.append, "begun")
            await loop.create_future()
        finally:
            seen.append("cleaned up")

    async def main(loop: SimLoop) -> list[str]:
        loop.spawn("a", begin(loop))
        await elapse(1)
        loop.kill("a")
        gc.collect()
        await elapse(10)
        gc.collect()
        return list(seen)

    assert run(1, main) == ["begun"]


def test_a_shared_queue_passes_over_the_dead() -> None:
    """An item put on a queue after a kill goes to a live waiter."""
    got: list[tuple[str, int]] = []

    async def take(loop: SimLoop, queue: asyncio.Queue[int]) -> None:
        got.append((_HOST.get().host, await queue.get()))

    async def main(loop: SimLoop) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        for host in "ab":
            loop.spawn(host, take(loop, queue))
            await elapse(1)
        loop.kill("a")
        queue.put_nowait(1)
        await elapse(1)

    run(1, main)

    assert got == [("b", 1)]


def test_a_kill_harms_no_other_host() -> None:
    """A task, a gathering or a future that a living host has a part in is not cancelled with a dead waiter."""

    async def wait(*awaitables: Any) -> None:
        await asyncio.gather(*awaitables) if len(awaitables) > 1 else await awaitables[0]

    async def main(loop: SimLoop) -> list[bool]:
        shared = loop.create_future()
        living = [loop.spawn("b", elapse(5)) for _ in range(3)] + [loop.spawn("b", wait(shared))]
        for waiter in (wait(living[0]), wait(living[1], living[2]), wait(shared)):
            loop.spawn("a", waiter)
        await elapse(1)
        loop.kill("a")
        shared.set_result(None)
        await asyncio.wait(living)
        return [task.cancelled() for task in living]

    assert run(1, main) == [False] * 4


def test_a_paused_host_catches_up_in_order() -> None:
    """While a host is paused its callbacks and timers wait; on resume they run at once, oldest first."""
    seen: list[tuple[str, float]] = []

    async def main(loop: SimLoop) -> None:
        async def nap(seconds: float) -> None:
            await elapse(seconds)
            seen.append((f"slept {seconds}", loop.time()))

        for seconds in (3, 1, 2, 10):
            loop.spawn("a", nap(seconds))
        await elapse(0.5)
        loop.pause("a")
        await elapse(4.5)
        assert seen == []
        loop.resume("a")
        await elapse(10)

    run(1, main)

    assert seen == [("slept 1", 5), ("slept 2", 5), ("slept 3", 5), ("slept 10", 10)]


def test_clocks_drift_and_jump() -> None:
    """A change of rate bends a host's monotonic clock, a step breaks its wall clock, and other hosts do not notice."""

    async def main(loop: SimLoop) -> list[float]:
        clock, readings = loop.clock("a"), []
        for rate in (1.0, 0.5, 2.0):
            loop.drift("a", rate)
            readings.append(clock.tick())
            await elapse(10)
            readings.append(clock.tick())
        loop.clock("a").offset -= 3600
        loop.kill("a")
        return [*readings, *(reading for host in "ab" for reading in (loop.clock(host).tick(), loop.clock(host).now()))]

    assert run(1, main) == [0, 10, 10, 15, 15, 35, 35, _EPOCH_SECONDS + 30 - 3600, 30, _EPOCH_SECONDS + 30]


@pytest.mark.parametrize("rate", [0.9, 0.999999, 1.0, 1.1])
def test_waiting_for_a_drifting_clock_ends(rate: float) -> None:
    """Sleeping for what is left until a slow clock has got there takes few steps: a timer always moves time."""

    async def main(loop: SimLoop) -> int:
        clock = loop.clock("a")
        await elapse(1 / 3)
        loop.drift("a", rate)
        for _ in range(100):
            end = clock.tick() + 0.1
            while (left := end - clock.tick()) > 0:
                await elapse(left)
        return loop.steps

    assert run(1, main) < 100 * 2 * 20


def test_a_deadlock_names_the_waiting_tasks() -> None:
    """When nothing can happen any more, also because dead hosts have no timers, the error names the waiting tasks."""

    async def main(loop: SimLoop) -> None:
        loop.spawn("a", elapse(1000))
        loop.spawn("b", asyncio.Event().wait(), name="guard")
        await elapse(1)
        loop.kill("a")
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match=r"nothing is left to happen at 1\.0 s; waiting: world/.*main-1, b/guard$"):
        run(1, main)


def test_a_livelock_is_cut_short() -> None:
    """A simulation that never ends raises after its number of steps, and shows the last ones."""

    async def main(loop: SimLoop) -> None:
        while True:
            await elapse(0)

    with pytest.raises(RuntimeError, match=r"(?s)no end after 1000 steps.*world .*main 0\.0"):
        run(1, main, steps_max=1000)


def test_an_error_in_a_callback_ends_the_simulation() -> None:
    """No callback fails unheard: its exception comes out of run, with a note of where and when."""

    async def main(loop: SimLoop) -> None:
        loop.call_later(1, [].pop)
        await elapse(10)

    with pytest.raises(IndexError) as raised:
        run(1, main)

    assert raised.value.__notes__ == ["raised on world by list.pop at 1.0 s"]


def test_the_tools_of_asyncio_work() -> None:
    """Locks, semaphores, events, time limits, threads and task groups work on this loop, across hosts."""

    async def enter(door: asyncio.Lock | asyncio.Semaphore) -> None:
        async with door:
            await elapse(1)

    async def main(loop: SimLoop) -> list[float]:
        moments = []
        for door in (asyncio.Lock(), asyncio.Semaphore(3)):
            await asyncio.gather(*(loop.spawn(host, enter(door)) for host in "abcdef"))
            moments.append(loop.time())
        event = asyncio.Event()
        loop.spawn("b", elapse(1)).add_done_callback(lambda _: event.set())
        await asyncio.shield(loop.spawn("a", event.wait()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), asyncio.TaskGroup() as group:
                group.create_task(elapse(60))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 7, 0)
        return [*moments, loop.time(), await asyncio.to_thread(sum, [1, 2])]

    assert run(1, main) == [6, 8, 10, 3]


ORDERS = st.lists(st.tuples(st.sampled_from(("spawn", "kill", "pause", "resume")), st.sampled_from("abc")), max_size=30)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(orders=ORDERS, seed=st.integers(0, 1000))
def test_only_live_and_unpaused_hosts_run(orders: list[tuple[str, str]], seed: int) -> None:
    """After any sequence of commands, exactly the live and unpaused hosts do any work."""

    async def main(loop: SimLoop) -> None:
        alive: dict[str, int] = {}
        paused: set[str] = set()
        ran: set[tuple[str, int]] = set()

        async def work(life: int) -> None:
            while True:
                ran.add((_HOST.get().host, life))
                await elapse(0.5)

        for number, (order, host) in enumerate(orders):
            match order:
                case "spawn":
                    loop.spawn(host, work(alive.setdefault(host, number)))
                case "kill":
                    loop.kill(host)
                    alive.pop(host, None)
                    paused.discard(host)
                case "pause":
                    loop.pause(host)
                    paused.add(host)
                case "resume":
                    loop.resume(host)
                    paused.discard(host)
            ran.clear()
            await elapse(1)
            assert ran == {(host, life) for host, life in alive.items() if host not in paused}

    run(seed, main)


if __name__ == "__main__":
    sys.stdout.write(run(5, story))
