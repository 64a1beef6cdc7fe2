"""The way of a documented publish from the call to the log: few modules, each with one task."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from app.coordination.event_emitters import emit_host_offline
from app.coordination.event_router import publish

import ringrift
from ringrift_compat.embedded_node import embedded

SOURCE = Path(ringrift.__file__).parents[1]
MODULES_MAX = 9
LOG = "ringrift/store"
UNCOUNTED = ("ringrift/kernel", "ringrift/threads")
"""Clock, ids and threads: tools that every module has at hand, and no stop on the way."""


class Profile:
    """The modules of ours in which functions run, in the order of their first call, until the log has the event."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if not self.is_on or event != "call" or not path.is_relative_to(SOURCE):
            return
        module = path.relative_to(SOURCE).with_suffix("").as_posix()
        if module.startswith(UNCOUNTED):
            return
        module = LOG if module.startswith(LOG) else module
        if module not in self.modules:
            self.modules.append(module)
        if frame.f_code.co_name == "append" and module == LOG:
            self.is_on = False


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profile]:
    """A profile of every thread of this program, which has a home of its own."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    profile = Profile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    yield profile
    sys.setprofile(None)
    threading.setprofile(None)
    embedded.shutdown()


CALLS: dict[str, Callable[..., Any]] = {
    "an event of ours": lambda **fields: publish("HOST_OFFLINE", {"node_id": "n", "duration": 7.5, **fields}),
    "a custom event": lambda **fields: publish("CUSTOM_EVENT", fields, "test"),
    "an emitter": lambda n: emit_host_offline(node_id="n", duration=float(n)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_publish_passes_few_modules(profile: Profile, call: str) -> None:
    """The path from the documented call to the log is short for every event."""

    async def story() -> None:
        await CALLS[call](n=1)  # the first one opens the node
        profile.is_on = True
        await CALLS[call](n=2)

    asyncio.run(story())

    assert profile.modules[-1] == LOG
    checks = call == "an emitter"  # it checks its fields first
    assert len(profile.modules) <= MODULES_MAX + checks, profile.modules
