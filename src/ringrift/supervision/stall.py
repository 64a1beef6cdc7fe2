"""StallWatch: a thread that finds out when the event loop is held up, and which task holds it up.

Code that blocks cannot be found from inside the loop that it blocks.  The thread knocks at the loop's door and waits
for an answer; when none comes in time it looks which task runs and where it stands.  A simulated loop has no threads
and gets no such watch.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType

from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value

LOOK_SECONDS = 0.25
"""Between an answer and the next knock."""
PLACE_CHARACTERS_MAX = 200
FOREIGN = ("asyncio", "threading", "selectors", "concurrent")
"""Modules in which a blocking call may end, but in which nobody looks for the cause."""
log = logging.getLogger(__name__)


class Stall(Value):
    """The loop did not answer: the task that ran, where it stood, and how long it took until the loop answered."""

    task: str
    place: str
    seconds: float


class StallWatch:
    """Watches one loop from a thread of its own, from :meth:`start` until :meth:`stop`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, seconds_max: float, *,
        found: Callable[[Stall], None] | None = None, over: Callable[[Stall], None] | None = None,
    ) -> None:  # fmt: skip
        """*found* is called in the thread while the loop is still held up, *over* in the loop when it answers again."""
        self._loop, self._clock, self._seconds_max = loop, clock, seconds_max
        self._found, self._over = found, over
        self._ending = threading.Event()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="ringrift-stall", daemon=True)

    def start(self) -> None:
        """Begin; to be called in the loop's own thread."""
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """End.  Does not wait: the thread may be knocking at this very loop."""
        self._ending.set()

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            answered = threading.Event()
            begun = self._clock.tick()
            if not self._knock(answered.set):
                return
            if answered.wait(self._seconds_max):
                continue
            stall = self._look(begun)
            log.error("the event loop has been held up for %.1f s by %s at %s", stall.seconds, stall.task, stall.place)
            if self._found is not None:
                self._found(stall)
            while not answered.wait(self._seconds_max):
                if self._ending.is_set():
                    return
            self._tell(Stall(task=stall.task, place=stall.place, seconds=self._clock.tick() - begun))

    def _tell(self, stall: Stall) -> None:
        over = self._over
        if over is not None:
            self._knock(lambda: over(stall))

    def _knock(self, call: Callable[[], None]) -> bool:
        """Have the loop call *call*; whether there is a loop still."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # it was closed
            return False
        return True

    def _look(self, begun: float) -> Stall:
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread)
        name = "no task" if task is None else task.get_name()
        return Stall(task=name, place=place(frame), seconds=self._clock.tick() - begun)


def place(frame: FrameType | None) -> str:
    """The innermost line of *frame* that is not the loop's own or a lock's: file, line and function."""
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in FOREIGN and frame.f_back:
        frame = frame.f_back
    if frame is None:
        return "an unknown place"
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"[-PLACE_CHARACTERS_MAX:]
