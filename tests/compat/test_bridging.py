"""The documented bridges: blocking calls from a loop, coroutines from threads, limits, and an end."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from compat.ears import home, on_a_loop
from ringrift.kernel.errors import Backpressure
from ringrift_compat import bridging
from ringrift_compat.ambient import ambient
from ringrift_compat.bootstrap import bootstrap_coordination
from ringrift_compat.bridging import (
    AsyncBridgeManager,
    BridgeClosed,
    get_bridge_manager,
    get_integration_status,
)
from ringrift_compat.events import get_router
from waiting import wait_until

__all__ = ["home"]
WORD: ContextVar[str] = ContextVar("word", default="none")


@on_a_loop
async def test_a_blocking_call_leaves_the_loop_alone() -> None:
    """It runs in a thread with the context of its caller, and what it raises is raised."""
    bridge = get_bridge_manager()
    here, go_on = threading.get_ident(), threading.Event()
    WORD.set("mine")

    def block(*, seconds: float) -> tuple[int, str]:
        assert go_on.wait(seconds)
        return threading.get_ident(), WORD.get()

    def fail() -> None:
        raise LookupError("nothing")

    running = asyncio.create_task(bridge.run_sync(block, seconds=5.0))
    await wait_until(lambda: bridge.get_stats()["active"] == 1)
    go_on.set()
    thread, word = await running
    assert (thread != here, word) == (True, "mine")
    with pytest.raises(LookupError, match="nothing"):
        await bridge.run_sync(fail)
    assert (bridge.get_stats()["completed"], bridge.get_stats()["failed"]) == (1, 1)


@on_a_loop
async def test_calls_are_limited() -> None:
    """So many run at once, others wait, one more than may wait is refused, who is cancelled gives its place back."""
    bridge, go_on, running = AsyncBridgeManager(max_workers=2), threading.Event(), []

    def block(number: int) -> int:
        running.append(number)
        assert go_on.wait(10)
        return number

    tasks = [asyncio.create_task(bridge.run_sync(block, number)) for number in range(bridging.WAITING_MAX)]
    await wait_until(lambda: len(running) == 2)
    with pytest.raises(Backpressure):
        await bridge.run_sync(block, -1)
    for task in tasks[10:]:
        task.cancel()
    await asyncio.wait(tasks[10:])
    assert bridge.get_stats()["active"] == 10
    go_on.set()

    assert await asyncio.gather(*tasks[:10]) == list(range(10))
    assert sorted(running) == list(range(10))
    assert bridge.get_stats()["active"] == 0


@on_a_loop
async def test_a_thread_awaits_on_the_bound_loop() -> None:
    """Its coroutine runs where the bridge was bound; on that loop, which would wait for itself, it is refused."""
    bridge, home_loop = AsyncBridgeManager(), asyncio.get_running_loop()
    bridge.bind()

    async def where() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    assert await asyncio.to_thread(lambda: bridge.run_async(where())) is home_loop
    with pytest.raises(RuntimeError, match="wait"):
        bridge.run_async(where())


def test_without_a_loop_the_ambient_one_serves() -> None:
    """It also serves once the bound loop has closed; what takes too long is cancelled."""
    bridge = AsyncBridgeManager()

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def bind() -> None:
        bridge.bind()

    assert bridge.run_async(where()) is ambient.node().loop
    asyncio.run(bind())
    assert bridge.run_async(where()) is ambient.node().loop
    with pytest.raises(TimeoutError):
        bridge.run_async(asyncio.Event().wait(), timeout=0.01)
    asyncio.run(wait_until(lambda: bridge.get_stats()["active"] == 0))
    assert bridge.get_stats()["failed"] == 1


@on_a_loop
async def test_a_shutdown_waits_and_then_refuses() -> None:
    """What is under way comes to its end, what was registered is closed, and the next one who asks gets another."""
    bridge, go_on, closed = get_bridge_manager(), threading.Event(), []

    async def close() -> None:
        closed.append("bridge")

    bridge.register_bridge("mine", "value", close)
    assert (bridge.get_bridge("mine"), bridge.get_bridge("other")) == ("value", None)
    running = asyncio.create_task(bridge.run_sync(go_on.wait, 10))
    await wait_until(lambda: bridge.get_stats()["active"] == 1)
    ending = asyncio.create_task(bridge.shutdown())
    await wait_until(lambda: bridge.is_closed)
    with pytest.raises(BridgeClosed):
        await bridge.run_sync(print)
    with pytest.raises(BridgeClosed):
        await asyncio.to_thread(bridge.run_async, asyncio.sleep(0))
    assert not closed
    go_on.set()

    assert (await ending, await running, closed) == (True, True, ["bridge"])
    assert get_bridge_manager() is not bridge


@on_a_loop
async def test_a_shutdown_says_when_something_goes_on() -> None:
    """It does not wait for ever, and does not call that a success; a close that fails is none either."""
    bridge, other, go_on = AsyncBridgeManager(), AsyncBridgeManager(), threading.Event()
    other.register_bridge("mine", None, lambda: 1 / 0)
    running = asyncio.create_task(bridge.run_sync(go_on.wait, 10))
    await wait_until(lambda: bridge.get_stats()["active"] == 1)

    assert (await bridge.shutdown(timeout=0.01), await other.shutdown()) == (False, False)
    go_on.set()
    assert await running


def threads() -> set[threading.Thread]:
    """The threads of ours that live."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("ringrift-")}


def test_the_end_of_the_node_ends_its_bridges() -> None:
    """Every thread that the node of a program has begun ends with it, also those of a bridge that came later."""
    before, closed = threads(), list[str]()
    get_bridge_manager().register_bridge("first", None, lambda: closed.append("first"))
    asyncio.run(get_bridge_manager().shutdown())
    second = get_bridge_manager()
    second.register_bridge("second", None, lambda: closed.append("second"))
    asyncio.run(second.run_sync(threading.get_ident))
    get_router().subscribe("EVENT_A", print)
    get_router().publish_sync("EVENT_A", {"n": 1})
    bootstrap_coordination()
    begun = threads() - before
    assert {thread.name for thread in begun} >= {"ringrift-ambient", "ringrift-bridge-1", "ringrift-callback-1"}
    ambient.shutdown()

    assert second.is_closed
    assert closed == ["first", "second"]
    asyncio.run(wait_until(lambda: not begun & threads()))
    assert get_bridge_manager() is not second


def test_the_buses_are_one() -> None:
    """The status names the views of the one router, and where the log stands."""
    before = get_integration_status()
    get_router().publish_sync("EVENT_A", {"n": 1})
    after = get_integration_status()

    assert set(after["views"]) == {"data_bus", "stage_bus", "cross_process", "router"}
    assert after["position"] > before["position"]
    assert after["stats"]["total_events_routed"] == 1
