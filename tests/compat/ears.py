"""Ears: callbacks of old style that remember what they heard, and what their tests share."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from ringrift_compat.ambient import ambient
from ringrift_compat.events import get_router
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

QUICK = """
[bus]
redeliver_seconds = 0.05
poll_seconds = 0.05
redelivery = { first_seconds = 0.05, seconds_max = 0.1, tries = 3 }
"""
SLOW = QUICK.replace("first_seconds = 0.05, seconds_max = 0.1", "first_seconds = 3600.0")
"""Failed deliveries are tried again only when somebody asks for it."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for the ambient node, where failed deliveries are tried again soon."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    (tmp_path / "ringrift.toml").write_text(QUICK)
    yield tmp_path
    ambient.shutdown()


def on_a_loop(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a story for a loop of its own."""

    @wraps(story)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(story(*args, **fixtures))

    return run


class Ears:
    """Callbacks that remember what they heard, and where."""

    def __init__(self) -> None:
        self.heard: list[RouterEvent] = []
        self.threads: list[int] = []

    def plain(self, event: RouterEvent) -> None:
        """A plain callback."""
        self.heard.append(event)
        self.threads.append(threading.get_ident())

    async def awaited(self, event: RouterEvent) -> None:
        """An async callback."""
        await asyncio.sleep(0)
        self.plain(event)

    async def until(self, count: int) -> list[RouterEvent]:
        """What was heard, once it is so much and nothing more is on its way."""
        await wait_until(lambda: len(self.heard) >= count)
        marker = Ears()
        get_router().subscribe("MARKER_EVENT", marker.plain)
        await get_router().publish("MARKER_EVENT", {"for": uuid.uuid4().hex})
        await wait_until(lambda: bool(marker.heard))
        get_router().unsubscribe("MARKER_EVENT", marker.plain)
        return self.heard
