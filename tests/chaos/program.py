"""One program that uses the home beside the nodes: ``python -m chaos.program NAME FOLDER`` publishes until SIGTERM.

It uses the documented API.  On SIGUSR1 it forks children that publish as well, while its own store is open and busy.
"""

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from chaos.switches import History
from ringrift.kernel.errors import RingriftError
from ringrift_compat.events.event_router import get_router

PUBLISH_SECONDS = 0.1
CHILDREN, EVENTS_PER_CHILD = 3, 20
CHILD_TRIES_MAX = 200
CHILD_SECONDS_MAX = 90.0


def _publish(name: str, number: int, history: History) -> bool:
    """Publish one event; whether it was acknowledged."""
    history.add("try", f"{name}-{os.getpid()}-{number}")
    try:
        event = get_router().publish_sync("CHAOS", {"program": name, "pid": os.getpid(), "number": number})
    except (RingriftError, OSError) as error:
        history.add("refused", f"{name}-{os.getpid()}-{number}", type(error).__name__)
        return False
    history.add("ack", event.event_id)
    return True


def _run_child(name: str, folder: Path) -> None:
    """Publish some events in a forked child, each until it is acknowledged, and end as any program does."""
    history, pause = History(folder / f"{name}-{os.getpid()}.history"), threading.Event()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    number = 0
    for attempt in range(CHILD_TRIES_MAX):
        number += _publish(name, attempt, history)
        if number == EVENTS_PER_CHILD:
            history.add("child_done", name)
            return
        pause.wait(PUBLISH_SECONDS / 10)
    history.add("child_failed", name)


def main(name: str, folder: Path) -> None:
    """Publish until SIGTERM."""
    stop, requested = threading.Event(), threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        (requested if number == signal.SIGUSR1 else stop).set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGUSR1, on_signal)
    history = History(folder / f"{name}-{os.getpid()}.history")
    fork = multiprocessing.get_context("fork")
    history.add("ready", name)
    number = 0
    while not stop.wait(PUBLISH_SECONDS):
        number += 1
        _publish(name, number, history)
        if requested.is_set():
            requested.clear()
            children = [fork.Process(target=_run_child, args=(name, folder)) for _ in range(CHILDREN)]
            for child in children:
                child.start()
            while any(child.is_alive() for child in children):
                number += 1
                _publish(name, number, history)
                children[0].join(PUBLISH_SECONDS)
            for child in children:
                child.join()
            history.add("forked", *(child.exitcode for child in children))
    history.add("stopped", name)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
