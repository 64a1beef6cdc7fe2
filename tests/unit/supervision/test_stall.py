"""Who blocks the event loop is found from outside the loop, and named."""

import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Status
from ringrift.supervision import stall
from ringrift.supervision.lookout import Pace
from ringrift.supervision.stall import PLACE_CHARACTERS_MAX, Stall, StallWatch, place
from unit.supervision.watched import PARTS, health, serving, supervisor, ticking, undisturbed
from unit.work.world import World, play
from waiting import wait_until

LIMIT_SECONDS = 0.1
CULPRIT = "here:culprit"
BLOCKED_SECONDS_MAX = 5.0


def test_a_blocked_loop_is_seen_while_it_is_blocked() -> None:
    """The watch names the task and the line while they hold everybody up, and tells the whole length afterwards."""
    seen: list[Stall] = []
    over: list[Stall] = []
    noticed = threading.Event()

    def notice(stall: Stall) -> None:
        if stall.task == CULPRIT:  # a busy machine may hold up anybody
            seen.append(stall)
            noticed.set()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        watch = StallWatch(loop, SystemClock(), LIMIT_SECONDS, found=notice, over=over.append)
        watch.start()

        async def block_the_loop() -> None:
            assert noticed.wait(BLOCKED_SECONDS_MAX)

        await loop.create_task(block_the_loop(), name=CULPRIT)
        await wait_until(lambda: any(one.task == CULPRIT for one in over))
        watch.stop()

    asyncio.run(story())

    [found], [told] = seen, [one for one in over if one.task == CULPRIT]
    assert "test_stall.py" in found.place
    assert found.place.endswith("in block_the_loop")
    assert LIMIT_SECONDS <= found.seconds <= told.seconds


def test_a_busy_loop_that_answers_is_left_in_peace() -> None:
    """Many short steps are not one long one."""
    seen: list[Stall] = []

    async def story() -> None:
        watch = StallWatch(asyncio.get_running_loop(), SystemClock(), BLOCKED_SECONDS_MAX, found=seen.append)
        watch.start()
        for _ in range(1000):
            await asyncio.sleep(0)
        watch.stop()

    asyncio.run(story())

    assert seen == []


def test_a_watch_ends_with_its_loop() -> None:
    """A loop that is closed has no door to knock at: the thread goes, and nobody hears of it."""

    async def story() -> StallWatch:
        watch = StallWatch(asyncio.get_running_loop(), SystemClock(), LIMIT_SECONDS)
        watch.start()
        return watch

    watch = asyncio.run(story())
    watch._thread.join(BLOCKED_SECONDS_MAX)

    assert not watch._thread.is_alive()


def test_a_place_has_a_bound() -> None:
    """A path may be as long as it likes."""
    space: dict[str, Any] = {"sys": sys}
    code = compile("def f():\n    return sys._getframe()", "/x" * 1000 + ".py", "exec")
    made = type(lambda: None)(code.co_consts[0], space, "f")

    assert len(place(made())) == PLACE_CHARACTERS_MAX
    assert place(None) == "an unknown place"


def test_a_daemon_that_blocks_the_loop_is_named_in_its_health(tmp_path: Path) -> None:
    """It is degraded with the line that blocked; the others, who could not move, are not blamed."""
    noticed = threading.Event()

    def hear(record: logging.LogRecord) -> bool:
        if "by here:rude" in record.getMessage():
            noticed.set()
        return True

    async def story(world: World) -> None:
        sup = supervisor(world, clock=SystemClock(), pace=Pace(stall_seconds_max=LIMIT_SECONDS))

        async def blocks() -> None:
            assert noticed.wait(BLOCKED_SECONDS_MAX)

        async with sup.run(
            [serving("sound"), ticking("rude", blocks), serving("behind", after=("rude",))], PARTS, "full"
        ):
            await wait_until(lambda: health(sup, "rude").status is Status.DEGRADED)

            assert health(sup, "rude").reason.startswith("held up the event loop for ")
            assert health(sup, "rude").reason.endswith("in blocks")
            assert (sup.report("rude").stalls, sup.report("rude").failures) == (1, 0)
            assert undisturbed(sup, "sound", "behind")

    stall.log.addFilter(hear)
    try:
        play(tmp_path, story)
    finally:
        stall.log.removeFilter(hear)
