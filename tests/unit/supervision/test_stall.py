"""A blocked event loop is noticed from outside the loop, and the task that blocks it is named."""

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.health import Status
from ringrift.supervision import hang_detector
from ringrift.supervision.hang_detector import _PLACE_CHARACTERS_MAX, CheckIntervals, _place, _StallWatch
from unit.supervision.watched import PARTS, health, serving, supervisor, ticking, undisturbed
from unit.work.world import World, play
from wait import wait_until

LIMIT_SECONDS = 0.1
CULPRIT = "here:culprit"
BLOCKED_SECONDS_MAX = 5.0


@contextmanager
def logged(task: str) -> Iterator[list[str]]:
    """The messages about stalls by *task*, from the moment they are logged."""
    messages: list[str] = []

    def record(entry: logging.LogRecord) -> bool:
        if f" by {task} at " in entry.getMessage():  # on a busy machine any task may block the loop
            messages.append(entry.getMessage())
        return True

    hang_detector.log.addFilter(record)
    try:
        yield messages
    finally:
        hang_detector.log.removeFilter(record)


def test_a_blocked_loop_is_reported_while_it_is_blocked() -> None:
    """The watch logs the task and the line while they block the loop, and reports the whole length afterwards."""
    ends: list[tuple[str, str, float]] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        watch = _StallWatch(SystemClock(), LIMIT_SECONDS, lambda *stall: ends.append(stall))

        async def block_the_loop() -> None:
            blocked = threading.Event()
            for _ in range(int(BLOCKED_SECONDS_MAX / LIMIT_SECONDS)):
                if messages:
                    return
                blocked.wait(LIMIT_SECONDS)
            raise AssertionError("no stall was logged")

        await loop.create_task(block_the_loop(), name=CULPRIT)
        await wait_until(lambda: any(task == CULPRIT for task, _, _ in ends))
        watch.stop()

    with logged(CULPRIT) as messages:
        asyncio.run(story())

    [message], [seconds] = messages, [seconds for task, _, seconds in ends if task == CULPRIT]
    assert "test_stall.py" in message
    assert message.endswith("in block_the_loop")
    assert seconds >= LIMIT_SECONDS


def test_a_busy_loop_that_answers_is_left_in_peace() -> None:
    """Many short steps are not one long one."""
    stalls: list[tuple[str, str, float]] = []

    async def story() -> None:
        watch = _StallWatch(SystemClock(), BLOCKED_SECONDS_MAX, lambda *stall: stalls.append(stall))
        for _ in range(1000):
            await asyncio.sleep(0)
        watch.stop()

    asyncio.run(story())

    assert stalls == []


def test_a_watch_ends_with_its_loop() -> None:
    """A closed loop takes no calls: the thread ends, without an error."""

    async def story() -> _StallWatch:
        return _StallWatch(SystemClock(), LIMIT_SECONDS, lambda *stall: None)

    watch = asyncio.run(story())
    watch._thread.join(BLOCKED_SECONDS_MAX)

    assert not watch._thread.is_alive()


def test_a_code_location_is_bounded() -> None:
    """A path of any length is cut."""
    space: dict[str, Any] = {"sys": sys}
    code = compile("def f():\n    return sys._getframe()", "/x" * 1000 + ".py", "exec")
    function = type(lambda: None)(code.co_consts[0], space, "f")

    assert len(_place(function())) == _PLACE_CHARACTERS_MAX
    assert _place(None) == "an unknown place"


def test_a_daemon_that_blocks_the_loop_is_named_in_its_health(tmp_path: Path) -> None:
    """It is degraded with the line that blocked; the others, which could not run, are not blamed."""
    noticed = threading.Event()

    def notice(record: logging.LogRecord) -> bool:
        if "by here:rude" in record.getMessage():
            noticed.set()
        return True

    async def story(world: World) -> None:
        sup = supervisor(world, clock=SystemClock(), intervals=CheckIntervals(stall_seconds_max=LIMIT_SECONDS))

        async def blocks() -> None:
            assert noticed.wait(BLOCKED_SECONDS_MAX)

        async with sup.run(
            [serving("sound"), ticking("rude", blocks), serving("behind", after=("rude",))], PARTS, "full"
        ):
            await wait_until(lambda: health(sup, "rude").status is Status.DEGRADED)

            assert health(sup, "rude").reason.startswith("blocked the event loop for ")
            assert health(sup, "rude").reason.endswith("in blocks")
            assert (sup.status("rude").stalls, sup.status("rude").failures) == (1, 0)
            assert undisturbed(sup, "sound", "behind")

    hang_detector.log.addFilter(notice)
    try:
        play(tmp_path, story)
    finally:
        hang_detector.log.removeFilter(notice)
