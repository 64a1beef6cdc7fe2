"""The documented base of daemons: cycles, errors with a back-off, hooks, an end from anywhere, and health."""

import asyncio
import threading

import pytest

from compat.subscribers import async_test
from ringrift.kernel.backoff import Backoff
from ringrift_compat.daemons.base_daemon import BaseDaemon, StopRefused
from ringrift_compat.health.protocols import CoordinatorStatus, DaemonProtocol
from wait import wait_until


class Daemon(BaseDaemon):
    """Runs cycles, and fails in the cycles listed in its constructor."""

    interval = 0.001
    backoff = Backoff(first_seconds=0.001, seconds_max=0.002, tries=1000)
    stop_seconds_max = 0.05

    def __init__(self, interval: float | None = None, fails: range = range(0)) -> None:
        super().__init__(interval=interval)
        self.hooks: list[str] = []
        self.fails = fails
        self.loops: set[int] = set()

    async def _on_start(self) -> None:
        self.hooks.append("start")

    def _on_stop(self) -> None:  # type: ignore[override]  # a plain hook works too
        self.hooks.append("stop")

    async def _run_cycle(self) -> None:
        self.loops.add(id(asyncio.get_running_loop()))
        if self.cycle_count in self.fails:
            raise ValueError("bad cycle")


@async_test
async def test_a_daemon_runs_cycles_from_start_to_stop() -> None:
    """It runs on the loop where it was started, stops once, and can be started again."""
    daemon = Daemon()
    assert isinstance(daemon, DaemonProtocol)
    assert (daemon.is_running, bool(daemon.health_check())) == (False, False)
    await daemon.start()
    await daemon.start()
    await wait_until(lambda: daemon.cycle_count >= 3)
    assert (daemon.is_running, bool(daemon.health_check()), daemon.uptime_seconds > 0) == (True, True, True)
    await daemon.stop()
    await daemon.stop()
    count = daemon.cycle_count
    await daemon.wait_for_shutdown()
    await daemon.start()
    await wait_until(lambda: daemon.cycle_count > count)
    await daemon.stop()

    assert daemon.hooks == ["start", "stop"] * 2
    assert daemon.loops == {id(asyncio.get_running_loop())}
    assert daemon.health_check().status is CoordinatorStatus.STOPPED


@async_test
async def test_an_error_is_counted_and_the_next_cycle_comes() -> None:
    """Errors in a row back off longer and longer; a good cycle ends the row."""
    daemon = Daemon(fails=range(1, 4))
    await daemon.start()
    await wait_until(lambda: daemon.cycle_count >= 6)
    await daemon.stop()

    stats = daemon.get_stats()
    assert (stats["error_count"], stats["consecutive_errors"], stats["last_error"]) == (3, 0, "ValueError: bad cycle")


@async_test
async def test_the_back_off_doubles_up_to_its_limit() -> None:
    """Each further error in a row waits twice as long, and a good cycle waits for the interval of the class."""

    class Slow(Daemon):
        interval = 7.0
        backoff = Backoff(first_seconds=1.0, seconds_max=5.0, tries=1000)

    daemon = Slow(fails=range(4))

    assert [await daemon._cycle() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 7.0]


@async_test
async def test_health_follows_the_recent_cycles() -> None:
    """Few failures are trouble, many are illness, and good cycles heal."""
    daemon = Daemon(3600.0, fails=range(3, 7))
    await daemon.start()
    await wait_until(lambda: daemon.cycle_count == 1)
    result = [daemon.health_check().status.value]
    for _ in range(25):
        await daemon._cycle()
        result.append(daemon.health_check().status.value)
    await daemon.stop()

    # One of four failed, then two of five, three of six, four of seven; from then on there is one good one more.
    assert result[:7] == ["running"] * 3 + ["degraded"] * 3 + ["error"]
    assert result[7:20] == ["degraded"] * 12 + ["running"]
    assert result[-1] == "running"


