"""EventRecorder: old-style callbacks that record their events, and the helpers that its tests share."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent
from wait import wait_until

QUICK = """
[bus]
redeliver_seconds = 0.05
poll_seconds = 0.05
redelivery = { first_seconds = 0.05, seconds_max = 0.1, tries = 3 }
"""
SLOW = QUICK.replace("first_seconds = 0.05, seconds_max = 0.1", "first_seconds = 3600.0")
"""Failed deliveries are retried only when a test requests it."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for the embedded node, where failed deliveries are tried again soon."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    (tmp_path / "ringrift.toml").write_text(QUICK)
    yield tmp_path
    embedded.shutdown()


def async_test(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on an event loop of its own."""

    @wraps(story)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(story(*args, **fixtures))

    return run


class EventRecorder:
    """Callbacks that record which events they received, and on which thread or loop."""

    def __init__(self) -> None:
        self.events: list[RouterEvent] = []
        self.threads: list[int] = []

    def plain(self, event: RouterEvent) -> None:
        """A plain callback."""
        self.events.append(event)
        self.threads.append(threading.get_ident())

    async def awaited(self, event: RouterEvent) -> None:
        """An async callback."""
        await asyncio.sleep(0)
        self.plain(event)

    async def until(self, count: int) -> list[RouterEvent]:
        """Return the recorded events once there are *count* of them and no delivery is pending."""
        await wait_until(lambda: len(self.events) >= count)
        marker = EventRecorder()
        get_router().subscribe("MARKER_EVENT", marker.plain)
        await get_router().publish("MARKER_EVENT", {"for": uuid.uuid4().hex})
        await wait_until(lambda: bool(marker.events))
        get_router().unsubscribe("MARKER_EVENT", marker.plain)
        return self.events
