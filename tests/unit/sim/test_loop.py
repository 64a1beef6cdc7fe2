"""SimLoop keeps asyncio's promises, one host apart from the other, and tells the same story for the same seed."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ringrift
from ringrift.sim.loop import EPOCH_SECONDS, SimLoop, run


async def story(loop: SimLoop) -> str:
    """A busy minute: queues, sets of tasks, time limits, a kill, a pause and a restart.  Returns its fingerprint."""
    rng = Random(7)
    mail: asyncio.Queue[str] = asyncio.Queue()

    async def work(name: str) -> None:
        while True:
            await asyncio.sleep(rng.random())
            await mail.put(name)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await mail.get()
            naps = {asyncio.create_task(asyncio.sleep(rng.random())) for _ in range(5)}
            for nap in naps:
                await nap
            done, rest = await asyncio.wait({loop.create_future() for _ in range(3)}, timeout=0.1)
            assert len(done) == 0
            for future in rest:
                future.cancel()

    for name in {"a", "b", "c"} | {"d"}:
        loop.clock(name)
    for name in sorted({"a", "b", "c"}):
        loop.spawn(name, work(name))
    await asyncio.sleep(20)
    loop.kill("a")
    loop.pause("b")
    await asyncio.sleep(20)
    loop.spawn("a", work("a"))
    loop.resume("b")
    await asyncio.sleep(20)
    return loop.fingerprint()


def test_time_jumps_to_the_next_timer() -> None:
    """A year of sleep takes no time, and ends exactly when it should."""

    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(365 * 86400)
        return loop.time()

    assert run(1, main) == 365 * 86400


def test_main_runs_on_the_loop_as_the_world() -> None:
    """The coroutine given to run sees the loop as the running one and is on host "world"."""

    async def main(loop: SimLoop) -> tuple[bool, str]:
        return asyncio.get_running_loop() is loop, loop.host

    assert run(1, main) == (True, "world")


def test_run_until_complete_takes_a_plain_coroutine() -> None:
    """The loop can be used without run, as any asyncio loop."""
    loop = SimLoop(Random(1))

    result = loop.run_until_complete(asyncio.sleep(5, "slept"))
    loop.close()

    assert (result, loop.time()) == ("slept", 5)


def test_a_host_runs_first_in_first_out() -> None:
    """Callbacks of one host run in the order in which they became ready, whatever the seed."""
    for seed in range(20):
        seen: list[int] = []

        async def note(loop: SimLoop, seen: list[int] = seen) -> None:
            for number in range(5):
                loop.call_soon(seen.append, number)
            for number in range(5, 10):
                loop.call_at(1.0, seen.append, number)
            await asyncio.sleep(2)

        async def main(loop: SimLoop) -> None:
            loop.spawn("other", note(loop, []))
            await loop.spawn("a", note(loop))

        run(seed, main)

        assert seen == list(range(10))


def test_the_seed_orders_the_hosts() -> None:
    """Between hosts every order happens, one per seed."""
    orders = set()

    async def main(loop: SimLoop) -> tuple[str, ...]:
        order: list[str] = []

        async def arrive() -> None:
            order.append(loop.host)

        await asyncio.gather(*(loop.spawn(host, arrive()) for host in "abc"))
        return tuple(order)

    for seed in range(60):
        orders.add(run(seed, main))

    assert len(orders) == 6


def test_the_same_seed_tells_the_same_story() -> None:
    """Two runs of a seed take the same steps at the same times; another seed takes others."""
    first = run(3, story)

    again, other = run(3, story), run(4, story)

    assert first == again
    assert first != other


def test_the_story_does_not_depend_on_the_hash_seed() -> None:
    """Processes that hash strings differently take the same steps."""
    folder = str(Path(ringrift.__path__[0]).parent)

    stories = [
        subprocess.run(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "42")
    ]

    assert stories == [run(5, story)] * 2


def test_tasks_started_by_a_host_are_on_that_host() -> None:
    """Tasks, task groups and callbacks inherit the host through the context."""

    async def child(loop: SimLoop) -> str:
        return loop.host

    async def parent(loop: SimLoop) -> set[str]:
        heard = loop.create_future()
        loop.call_later(1, lambda: heard.set_result(loop.host))
        async with asyncio.TaskGroup() as group:
            member = group.create_task(child(loop))
        return {await asyncio.create_task(child(loop)), member.result(), await heard}

    async def main(loop: SimLoop) -> set[str]:
        return await loop.spawn("a", parent(loop))

    assert run(1, main) == {"a"}


def test_a_killed_host_is_silent() -> None:
    """After a kill nothing of the host runs: no step, no timer, no ``finally:``, not even by garbage collection."""
    seen: list[str] = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_later(2, seen.append, "timer")
            asyncio.get_running_loop().call_soon(seen.append, "begun")
            await asyncio.sleep(2)
            seen.append("worked")
        finally:
            seen.append("cleaned up")

    async def main(loop: SimLoop) -> list[str]:
        task = loop.spawn("a", work())
        await asyncio.sleep(1)
        loop.kill("a")
        del task
        gc.collect()
        await asyncio.sleep(10)
        gc.collect()
        return list(seen)

    assert run(1, main) == ["begun"]


def test_a_host_may_kill_itself() -> None:
    """The step in which a host dies runs on to its next await, and no further."""
    seen: list[str] = []

    async def work(loop: SimLoop) -> None:
        loop.kill("a")
        loop.call_later(1, seen.append, "timer")
        task = asyncio.create_task(asyncio.sleep(1))
        seen.append("last words")
        await task
        seen.append("ghost")

    async def main(loop: SimLoop) -> float:
        loop.spawn("a", work(loop))
        await asyncio.sleep(5)
        return loop.time()

    assert run(1, main) == 5
    assert seen == ["last words"]


def test_a_shared_queue_passes_over_the_dead() -> None:
    """What is put on a queue after a kill goes to a waiter that lives."""
    got: list[tuple[str, int]] = []

    async def take(loop: SimLoop, queue: asyncio.Queue[int]) -> None:
        got.append((loop.host, await queue.get()))

    async def main(loop: SimLoop) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        loop.spawn("a", take(loop, queue))
        await asyncio.sleep(1)
        loop.spawn("b", take(loop, queue))
        await asyncio.sleep(1)
        loop.kill("a")
        queue.put_nowait(1)
        await asyncio.sleep(1)

    run(1, main)

    assert got == [("b", 1)]


def test_a_kill_harms_no_other_host() -> None:
    """A task, a gathering or a future that a living host has a part in is not cancelled with one dead waiter."""

    async def serve() -> str:
        await asyncio.sleep(5)
        return "served"

    async def wait(*awaitables: asyncio.Future[str]) -> list[str]:
        return [await awaitable for awaitable in awaitables]

    async def collect(*tasks: asyncio.Task[str]) -> None:
        await asyncio.gather(*tasks)

    async def main(loop: SimLoop) -> list[str]:
        single, gathered = loop.spawn("b", serve()), loop.spawn("b", serve())
        shared = loop.create_future()
        watcher = loop.spawn("b", wait(shared))
        for waiter in (wait(single), collect(gathered), wait(shared)):
            loop.spawn("a", waiter)
        await asyncio.sleep(1)
        loop.kill("a")
        shared.set_result("shared")
        return [await single, await gathered, *await watcher]

    assert run(1, main) == ["served", "served", "shared"]


def test_timers_of_the_dead_do_not_move_the_clock() -> None:
    """Time goes to the next timer of someone who lives."""

    async def main(loop: SimLoop) -> None:
        loop.spawn("a", asyncio.sleep(1000))
        await asyncio.sleep(1)
        loop.kill("a")
        await loop.create_future()

    with pytest.raises(RuntimeError, match=r"nothing is left to happen at 1\.0 s"):
        run(1, main)


def test_a_killed_host_can_start_again() -> None:
    """New tasks on the name of a dead host run, while its old ones stay dead."""
    seen: list[str] = []

    async def work(life: str) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(life)

    async def main(loop: SimLoop) -> None:
        loop.spawn("a", work("first"))
        await asyncio.sleep(1.5)
        loop.kill("a")
        loop.spawn("a", work("second"))
        await asyncio.sleep(2.5)
        loop.kill("a")
        await asyncio.sleep(10)

    run(1, main)

    assert seen == ["first", "second", "second"]


def test_a_paused_host_catches_up_in_order() -> None:
    """While a host is paused its callbacks and timers wait; on resume they run at once, oldest first."""
    seen: list[tuple[str, float]] = []

    async def main(loop: SimLoop) -> None:
        async def work() -> None:
            for delay in (3, 1, 2):
                loop.call_later(delay, lambda delay=delay: seen.append((f"timer {delay}", loop.time())))
            await asyncio.sleep(10)
            seen.append(("woke", loop.time()))

        loop.spawn("a", work())
        await asyncio.sleep(0.5)
        loop.pause("a")
        await asyncio.sleep(4.5)
        assert seen == []
        loop.resume("a")
        await asyncio.sleep(10)

    run(1, main)

    assert seen == [("timer 1", 5), ("timer 2", 5), ("timer 3", 5), ("woke", 10)]


def test_clocks_drift_without_a_jump() -> None:
    """A change of rate bends the monotonic clock and never breaks it; other hosts and the wall do not notice."""

    async def main(loop: SimLoop) -> list[float]:
        clock, readings = loop.clock("a"), []
        for rate in (1.0, 0.5, 2.0):
            loop.drift("a", rate)
            readings.append(clock.tick())
            await asyncio.sleep(10)
            readings.append(clock.tick())
        return [*readings, loop.clock("b").tick(), clock.now() - EPOCH_SECONDS]

    assert run(1, main) == [0, 10, 10, 15, 15, 35, 30, 30]


def test_the_wall_clock_can_jump() -> None:
    """A step of the wall clock moves now, and neither tick nor another host."""

    async def main(loop: SimLoop) -> tuple[float, float, float]:
        await asyncio.sleep(10)
        loop.step_wall("a", -3600)
        loop.kill("a")
        return loop.clock("a").now(), loop.clock("a").tick(), loop.clock("b").now()

    assert run(1, main) == (EPOCH_SECONDS + 10 - 3600, 10, EPOCH_SECONDS + 10)


@pytest.mark.parametrize("rate", [0.9, 0.999999, 1.0, 1.1])
def test_waiting_for_a_drifting_clock_ends(rate: float) -> None:
    """Sleeping for what is left until a slow clock has got there takes few steps: a timer always moves time."""

    async def main(loop: SimLoop) -> int:
        clock = loop.clock("a")
        await asyncio.sleep(1 / 3)
        loop.drift("a", rate)
        for _ in range(100):
            end = clock.tick() + 0.1
            while clock.tick() < end:
                await asyncio.sleep(end - clock.tick())
        return loop.steps

    assert run(1, main) < 100 * 2 * 20


def test_a_deadlock_names_who_waits() -> None:
    """When nothing can happen any more, the error tells host and name of the tasks that wait."""

    async def main(loop: SimLoop) -> None:
        loop.spawn("a", asyncio.Event().wait(), name="guard")
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match=r"at 0\.0 s; waiting: world/.*main-1, a/guard"):
        run(1, main)


def test_a_livelock_is_cut_short() -> None:
    """A simulation that never ends raises after its number of steps, and shows the last ones."""

    async def main(loop: SimLoop) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match=r"(?s)no end after 1000 steps.*world .*main 0\.0"):
        run(1, main, steps_max=1000)


def test_an_error_in_a_callback_ends_the_simulation() -> None:
    """No callback fails unheard: its exception comes out of run."""

    async def main(loop: SimLoop) -> None:
        loop.call_later(1, [].pop)
        await asyncio.sleep(10)

    with pytest.raises(IndexError):
        run(1, main)


def test_an_error_of_main_comes_out() -> None:
    """What main raises is raised by run."""

    async def main(loop: SimLoop) -> None:
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        run(1, main)


def test_the_executor_is_here_and_now() -> None:
    """Functions given to the executor run inline; their result or error arrives by the future, already done."""

    async def main(loop: SimLoop) -> tuple[bool, int, int]:
        future = loop.run_in_executor(None, divmod, 7, 2)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 7, 0)
        return future.done(), (await future)[1], await asyncio.to_thread(sum, [1, 2])

    assert run(1, main) == (True, 1, 3)


def test_tasks_and_futures_hash_by_their_number() -> None:
    """Sets of tasks and futures iterate in the order in which these were made."""

    async def main(loop: SimLoop) -> None:
        tasks = [asyncio.create_task(asyncio.sleep(0), name=str(number)) for number in range(50)]
        futures = [loop.create_future() for _ in range(50)]

        assert [hash(task) for task in tasks] == sorted(hash(task) for task in tasks)
        assert [hash(future) for future in futures] == sorted(hash(future) for future in futures)
        assert [task.get_name() for task in tasks] == [str(number) for number in range(50)]

    run(1, main)


def test_time_limits_work() -> None:
    """``timeout``, ``wait_for`` and ``wait`` give up at the right virtual moment."""

    async def main(loop: SimLoop) -> list[float]:
        moments = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(10)
        moments.append(loop.time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        moments.append(loop.time())
        _, pending = await asyncio.wait({asyncio.create_task(asyncio.sleep(60))}, timeout=5)
        moments.append(loop.time())
        await asyncio.gather(*pending)
        return [*moments, loop.time()]

    assert run(1, main) == [5, 10, 15, 70]


def test_locks_and_signals_work_across_hosts() -> None:
    """Lock, Semaphore, Condition and Event let the right number of hosts in."""
    inside, peak = 0, 0

    async def enter(door: asyncio.Lock | asyncio.Semaphore) -> None:
        nonlocal inside, peak
        async with door:
            inside += 1
            peak = max(peak, inside)
            await asyncio.sleep(1)
            inside -= 1

    async def main(loop: SimLoop) -> tuple[int, int, float]:
        nonlocal peak
        lock, semaphore, event, condition = asyncio.Lock(), asyncio.Semaphore(3), asyncio.Event(), asyncio.Condition()
        await asyncio.gather(*(loop.spawn(host, enter(lock)) for host in "abcdef"))
        locked, peak = peak, 0
        await asyncio.gather(*(loop.spawn(host, enter(semaphore)) for host in "abcdef"))
        waiter = loop.spawn("a", event.wait())
        loop.spawn("b", asyncio.sleep(1)).add_done_callback(lambda _: event.set())
        await waiter
        async with condition:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(condition.wait(), 1)
        return locked, peak, loop.time()

    assert run(1, main) == (1, 3, 6 + 2 + 1 + 1)


def test_a_task_group_cancels_its_members() -> None:
    """The failure of one member cancels the others and arrives as a group."""
    cancelled: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(1)
        raise KeyError("broken")

    async def stay() -> None:
        try:
            await asyncio.shield(asyncio.sleep(60))
        except asyncio.CancelledError:
            cancelled.append("stay")
            raise

    async def main(loop: SimLoop) -> float:
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(stay())
                group.create_task(fail())
        assert raised.group_contains(KeyError)
        return loop.time()

    assert run(1, main) == 1
    assert cancelled == ["stay"]


def test_the_end_is_quiet() -> None:
    """Closing the loop neither raises nor warns, whatever state its tasks were left in."""

    @asynccontextmanager
    async def slow_to_leave() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(1)
            await asyncio.sleep(1)

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(1)
        finally:
            await asyncio.sleep(1)

    async def nested() -> None:
        never_awaited = asyncio.sleep(1)
        async with slow_to_leave(), slow_to_leave():
            async for _ in numbers():
                await asyncio.sleep(1)
        await never_awaited

    async def stubborn() -> None:
        while True:
            with suppress(BaseException):
                await asyncio.sleep(1)

    async def complains() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            asyncio.get_running_loop().call_soon(print)

    async def main(loop: SimLoop) -> None:
        for host in "ab":
            for coro in (nested(), stubborn(), complains()):
                loop.spawn(host, coro)
        loop.spawn("c", asyncio.sleep(1))
        loop.kill("c")
        await asyncio.sleep(5)
        loop.kill("a")
        loop.spawn("a", asyncio.sleep(1))

    run(1, main)
    gc.collect()


ORDERS = st.lists(
    st.tuples(st.sampled_from("spawn kill pause resume wait".split()), st.sampled_from("abc")), max_size=30
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(orders=ORDERS, seed=st.integers(0, 1000))
def test_only_the_living_and_unpaused_run(orders: list[tuple[str, str]], seed: int) -> None:
    """After any sequence of orders, exactly the hosts that live and are not paused do any work."""

    async def main(loop: SimLoop) -> None:
        alive: dict[str, int] = {}
        paused: set[str] = set()
        ran: set[tuple[str, int]] = set()

        async def work(life: int) -> None:
            while True:
                ran.add((loop.host, life))
                await asyncio.sleep(0.5)

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
            await asyncio.sleep(1)
            assert ran == {(host, life) for host, life in alive.items() if host not in paused}

    run(seed, main)


if __name__ == "__main__":
    sys.stdout.write(run(5, story))