@async_test
async def test_a_hanging_cycle_is_detected_and_cancelled() -> None:
    """Its health reports the hang, and a stop cancels it."""
    began = asyncio.Event()

    class Hanging(Daemon):
        cycle_seconds_max = 0.0

        async def _run_cycle(self) -> None:
            began.set()
            await asyncio.Event().wait()

    daemon = Hanging()
    await daemon.start()
    await began.wait()
    health = daemon.health_check()
    await daemon.stop()

    assert (bool(health), "hang" in health.message) == (False, True)
    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])


@async_test
async def test_a_daemon_that_cannot_be_stopped_is_reported() -> None:
    """Stopping a cycle that swallows its cancellation returns a failure."""
    began, free = asyncio.Event(), asyncio.Event()

    class Stubborn(Daemon):
        async def _run_cycle(self) -> None:
            began.set()
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue

    daemon = Stubborn()
    await daemon.start()
    await began.wait()
    with pytest.raises(StopRefused, match="Stubborn"):
        await daemon.stop()
    assert daemon.is_running
    free.set()
    await daemon.stop()
    assert not daemon.is_running


@async_test
async def test_cancelling_the_waiter_ends_the_daemon() -> None:
    """The documented factory starts and waits: cancelling it leaves nothing behind."""
    daemon = Daemon()

    async def factory() -> None:
        await daemon.start()
        await daemon.wait_for_shutdown()

    task = asyncio.create_task(factory())
    await wait_until(lambda: daemon.cycle_count >= 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])


@async_test
async def test_a_daemon_may_stop_itself() -> None:
    """A cycle that stops its own daemon is the last one, and waiters are notified."""

    class Once(Daemon):
        async def _run_cycle(self) -> None:
            await self.stop()

    daemon = Once()
    await daemon.start()
    async with asyncio.timeout(5):
        await daemon.wait_for_shutdown()

    assert (daemon.cycle_count, daemon.is_running) == (1, False)


@async_test
async def test_a_daemon_can_be_stopped_from_another_loop() -> None:
    """A thread with its own loop stops it, and it ends on its own loop."""
    daemon = Daemon()
    await daemon.start()
    thread = threading.Thread(target=lambda: asyncio.run(daemon.stop()))
    thread.start()
    await asyncio.to_thread(thread.join)

    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])


@async_test
async def test_a_closed_loop_leaves_no_waiter_behind() -> None:
    """A waiter on another loop learns that the daemon cannot run any more; a loop that stands still refuses the
    stop."""
    daemon, loop = Daemon(), asyncio.new_event_loop()
    await asyncio.to_thread(loop.run_until_complete, daemon.start())
    waiting = asyncio.create_task(daemon.wait_for_shutdown())
    with pytest.raises(StopRefused):
        await daemon.stop()
    assert daemon.is_running
    task = daemon._task
    assert task is not None
    task.cancel()
    await asyncio.to_thread(loop.run_until_complete, asyncio.wait((task,)))
    loop.close()

    async with asyncio.timeout(5):
        await waiting
    assert not daemon.is_running


def test_a_daemon_ends_with_its_loop() -> None:
    """When the loop ends, the daemon's hook runs and it stops; it can be started on another loop."""
    daemon = Daemon()
    asyncio.run(daemon.start())
    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])

    async def again() -> None:
        await daemon.start()
        await daemon.stop()

    asyncio.run(again())
    assert daemon.hooks == ["start", "stop"] * 2


@async_test
async def test_a_failed_start_raises() -> None:
    """The daemon does not run, and the next start tries again."""

    class Late(Daemon):
        async def _on_start(self) -> None:
            await super()._on_start()
            if len(self.hooks) == 1:
                raise OSError("no port")

    daemon = Late.get_instance()
    with pytest.raises(OSError, match="no port"):
        await daemon.start()
    assert not daemon.is_running
    await daemon.start()
    assert daemon.is_running
    await daemon.stop()
    Late.reset_instance()
