"""The documented base of daemons: cycles, errors with a back-off, hooks, an end from anywhere, and health."""

import asyncio
import threading

import pytest

from compat.ears import on_a_loop
from ringrift_compat.cycling import BaseDaemon, DaemonConfig, StopRefused
from ringrift_compat.health import CoordinatorStatus, DaemonProtocol
from waiting import wait_until

QUICK = DaemonConfig(interval=0.001, backoff_first=0.001, backoff_max=0.002, stop_seconds_max=0.05)


class Daemon(BaseDaemon):
    """Goes round, and fails in the cycles that it is told of."""

    def __init__(self, config: DaemonConfig = QUICK, fails: range = range(0)) -> None:
        super().__init__(config)
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


@on_a_loop
async def test_it_goes_round_from_start_to_stop() -> None:
    """It runs on the loop where it was started, is stopped once, and may be started again."""
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


@on_a_loop
async def test_an_error_is_counted_and_the_next_cycle_comes() -> None:
    """Errors in a row back off longer and longer; a good cycle ends the row."""
    daemon = Daemon(fails=range(1, 4))
    await daemon.start()
    await wait_until(lambda: daemon.cycle_count >= 6)
    await daemon.stop()

    stats = daemon.get_stats()
    assert (stats["error_count"], stats["consecutive_errors"], stats["last_error"]) == (3, 0, "ValueError: bad cycle")


@on_a_loop
async def test_the_back_off_doubles_up_to_its_limit() -> None:
    """Each further error in a row waits twice as long, and a good cycle waits for the interval of the class."""

    class Slow(Daemon):
        interval = 7.0

    daemon = Slow(DaemonConfig(backoff_first=1.0, backoff_max=5.0), fails=range(4))

    assert [await daemon._cycle() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 7.0]


@on_a_loop
async def test_health_follows_the_recent_cycles() -> None:
    """Few failures are trouble, many are illness, and good cycles heal."""
    daemon = Daemon(DaemonConfig(interval=3600.0), fails=range(3, 7))
    await daemon.start()
    await wait_until(lambda: daemon.cycle_count == 1)
    found = [daemon.health_check().status.value]
    for _ in range(25):
        await daemon._cycle()
        found.append(daemon.health_check().status.value)
    await daemon.stop()

    # One of four failed, then two of five, three of six, four of seven; from then on there is one good one more.
    assert found[:7] == ["running"] * 3 + ["degraded"] * 3 + ["error"]
    assert found[7:20] == ["degraded"] * 12 + ["running"]
    assert found[-1] == "running"


@on_a_loop
async def test_a_cycle_that_hangs_is_found_and_ended() -> None:
    """Its health says so while it hangs, and a stop cancels it."""
    began, config = asyncio.Event(), DaemonConfig(cycle_seconds_max=0.0, stop_seconds_max=0.05)

    class Hanging(Daemon):
        async def _run_cycle(self) -> None:
            began.set()
            await asyncio.Event().wait()

    daemon = Hanging(config)
    await daemon.start()
    await began.wait()
    health = daemon.health_check()
    await daemon.stop()

    assert (bool(health), "hang" in health.message) == (False, True)
    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])


@on_a_loop
async def test_one_that_cannot_be_stopped_is_no_success() -> None:
    """Whoever stops a cycle that swallows its cancellation is told."""
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


@on_a_loop
async def test_who_waits_and_is_cancelled_ends_it() -> None:
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


@on_a_loop
async def test_it_may_end_itself() -> None:
    """A cycle that stops its own daemon is the last one, and who waits is told."""

    class Once(Daemon):
        async def _run_cycle(self) -> None:
            await self.stop()

    daemon = Once()
    await daemon.start()
    await asyncio.wait_for(daemon.wait_for_shutdown(), 5)

    assert (daemon.cycle_count, daemon.is_running) == (1, False)


@on_a_loop
async def test_it_can_be_stopped_from_another_loop() -> None:
    """A thread with a loop of its own stops it, and it ends on its own loop."""
    daemon = Daemon()
    await daemon.start()
    thread = threading.Thread(target=lambda: asyncio.run(daemon.stop()))
    thread.start()
    await asyncio.to_thread(thread.join)

    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])


@on_a_loop
async def test_a_loop_that_is_closed_at_once_leaves_nobody_waiting() -> None:
    """Who waits on another loop finds that the daemon cannot run any more; one that stands still refuses the stop."""
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

    await asyncio.wait_for(waiting, 5)
    assert not daemon.is_running


def test_it_ends_with_its_loop() -> None:
    """A loop that ends takes it along, with its hook; it does not run any more, and can be started on another."""
    daemon = Daemon()
    asyncio.run(daemon.start())
    assert (daemon.is_running, daemon.hooks) == (False, ["start", "stop"])

    async def again() -> None:
        await daemon.start()
        await daemon.stop()

    asyncio.run(again())
    assert daemon.hooks == ["start", "stop"] * 2


@on_a_loop
async def test_a_start_that_fails_is_raised() -> None:
    """Then it does not run, and the next start tries again."""

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
